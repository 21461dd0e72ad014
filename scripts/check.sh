#!/usr/bin/env bash
# All that must hold before a change lands. CI=true installs missing Debian packages;
# elsewhere what they would test is left out, and named at the end.
set -eu
cd "$(dirname "$0")/.."
step() { printf '\n== %s\n' "$*"; }
began=$SECONDS

step "Debian packages that the tests use"
if [ "${CI:-}" = true ]; then scripts/deps.sh install; fi
missing=$(scripts/deps.sh missing | tr '\n' ' ')
[ -z "${missing// /}" ] || echo "missing: $missing"

step "format, vet, build"
unformatted=$(gofmt -l . ); [ -z "$unformatted" ] || { echo "gofmt -w these: $unformatted"; exit 1; }
go build ./...
go vet ./...
(cd bench/ws && go vet .) # a module of its own

step "agent and CLI for the other platforms"
scripts/cross.sh

step "tests"
left_out=$(mktemp); trap 'rm -f "$left_out"' EXIT
MUSTER_LEFT_OUT=$left_out go test -timeout 10m ./...

step "race detector, on packages that start goroutines or lock"
if command -v gcc >/dev/null; then
  concurrent=$(grep -rlE '^\s*go |\.Go\(|sync\.(Mutex|RWMutex|Cond|Map|Pool|WaitGroup)|atomic\.' --include='*.go' --exclude='*_test.go' internal | xargs -n1 dirname | sort -u | sed 's#^#./#')
  # shellcheck disable=SC2086
  CGO_ENABLED=1 go test -race -short -timeout 8m $concurrent
else
  echo "left out: the race detector needs gcc" | tee -a "$left_out"
fi

step "fuzzing, ${FUZZTIME:-20s} a target"
scripts/fuzz.sh "${FUZZTIME:-20s}"

if [ -s "$left_out" ]; then
  step "left out on this machine (make deps installs what is missing)"
  sort -u "$left_out"
fi
echo
echo "make check: all passed in $((SECONDS - began)) s"
