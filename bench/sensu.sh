#!/usr/bin/env bash
# Processor time of the server per message of Sensu's own load generator, and 1,000 of its agents through a kill of the
# server: bench/sensu.sh LOADIT, the program cmd/loadit of sensu-go. scripts/measure.sh sensu calls it.
set -eu
cd "$(dirname "$0")/.."
export MUSTER_SENSU_LOADIT=$1 MUSTER_TEST_LONG=1
run=(go test ./test -count=1 -v -parallel 1 -timeout 30m -run '^TestSensuGenerator')
echo "# $(git describe --always --dirty 2>/dev/null || echo unknown), $(go env GOVERSION), $(uname -sr), $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg)"
echo "# ten checks with the canned result, every 10 s; MUSTER_SENSU_LOADIT=… MUSTER_TEST_LONG=1 ${run[*]}"
said=$("${run[@]}" 2>&1) || { tail -50 <<<"$said"; exit 1; }
sed -nE 's/^.*_test\.go:[0-9]+: figure: //p' <<<"$said"
