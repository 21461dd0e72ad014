#!/usr/bin/env bash
# fuzz.sh [TIME] [FOLDER]: runs every fuzz target for TIME (20s), FUZZJOBS side by side (two
# for each core) with one worker each. A package's targets share one binary: instrumenting and
# linking costs more than starting. FOLDER is where fuzz.sh build FOLDER built them before. New
# inputs go where `go test -fuzz` keeps them; what is kept in the tree is under testdata/fuzz
# (scripts/corpus.sh). fuzz.sh list, fuzz.sh jobs: the targets, how many side by side.
set -eu
cd "$(dirname "$0")/.."
targets=$(grep -rHoE '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' . | sed -E 's#^\./(.*)/[^/]+:func (Fuzz.*)#\1 \2#' | sort -u)
[ -n "$targets" ] || { echo "fuzz: no targets found"; exit 1; }
[ "${1:-}" != list ] || { echo "$targets"; exit 0; }
jobs=${FUZZJOBS:-$((2 * $(getconf _NPROCESSORS_ONLN)))}
[ "${1:-}" != jobs ] || { echo "$jobs"; exit 0; }
build() { go test -c -vet=off -fuzz=. -ldflags=-w -o "$2/${1//\//-}.test" "./$1"; }
export -f build
build_all() { echo "$targets" | cut -d' ' -f1 | sort -u | xargs -P 2 -I{} bash -c 'build "$@"' - {} "$1"; }
[ "${1:-}" != build ] || { mkdir -p "$2"; build_all "$2"; exit 0; }
time=${1:-20s} out=${2:-}
case $time in
  *m) seconds=$((${time%m} * 60)) ;;
  *s) seconds=${time%s} ;;
  *) echo "fuzz: how long? 20s or 5m, not $time"; exit 2 ;;
esac
# Go ends a target in its time; this is for one that hangs.
limit=; if command -v timeout >/dev/null; then limit="timeout -k 5 $((seconds + 120))"; fi
export limit
if [ -z "$out" ]; then
  out=$(mktemp -d); trap 'rm -rf "$out"' EXIT
  build_all "$out"
fi
cache=$(go env GOCACHE)/fuzz/$(go list -m)
run() { # shellcheck disable=SC2086
  if ! said=$(cd "$1" && $limit "$4/${1//\//-}.test" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$3" \
    -test.fuzzminimizetime 2s -test.parallel 1 -test.fuzzcachedir "$5/$1" 2>&1); then
    # Go before 1.27 may fail by itself when the time is over (golang/go#75804). What an input
    # breaks, it writes down.
    case $said in
      *"Failing input written"* | *panic:*) ;;
      *"    context deadline exceeded"*) echo "fuzz: ./$1 $2: ended by golang/go#75804, no input failed"; return 0 ;;
    esac
    echo "$said"; for file in $(sed -n 's/.*Failing input written to //p' <<<"$said"); do cat "$1/$file"; done
    echo "fuzz: FAILED: go test -run '^\$' -fuzz '^$2\$' ./$1"; return 1
  fi
  echo "fuzz: ./$1 $2: $(echo "$said" | grep -oE 'execs: [0-9]+' | tail -1)"
}
export -f run
echo "$targets" | xargs -P "$jobs" -L 1 bash -c 'run "$3" "$4" "$1" "$2" "$0"' "$cache" "$time" "$out"
