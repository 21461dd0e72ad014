#!/usr/bin/env bash
# Runs every fuzz target for the given time, four at a time with one worker each. A
# package's targets share one binary: instrumenting and linking it costs more than a
# target's start. New inputs go where `go test -fuzz` keeps them.
set -eu
cd "$(dirname "$0")/.."
time=${1:-20s}
targets=$(grep -rHoE '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' . | sed -E 's#^\./(.*)/[^/]+:func (Fuzz.*)#\1 \2#' | sort -u)
[ -n "$targets" ] || { echo "fuzz: no targets found"; exit 1; }
out=$(mktemp -d); trap 'rm -rf "$out"' EXIT
cache=$(go env GOCACHE)/fuzz/$(go list -m)
build() { go test -c -fuzz=. -o "$2/${1//\//-}.test" "./$1"; }
run() {
  if ! said=$(cd "$1" && "$4/${1//\//-}.test" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$3" -test.fuzzminimizetime 2s \
    -test.parallel 1 -test.fuzzcachedir "$5/$1" 2>&1); then
    echo "$said"; echo "fuzz: FAILED: go test -run '^\$' -fuzz '^$2\$' ./$1"; return 1
  fi
  echo "fuzz: ./$1 $2: $(echo "$said" | grep -oE 'execs: [0-9]+' | tail -1)"
}
export -f build run
echo "$targets" | cut -d' ' -f1 | sort -u | xargs -P 2 -I{} bash -c 'build "$@"' - {} "$out"
echo "$targets" | xargs -P 4 -L 1 bash -c 'run "$3" "$4" "$1" "$2" "$0"' "$cache" "$time" "$out"
