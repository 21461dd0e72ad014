#!/usr/bin/env bash
# Price of each switch of directives: a run of a minute each, with one field changed. It prints the table of
# docs/load-reference.md, What switches of directives cost. MUSTER names the program, AGENTS the number of nodes.
set -eu
cd "$(dirname "$0")/.."
muster=${MUSTER:-bin/muster} out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cat >"$out/base.yaml" <<YAML
scenario: muster.load/v1
title: price of a switch
agents:
  - name: node
    count: ${AGENTS:-300}
    inventory: 25kB
    policies: [{name: base, components: 355, directives: 325, policies: 157, groups: 454, interval: 10s, failing: 0.03, changes: 1}]
phases: [{ramp: 10s}, {steady: 60s, warmup: 20s}, {drain: 60s}]
YAML
echo "# $(git describe --always --dirty 2>/dev/null || echo unknown), $(uname -sr), $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg)"
echo "SWITCH | µs of processor per component | bytes of journal per component | MB resident"
run() { # NAME SED-EXPRESSION
  sed -e "$2" "$out/base.yaml" >"$out/one.yaml"
  "$muster" load run "$out/one.yaml" --out "$out/$3" --max-lag 1h >"$out/log" 2>&1 || { cat "$out/log"; exit 1; }
  jq -r --arg name "$1" '.figures | [$name, (."server-cpu" * 100 | round / 100), (."journal-bytes" * 10 | round / 10), (."server-memory" | round)] | join(" | ")' "$out/$3/run.json"
}
run 'full reports, each run differs' '' base
run 'full reports, a tenth of the runs differs' 's/changes: 1/changes: 0.1/' tenth
run 'full reports, equal runs' 's/changes: 1/changes: 0/' equal
run 'without inventory' '/inventory:/d' bare
run 'no component fails' 's/failing: 0.03/failing: 0/' well
run '32 directives in place of 325' 's/directives: 325/directives: 32/; s/policies: 157/policies: 15/' few
run 'half as often' 's/interval: 10s/interval: 20s/' half
