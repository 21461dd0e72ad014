#!/usr/bin/env bash
# fuzz.sh TIME [PACKAGE…]: runs every fuzz target (of these packages) for TIME, two for each core side by side
# with one worker each. A package's targets share one binary: instrumenting and linking costs more than starting.
# New inputs go where `go test -fuzz` keeps them; what is kept in the tree is under testdata/fuzz
# (scripts/corpus.sh). fuzz.sh list: package and target, a line each.
set -eu
cd "$(dirname "$0")/.."
targets=$(grep -rHoE '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' . | sed -E 's#^\./(.*)/[^/]+:func (Fuzz.*)#\1 \2#' | sort -u)
[ "${1:-}" != list ] || { echo "$targets"; exit 0; }
time=${1:-20s}; shift || true
case $time in
  *m) seconds=$((${time%m} * 60)) ;;
  *s) seconds=${time%s} ;;
  *) echo "fuzz: expected a time such as 20s or 5m, got $time" >&2; exit 2 ;;
esac
[ $# = 0 ] || targets=$(printf '%s\n' "$@" | sed 's#^\./##' | awk 'NR == FNR { want[$1]; next } $1 in want' - <(echo "$targets"))
[ -n "$targets" ] || { echo "fuzz: no targets in $*" >&2; exit 2; }
out=$(mktemp -d); trap 'rm -rf "$out"' EXIT
cache=$(go env GOCACHE)/fuzz/$(go list -m)
build() { go test -c -vet=off -fuzz=. -ldflags=-w -o "$2/${1//\//-}.test" "./$1"; }
run() { # OUT CACHE TIME SECONDS PACKAGE TARGET
  # Go ends a target in its time; the limit is for one that hangs.
  if ! log=$(cd "$5" && timeout -k 5 $(($4 + 120)) "$1/${5//\//-}.test" -test.run '^$' -test.fuzz "^$6\$" -test.fuzztime "$3" \
    -test.fuzzminimizetime 2s -test.parallel 1 -test.fuzzcachedir "$2/$5" 2>&1); then
    # Go before 1.27 may fail by itself when the time is over (golang/go#75804): then no input is written.
    case $log in
      *"Failing input written"* | *panic:*) ;;
      *"    context deadline exceeded"*) echo "fuzz: ./$5 $6: ended by golang/go#75804, no input failed"; return 0 ;;
    esac
    echo "$log"; for file in $(sed -n 's/.*Failing input written to //p' <<<"$log"); do cat "$5/$file"; done
    echo "fuzz: FAILED: go test -run '^\$' -fuzz '^$6\$' ./$5"; return 1
  fi
  echo "fuzz: ./$5 $6: $(echo "$log" | grep -oE 'execs: [0-9]+' | tail -1)"
}
export -f build run
echo "$targets" | cut -d' ' -f1 | sort -u | xargs -P 2 -I{} bash -c 'build "$@"' - {} "$out"
echo "$targets" | xargs -P $((2 * $(getconf _NPROCESSORS_ONLN))) -L 1 bash -c 'run "$@"' - "$out" "$cache" "$time" "$seconds"
