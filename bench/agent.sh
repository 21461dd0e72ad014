#!/usr/bin/env bash
# What bin/muster-agent costs a machine: bench/agent.sh SERVER STATE-DIR SECONDS, with a
# context of the server's administrator in MUSTER_CONTEXT. bench/run.sh agent calls it.
set -eu
server=$1 state=$2 seconds=$3
echo "# $(bin/muster-agent --version | head -1), $(uname -sr), $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg)"
size=$(stat -c %s bin/muster-agent)
token=$(bin/muster node token --uses 1 -o json | sed -nE 's/.*"token": *"([^"]+)".*/\1/p')
MUSTER_TOKEN=$token bin/muster-agent --server "$server" --state-dir "$state" --name bench-agent >"$state.log" 2>&1 &
pid=$!
trap 'kill $pid 2>/dev/null; wait $pid 2>/dev/null || true' EXIT

ticks=$(getconf CLK_TCK)
cpu() { sed 's/^.*) //' "/proc/$pid/stat" | awk -v hz="$ticks" '{ print 1000 * ($12 + $13) / hz, 1000 * ($14 + $15) / hz }'; } # ms: own, of children
of() { awk -v f="$1:" '$1 == f { printf "%.1f", $2 / 1024 }' "/proc/$pid/status"; }
asked() { awk -v is="$1" -v most="$2" 'BEGIN { print (is <= most ? "OK" : "short") }'; }

# measured CHECKS: what one minute costs, after the first runs
measured() {
  sleep 20
  grep -q 'msg=connected' "$state.log" || { echo "the agent did not connect:"; cat "$state.log"; exit 1; }
  local before after own children
  before=$(cpu); sleep "$seconds"; after=$(cpu)
  read -r own children <<<"$(echo "$before $after $seconds" | awk '{ print ($3 - $1) * 60 / $5, ($4 - $2) * 60 / $5 }')"
  echo "checks $1: CPU $own ms per minute ($(awk -v ms="$own" 'BEGIN { printf "%.3f", ms / 600 }') % of a core), commands $children ms; resident $(of VmRSS) MiB, most $(of VmHWM) MiB"
}
measured 0
{
  for i in $(seq 28); do printf -- '---\napiVersion: muster/v1\nkind: Check\nmetadata: {name: command-%s}\nspec: {targets: {nodes: [bench-agent]}, interval: 60s, command: "true"}\n' "$i"; done
  for p in agent clock load memory processes reboot swap disk; do
    printf -- '---\napiVersion: muster/v1\nkind: Check\nmetadata: {name: probe-%s}\nspec: {targets: {nodes: [bench-agent]}, interval: 60s, probe: {name: %s}}\n' $p $p
  done
  for i in 1 2 3 4; do printf -- '---\napiVersion: muster/v1\nkind: Check\nmetadata: {name: tcp-%s}\nspec: {targets: {nodes: [bench-agent]}, interval: 60s, probe: {name: tcp, args: {address: "%s"}}}\n' "$i" "$server"; done
} >"$state.yaml"
bin/muster apply -f "$state.yaml" --yes >/dev/null
measured 40
ran=$(bin/muster describe event bench-agent/probe-agent | grep -oE '\bruns=[0-9]+' | head -1)
[ -n "$ran" ] || { echo "the agent's own check has no result"; exit 1; }
echo "since its start: $ran"
echo "asked: binary of at most 15 MB: $(awk -v b="$size" 'BEGIN { printf "%.1f", b / 1e6 }') MB, $(asked "$size" 15000000)"
echo "asked: at most 25 MiB resident with 40 checks: $(of VmRSS) MiB, $(asked "$(of VmRSS)" 25)"
