#!/usr/bin/env bash
# The benchmarks of bench/README.md. Reports go to bench/results/, one JSON each, and
# bench/results/README.md is made from them.
#
#   bench/run.sh                    all scenarios, 60 s each
#   SECONDS_EACH=15 bench/run.sh rate-16k storm-15k
#   TARGET=spine bench/run.sh       session, journal and view alone (default: the server,
#                                   where bin/muster has one)
set -eu
cd "$(dirname "$0")/.."
each=${SECONDS_EACH:-60}
out=${OUT:-bench/results}
data=$(mktemp -d "${BENCH_DIR:-${TMPDIR:-/tmp}}/muster-bench.XXXXXX")
mkdir -p "$out" bin
server=
stop() { if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; server=; fi; }
trap 'stop; rm -rf "$data"' EXIT

CGO_ENABLED=0 go build -trimpath -o bin/spine ./bench/spine
target=${TARGET:-server}
if [ "$target" = server ] && ! bin/muster server --help >/dev/null 2>&1; then target=spine; fi
load() { if [ "$target" = server ]; then bin/muster load "$@"; else bin/spine load "$@"; fi; }

# start AGENTS CHECKS INTERVAL TLS(0|1): on an empty folder
start() {
  stop; rm -rf "${data:?}"/*
  nodes=$1 checks=$2 interval=$3 tls=$4
  if [ "$target" = server ]; then load prepare --data "$data" --agents "$nodes" --checks "$checks" --interval "$interval" >/dev/null; fi
  launch
}
launch() {
  if [ "$target" = server ]; then
    bin/muster server --data "$data" --listen 127.0.0.1:19443 --listen-plain 127.0.0.1:19442 --listen-admin 127.0.0.1:19444 >>"$data/server.log" 2>&1 &
  elif [ "$tls" = 1 ]; then
    bin/spine serve --data "$data" --agents "$nodes" --checks "$checks" --interval "$interval" --tls --listen 127.0.0.1:19443 --admin 127.0.0.1:19444 >>"$data/server.log" 2>&1 &
  else
    bin/spine serve --data "$data" --agents "$nodes" --checks "$checks" --interval "$interval" --listen 127.0.0.1:19442 --admin 127.0.0.1:19444 >>"$data/server.log" 2>&1 &
  fi
  server=$!
  for _ in $(seq 600); do curl -fsS -o /dev/null http://127.0.0.1:19444/metrics 2>/dev/null && return; sleep 0.1; done
  echo "the server did not start:"; tail -20 "$data/server.log"; exit 1
}

# run NAME flags…: one load run against what was started
run() {
  local name=$1; shift
  echo "== $name ($target)"
  local where=(--server 127.0.0.1:19442)
  [ "$tls" = 0 ] || where=(--server 127.0.0.1:19443 --tls --data "$data")
  load run "${where[@]}" --admin http://127.0.0.1:19444 --server-pid "$server" --agents "$nodes" --checks "$checks" \
    --duration "${each}s" --title "$name ($target)" --out "$out/$name.json" "$@" || echo "   $name: see the verdict above"
}

rate-1k()     { start 500 10 5s 0;   run rate-1k --interval 5s; }
rate-16k()    { start 2000 40 5s 0;  run rate-16k --interval 5s; }
rate-16k-tls(){ start 2000 40 5s 1;  run rate-16k-tls --interval 5s; }
rate-38k()    { start 9500 40 10s 0; run rate-38k --interval 10s; }
frame-1()     { start 2000 40 5s 0;  run frame-1 --rate 60000 --per-frame 1 --status-changes -1; }
frame-8()     { start 2000 40 5s 0;  run frame-8 --rate 150000 --per-frame 8 --status-changes -1; }
frame-40()    { start 2000 40 5s 0;  run frame-40 --rate 300000 --per-frame 40 --status-changes -1; }
storm-15k()     { start 15000 40 60s 0; run storm-15k --interval 60s --warmup 15s --reconnect-storm; }
storm-15k-tls() { start 15000 40 60s 1; run storm-15k-tls --interval 60s --warmup 15s --reconnect-storm; }

# kill -9 in the middle, page cache dropped where we may; the loader goes on through it.
crash-500k() {
  start 12500 40 10s 0
  ( sleep $((each / 2 + 25)); kill -9 "$server"; sync; echo 3 2>/dev/null >/proc/sys/vm/drop_caches || true; launch; echo "$server" >"$data/again" ) &
  local killer=$!
  run crash-500k --interval 10s --warmup 15s
  wait "$killer" || true
  stop; server=$(cat "$data/again" 2>/dev/null || true); stop
}

all=(rate-1k rate-16k rate-16k-tls rate-38k frame-1 frame-8 frame-40 storm-15k storm-15k-tls crash-500k)
[ $# -gt 0 ] || set -- "${all[@]}"
for scenario in "$@"; do
  case " ${all[*]} " in *" $scenario "*) "$scenario" ;; *) echo "no scenario $scenario; there are: ${all[*]}"; exit 2 ;; esac
done
stop
{
  echo "# Results"
  echo
  echo "Made by \`bench/run.sh\` from the JSON beside this page, which has machine, commit and"
  echo "command of each run. \`(spine)\` is session, journal and view alone; \`(server)\` the whole."
  echo "Server and loader share the machine; *load before* tells whether they had it for themselves."
  echo
  load table "$out"/*.json
} >"$out/README.md"
echo "bench/run.sh: reports in $out"
