#!/usr/bin/env bash
# The benchmarks of bench/README.md. Reports go to bench/results/, one JSON each, and
# bench/results/README.md is made from them.
#
#   bench/run.sh                    all scenarios, 60 s each
#   bench/run.sh list               their names
#   SECONDS_EACH=15 bench/run.sh rate-16k storm-15k
#   DIVIDE=20 bench/run.sh          a twentieth of the agents and rates, to bench/out: does it work here?
#   TARGET=spine bench/run.sh       session, journal and view alone
#   BENCH_DIR=/mnt/disk             where the data folder is made (default: the temporary folder)
set -eu
cd "$(dirname "$0")/.."
[ -z "${SCALE:-}" ] || { echo "bench/run.sh: SCALE is DIVIDE now: DIVIDE=20 is a twentieth of everything"; exit 2; }
each=${SECONDS_EACH:-60}
divide=${DIVIDE:-1}
target=${TARGET:-server}
port=${BENCH_PORT:-$((10000 + RANDOM % 20000))} # agents plain; the next two: agents with TLS and people, admin
out=${OUT:-bench/results}
[ "$divide" = 1 ] || out=${OUT:-bench/out}

if [ "${1:-}" = list ]; then sed -nE 's/^([a-z0-9.-]+)\(\) \{ # (.*)$/\1\t\2/p' "$0"; exit; fi
[ -x bin/muster ] || { echo "bench/run.sh: there is no bin/muster; type: make build"; exit 2; }
bin=bin/muster
if [ "$target" = spine ]; then
  bin=bin/spine
  CGO_ENABLED=0 go build -trimpath -o $bin ./bench/spine
fi
data=$(mktemp -d "${BENCH_DIR:-${TMPDIR:-/tmp}}/muster-bench.XXXXXX")
mkdir -p "$out"
beside= # process of ours beside the server
trap '[ -z "$beside" ] || kill "$beside" 2>/dev/null; stop; rm -rf "$data"' EXIT

# gone PID: all its threads ended, perhaps not yet waited for
gone() { [ ! -e "/proc/$1/status" ] || awk '/^State:/ { s = $2 } /^Threads:/ { t = $2 } END { exit !(s ~ /[ZX]/ && t < 2) }' "/proc/$1/status" 2>/dev/null; }
stop() {
  [ -e "$data/pid" ] || return 0
  local pid; pid=$(cat "$data/pid"); rm "$data/pid"
  kill "$pid" 2>/dev/null || return 0
  for _ in $(seq 600); do gone "$pid" && return; sleep 0.1; done
  kill -9 "$pid"
}

# start AGENTS CHECKS INTERVAL TLS(0|1): a server on an empty folder
start() {
  stop; rm -rf "${data:?}"/*
  nodes=$1 checks=$2 interval=$3 tls=$4
  local listen=127.0.0.1:$((port + 1)) admin=127.0.0.1:$((port + 2)) server
  if [ "$target" = server ]; then
    $bin load prepare --data "$data" --agents "$nodes" --checks "$checks" --interval "$interval" >/dev/null
    echo "four plain bench words" >"$data/password"
    server=($bin server --data "$data" --listen $listen --listen-plain 127.0.0.1:$port --listen-admin $admin --admin-password-file "$data/password")
  else
    server=($bin serve --data "$data" --agents "$nodes" --checks "$checks" --interval "$interval" --admin $admin)
    if [ "$tls" = 1 ]; then server+=(--tls --listen $listen); else server+=(--listen 127.0.0.1:$port); fi
  fi
  { printf '%q ' "${server[@]}"; printf '>>%q 2>&1 &\necho $! >%q\n' "$data/server.log" "$data/pid"; } >"$data/launch"
  sh "$data/launch"
  for _ in $(seq 1200); do
    ! gone "$(cat "$data/pid")" || break
    curl -fsS -o /dev/null "http://$admin/readyz" 2>/dev/null && return
    sleep 0.1
  done
  echo "the server did not start:"; tail -20 "$data/server.log"; exit 1
}

# crash: a script that kills the server, drops the page cache where it may (what the
# server keeps is synced, so all of it goes), and starts it again
crash() {
  cat >"$data/crash" <<END
$(declare -f gone)
pid=\$(cat "$data/pid")
kill -9 \$pid
until gone \$pid; do sleep 0.01; done
if [ "\${1:-}" = cold ]; then { echo 3 >/proc/sys/vm/drop_caches; } 2>/dev/null || echo "the page cache could not be dropped (not root)" >&2; fi
. "$data/launch"
END
}

# run NAME flags…: one load run against what was started
run() {
  local name=$1; shift
  echo "== $name ($target)"
  local where=(--server 127.0.0.1:$port)
  [ "$tls" = 0 ] || where=(--server 127.0.0.1:$((port + 1)) --tls --data "$data")
  $bin load run "${where[@]}" --admin http://127.0.0.1:$((port + 2)) --server-pid "$data/pid" --agents "$nodes" --checks "$checks" \
    --duration "${each}s" --title "$name ($target)" --out "$out/$name.json" "$@" || echo "   $name: see the verdict above"
  ! gone "$(cat "$data/pid")" || { echo "   $name: the server has ended:"; tail -20 "$data/server.log"; }
}

# n NUMBER: divided
n() { echo $(($1 / divide > 0 ? $1 / divide : 1)); }

login() {
  export MUSTER_CONTEXT="$data/context"
  bin/muster login https://127.0.0.1:$((port + 1)) --ca "$data/pki/ca.crt" --password-file "$data/password" >/dev/null
}

goals16=(--goal beyond-p99=60 --goal machine=30)
rate-1k() { # 1,000 results/s: bytes on disk
  start "$(n 500)" 10 5s 0; run rate-1k --interval 5s; }
rate-16k() { # 16,000 results/s, plain: latency, CPU, bytes on disk
  start "$(n 2000)" 40 5s 0; run rate-16k --interval 5s "${goals16[@]}" --goal server-cpu=12; }
rate-16k-tls() { # the same with mutual TLS
  start "$(n 2000)" 40 5s 1; run rate-16k-tls --interval 5s "${goals16[@]}" --goal server-cpu=15; }
rate-38k() { # 38,000 results/s: bytes on disk
  start "$(n 9500)" 40 10s 0; run rate-38k --interval 10s --warmup 10s; }
frame-1() { # 60,000 results/s offered, one per frame
  start "$(n 2000)" 40 5s 0; run frame-1 --rate "$(n 60000)" --per-frame 1 --status-changes -1; }
frame-8() { # 150,000 results/s, eight per frame
  start "$(n 2000)" 40 5s 0; run frame-8 --rate "$(n 153000)" --per-frame 8 --goal rate="$(n 150000)"; }
frame-40() { # 300,000 results/s offered, forty per frame
  start "$(n 4000)" 40 5s 0; run frame-40 --rate "$(n 300000)" --per-frame 40 --status-changes -1; }
storm-15k() { # 15,000 agents, all cut at once, plain: memory per session, time until all are back; the storm takes the loader's time too
  start "$(n 15000)" 40 60s 0; run storm-15k --interval 60s --warmup 15s --max-lag 1500ms --reconnect-storm --goal agent-memory=12 --goal back=5; }
storm-15k-tls() { # the same with mutual TLS
  start "$(n 15000)" 40 60s 1; run storm-15k-tls --interval 60s --warmup 15s --max-lag 1500ms --reconnect-storm --goal agent-memory=30 --goal back=30; }
restart-15k() { # 15,000 agents whose server is killed and started again, plain
  start "$(n 15000)" 40 60s 0; crash; run restart-15k --interval 60s --warmup 15s --max-lag 1500ms --halfway "sh $data/crash" --goal back-serving=5; }
restart-15k-tls() { # the same with mutual TLS
  start "$(n 15000)" 40 60s 1; crash; run restart-15k-tls --interval 60s --warmup 15s --max-lag 1500ms --halfway "sh $data/crash" --goal back-serving=30; }
crash-500k() { # kill -9 at 50,000 results/s with 500,000 states, page cache dropped
  start "$(n 12500)" 40 10s 0; crash
  run crash-500k --interval 10s --warmup 15s --max-lag 250ms --halfway "sh $data/crash cold" --goal serving=10 --goal acknowledging=10; }
events-50k() { # 50,000 results/s, one in a hundred changes the status: with 100,000 silences, 10,000 routes and history; TARGET=spine is what it costs without
  start "$(n 4000)" 40 5s 0
  [ "$target" = spine ] || { login; events "$(n 100000)" "$(n 10000)"; }
  run events-50k --rate "$(n 50000)" --status-changes 0.01; }
# events SILENCES ROUTES: picked in turn by node, by check and label, by group and label, and by a condition; few of them hold for a problem
events() {
  mkdir -p "$data/events"
  awk -v silences="$1" -v routes="$2" -v nodes="$nodes" 'BEGIN {
    head = "apiVersion: muster/v1\nkind: %s\nmetadata: {name: %s, namespace: load}\nspec:\n"
    printf head "  command: \"true\"\n", "Handler", "nobody"
    for (i = 0; i < silences; i++) { printf "---\n" head "  reason: for the measurement\n" pick(i, "  "), "Silence", "s" i }
    for (i = 0; i < routes; i++) { printf "---\n" head "  match:\n" pick(i, "    ") "  groupWait: 1h\n  steps: [{to: [nobody]}]\n", "Route", "r" i }
  }
  # of i, indented by in
  function pick(i, in_) {
    if (i % 10 == 0) return in_ sprintf("targets: {where: %cnode.labels.rack == \"r%04d\" && \"only\" in node.labels%c}\n", 39, i % 100, 39)
    if (i % 3 == 0) return in_ sprintf("targets: {nodes: [load-%05d]}\n", i % nodes) in_ "checks: [load-039]\n"
    if (i % 3 == 1) return in_ sprintf("checks: [none-%d]\n", i)
    return in_ sprintf("labels: {rack: none-%d}\n", i)
  }' | awk -v dir="$data/events" 'NR == 1 || /^---$/ && ++n % 10000 == 0 { file = sprintf("%s/%03d.yaml", dir, n / 10000) } { print >file }'
  for file in "$data"/events/*.yaml; do bin/muster apply -f "$file" --yes >/dev/null; done; } # a file holds a million values
states-1.5m() { # 1,520,000 event states: memory of each, pages while 5,000 results/s flow
  start "$(n 40000)" 38 76s 0
  login
  run states-1.5m --fleet "$nodes" --agents "$(n 10000)" --rate "$(n 5000)" --duration "$((each > 180 ? each : 180))s" --pages 500 \
    --goal state-memory=600 --goal page-p99=100 --goal search-max=250; }
agent() { # bin/muster-agent alone: size, memory and CPU per minute, with no checks and with 40: bench/results/agent.txt
  [ "$target" = server ] || { echo "agent: left out, it needs the whole server"; return 0; }
  start 1 1 60s 0
  login
  bench/agent.sh "127.0.0.1:$((port + 1))" "$data/agent" "$each" | tee "$out/agent.txt"; }
life() { # 2,000 nodes: 100 renamed, 100 replaced, 200 retired, and a fact that changes on all, in counts: bench/results/life.txt
  [ "$target" = server ] || { echo "life: left out, it needs the whole server"; return 0; }
  bench/life.sh >"$data/life.txt" || { cat "$data/life.txt"; return 1; }
  tee "$out/life.txt" <"$data/life.txt"; }
stages() { # Go benchmarks of each stage: bench/results/stages.txt
  bench/stages.sh | tee "$out/stages.txt"; }

all=$(sed -nE 's/^([a-z0-9.-]+)\(\) \{ # .*$/\1/p' "$0" | tr '\n' ' ')
[ $# -gt 0 ] || set -- $all
for scenario in "$@"; do
  case " $all " in *" $scenario "*) "$scenario" ;; *) echo "no scenario $scenario; there are: $all"; exit 2 ;; esac
done
stop
if compgen -G "$out/*.json" >/dev/null; then
  # What stands above the tables is written by hand, and stays.
  { sed '/^## /,$d' bench/results/README.md; $bin load table "$out"/*.json; } >"$out/README.md.new"
  mv "$out/README.md.new" "$out/README.md"
fi
echo "bench/run.sh: reports in $out"
