#!/usr/bin/env bash
# The life of a fleet, counted by tests of the built binary that check these counts, too:
# nodes renamed, replaced and retired, and a fact that changes on every node, while results flow.
set -eu
cd "$(dirname "$0")/.."
run=(go test ./test -count=1 -v -parallel 1 -timeout 20m -run '^(TestFleetLifecycle|TestFleetFactChange)$')
echo "# $(git describe --always --dirty 2>/dev/null || echo unknown), $(go env GOVERSION), $(uname -sr), $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg)"
echo "# MUSTER_TEST_LONG=1 ${run[*]}"
said=$(MUSTER_TEST_LONG=1 "${run[@]}" 2>&1) || { tail -50 <<<"$said"; exit 1; }
sed -nE 's/^.*_test\.go:[0-9]+: figure: //p' <<<"$said"
