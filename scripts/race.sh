#!/usr/bin/env bash
# race.sh build FOLDER [PACKAGE…]: builds the tests of every package that starts goroutines or
# locks, or of these, for the race detector. race.sh run [-j JOBS] FOLDER [PACKAGE…]: runs them, or those of these
# packages, -short. Apart, because building has no deadlines and can go on beside what waits.
# race.sh list: the packages.
set -eu
cd "$(dirname "$0")/.."
limit=5m
# What SQLite works on is not Go's memory, which is all that the detector looks at: looking
# there took two thirds of the time of tests that store something.
blind=(-gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false)
list() {
  grep -rlE '^\s*go |\.Go\(|sync\.(Mutex|RWMutex|Cond|Map|Pool|WaitGroup)|atomic\.' --include='*.go' --exclude='*_test.go' internal | xargs -n1 dirname | sort -u
}
run() { # FOLDER BINARY
  local package=${2#"$1"/} began=$SECONDS said
  package=${package%.test}; package=${package//+/\/}
  if ! said=$(cd "$package" && "$2" -test.short -test.paniconexit0 -test.timeout "$limit" 2>&1); then
    printf '%s\nFAIL\t./%s\n' "$said" "$package"
    return 1
  fi
  printf 'ok\t./%s\t%ds\n' "$package" $((SECONDS - began))
}
export limit; export -f run
case "${1:-}" in
  list) list ;;
  # go test hands each binary, in its package's folder, to race.sh keep, which keeps it.
  build)
    mkdir -p "$2"; folder=$2; shift 2
    [ $# -gt 0 ] || mapfile -t all < <(list)
    CGO_ENABLED=1 go test -race -vet=off -count=1 "${blind[@]}" -exec "'$PWD/scripts/race.sh' keep '$folder' '$PWD'" \
      $(printf './%s ' "${@:-${all[@]}}") >"$folder/said" || { cat "$folder/said"; exit 1; }
    ;;
  keep) package=${OLDPWD#"$3"/}; mv "$4" "$2/${package//\//+}.test" ;;
  run)
    shift; jobs=$(getconf _NPROCESSORS_ONLN)
    if [ "$1" = -j ]; then jobs=$2; shift 2; fi
    folder=$1; shift
    # The largest first: they hold a server and take longest.
    if [ $# -gt 0 ]; then for p in "$@"; do echo "$folder/${p//\//+}.test"; done; else ls -S "$folder"/*.test; fi |
      xargs -P "$jobs" -I{} bash -c 'run "$@"' - "$folder" {}
    ;;
  *) echo "usage: race.sh build|run FOLDER" >&2; exit 2 ;;
esac
