#!/usr/bin/env bash
# fuzz-api.sh: schemathesis (from PyPI) sends requests made from the OpenAPI document to a server, with each role:
# test/hostile_schemathesis_test.go. Server and schemathesis run in a network namespace that reaches no other host.
# Where PyPI is out of reach, it says so and passes.
set -eu
cd "$(dirname "$0")/.."
version=4.32.5
tools="${XDG_CACHE_HOME:-$HOME/.cache}/muster/schemathesis-$version"
if [ ! -x "$tools/bin/schemathesis" ]; then
  echo "installing schemathesis $version into $tools"
  if ! { python3 -m venv "$tools" && "$tools/bin/pip" install --quiet "schemathesis==$version"; }; then
    rm -rf "$tools"
    line="schemathesis: not installed, and PyPI is out of reach. To run it: make fuzz-api"
    echo "$line"; [ -z "${MUSTER_LEFT_OUT:-}" ] || echo "$line" >>"$MUSTER_LEFT_OUT"
    exit 0
  fi
fi
export MUSTER_SCHEMATHESIS="$tools/bin/schemathesis"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go test -vet=off -c -o "$work/test" ./test
export MUSTER_TEST_BIN="${MUSTER_TEST_BIN:-$work/muster}"
[ -x "$MUSTER_TEST_BIN" ] || go build -o "$MUSTER_TEST_BIN" ./cmd/muster
cd test
unshare --map-root-user --net sh -c 'PATH="$PATH:/usr/sbin:/sbin"; ip link set lo up && exec "$0" "$@"' \
  "$work/test" -test.run '^TestRandomRequestsCauseNoServerError$' -test.v -test.timeout 30m
