#!/usr/bin/env bash
# Everything that must hold before a change lands. Nothing is run again to make it pass.
cd "$(dirname "$0")/.."
. scripts/steps.sh
missing=$(scripts/deps.sh missing | tr '\n' ' ')
[ -z "${missing// /}" ] || echo "missing Debian packages: $missing(make deps installs them; the tests that need them are named at the end)"

step "format" bash -c 'files=$(gofmt -l .); [ -z "$files" ] || { echo "gofmt -w these: $files"; exit 1; }'
step "build and vet" bash -c 'go build ./... && go vet ./... && for module in bench/ws deploy/oci; do (cd $module && go vet .) || exit 1; done'
step "package tests" make -s test
step "black-box smoke" go test -vet=off -short -timeout 5m -run '^TestSmoke' ./test
spare 4 "race detector on the spine" scripts/race.sh spine
spare 3 "lint" make -s lint
