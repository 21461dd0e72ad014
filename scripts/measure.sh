#!/usr/bin/env bash
# make measure: the standard measurements of bench/README.md, 25 minutes on a machine that does nothing else.
# Each scenario plays on a server of its own; its run.json becomes bench/results/NAME.json, and the tables of
# bench/results/README.md are made from all of them.
#
#   scripts/measure.sh                                all
#   scripts/measure.sh rate-16k stages                some: scenarios of muster load list, stages, fleet, agent, zabbix, remote-write, sensu
#   OUT=/tmp/x FLAGS=--quick scripts/measure.sh       elsewhere, with flags of muster load run
set -eu
cd "$(dirname "$0")/.."
out=${OUT:-bench/results}
mkdir -p "$out"
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT

head() { echo "# $(git describe --always --dirty 2>/dev/null || echo unknown), $(go env GOVERSION), $(uname -sr), $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg)"; }
# figures PATTERN: what long tests of the built binary measure
figures() { head; MUSTER_TEST_LONG=1 go test ./test -count=1 -v -parallel 1 -timeout 30m -run "$1" | sed -nE 's/^.*_test\.go:[0-9]+: figure: //p; /^(--- FAIL|FAIL)/p'; }
# besides PATTERN: a benchmark of the built binary beside others
besides() { head; (cd test && go test -vet=off -run xxx -bench "$1" -benchtime 1x .) | grep -E '^Benchmark|SKIP|to run it|FAIL'; }
play() {
  local lag=
  case $1 in storm-* | restart-* | crash-*) lag=--max-lag=1500ms ;; esac # the storm takes the loader's time, too
  bin/muster load run "$1" --out "$runs/$1" $lag ${FLAGS:-} || echo "   $1: see the verdict above"
  [ ! -e "$runs/$1/run.json" ] || sed "s|$PWD/||g; s|$runs/|muster-load/|g" "$runs/$1/run.json" >"$out/$1.json" # without the folders of this machine
}

[ $# -gt 0 ] || set -- rate-1k rate-16k rate-16k-tls frame-8 storm-15k storm-15k-tls restart-15k-tls crash-500k states-1.5m stages fleet agent
for name in "$@"; do
  case $name in
  stages) bench/stages.sh | tee "$out/stages.txt" ;;
  fleet) figures '^(TestFleetLifecycle|TestFactChangeUpdatesGroups)$' | tee "$out/life.txt" ;;
  agent) figures '^TestAgentCost$' | tee "$out/agent.txt" ;;
  zabbix) besides 'TrapperBeside' | tee "$out/zabbix.txt" ;;
  remote-write) besides 'RemoteWriteBeside' | tee "$out/remote-write.txt" ;;
  sensu) : "${MUSTER_SENSU_LOADIT:?the path of loadit, the load generator of Sensu Go}" && figures '^TestSensuGenerator' | tee "$out/sensu-generator.txt" ;;
  *) play "$name" ;;
  esac
done
if compgen -G "$out/*.json" >/dev/null; then
  # The text above the tables is written by hand, and stays.
  { sed '/^## /,$d' bench/results/README.md; bin/muster load table "$out"/*.json; } >"$out/README.md.new"
  mv "$out/README.md.new" "$out/README.md"
fi
