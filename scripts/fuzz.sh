#!/usr/bin/env bash
# Runs every fuzz target for the given time, four at a time with one worker each.
set -eu
cd "$(dirname "$0")/.."
time=${1:-20s}
targets=$(grep -rHoE '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' . | sed -E 's#^\./(.*)/[^/]+:func (Fuzz.*)#./\1 \2#' | sort -u)
[ -n "$targets" ] || { echo "fuzz: no targets found"; exit 1; }
run() {
  if ! out=$(go test -run '^$' -fuzz "^$2\$" -fuzztime "$3" -fuzzminimizetime 2s -parallel 1 "$1" 2>&1); then
    echo "$out"; echo "fuzz: FAILED: go test -run '^\$' -fuzz '^$2\$' $1"; return 1
  fi
  echo "fuzz: $1 $2: $(echo "$out" | grep -oE 'execs: [0-9]+' | tail -1)"
}
export -f run
echo "$targets" | xargs -P 4 -L 1 bash -c 'run "$0" "$1" '"$time"
