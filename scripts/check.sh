#!/usr/bin/env bash
# Everything that must hold before a change lands. Nothing is run again to make it pass, and nothing is left out: a step that does
# not end in time has failed.
cd "$(dirname "$0")/.."
. scripts/steps.sh
missing=$(scripts/deps.sh missing | tr '\n' ' ')
[ -z "${missing// /}" ] || echo "missing Debian packages: $missing(make deps installs them; the tests that need them are named at the end)"

step "format" bash -c 'files=$(gofmt -l .); [ -z "$files" ] || { echo "gofmt -w these: $files"; exit 1; }'
step "build and vet" bash -c 'go build ./... && go vet ./... && cd deploy/oci && go vet .'
step "package tests" make -s test
step "black-box smoke" go test -vet=off -short -timeout 5m -run '^TestSmoke' ./test
step "race detector on the spine" scripts/race.sh spine
step "lint" make -s lint
