#!/usr/bin/env bash
# race.sh spine | all | PACKAGE…: package tests under the race detector, -short. `spine` is the way of every
# result; `all` adds every package that starts goroutines or locks. race.sh list spine | all prints them.
set -eu
cd "$(dirname "$0")/.."
list() {
  case $1 in
    spine) go list -f '{{.Dir}}' ./internal/{agent/{schedule,spool,link},source/{core,muster},journal,queue,pipeline/...,dispatch} | sed "s#^$PWD/##" ;;
    all) { list spine; grep -rlE '^\s*go |\.Go\(|sync\.(Mutex|RWMutex|Cond|Map|Pool|WaitGroup)|atomic\.' --include='*.go' --exclude='*_test.go' internal | xargs -n1 dirname; } | sort -u ;;
    *) printf '%s\n' "$@" ;;
  esac
}
[ "${1:-}" != list ] || { list "$2"; exit 0; }
[ $# -gt 0 ] || { echo "usage: race.sh spine|all|PACKAGE…" >&2; exit 2; }
command -v gcc >/dev/null || { echo "race detector: gcc is not installed. To run it: sudo apt-get install gcc libc6-dev" | tee -a "${MUSTER_LEFT_OUT:-/dev/null}"; exit 0; }
# SQLite keeps its data outside of Go's memory: instrumenting its code finds nothing and takes two thirds of the time.
# shellcheck disable=SC2046
CGO_ENABLED=1 exec go test -race -short -vet=off -timeout 15m -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false $(list "$@" | sed 's#^#./#')
