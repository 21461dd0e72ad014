#!/usr/bin/env bash
# Go benchmarks of each stage on a result's way, and of what is asked of the view.
# Figures to compare with benchstat; bench/README.md says what they mean.
set -eu
missing=0
cd "$(dirname "$0")/.."
echo "# $(git describe --always --dirty 2>/dev/null || echo unknown), $(uname -sr), $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg)"
bench() { # PACKAGE PATTERN
  local run=(go test -run '^$' -bench "$2" -benchmem -benchtime "${BENCHTIME:-1s}" "./$1")
  echo "# ${run[*]}"
  "${run[@]}" -timeout 20m | grep '^Benchmark' || { echo "no benchmark of $1 is called $2"; missing=1; }
}
bench internal/wire 'ReadBatch|AppendSignal|AppendBatch'
bench internal/wsconn 'RoundTrip'
bench internal/source/muster 'Batch$'
bench internal/journal 'Commit$|Append$'
bench internal/pipeline/event 'Apply|Tick|List'
bench internal/api/events 'Where'
bench internal/where 'Where'
bench internal/route 'Find'
bench internal/dispatch 'Record|Emit'
BENCHTIME=400000x bench internal/store/history 'Record/changes'
BENCHTIME=100000x bench internal/store/history 'Record/problems'
bench internal/load/outputs 'Generate'
bench internal/load/play 'Frame'
exit $missing
