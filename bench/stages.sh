#!/usr/bin/env bash
# Go benchmarks of each stage on a result's way, and of what is asked of the view.
# Figures to compare with benchstat; bench/README.md says what they mean.
set -eu
cd "$(dirname "$0")/.."
echo "# $(git describe --always --dirty 2>/dev/null || echo unknown), $(uname -sr), $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg)"
bench() { echo "# go test -run '^\$' -bench '$2' ./$1"; go test -run '^$' -benchmem -benchtime "${BENCHTIME:-1s}" -timeout 20m -bench "$2" "./$1" | grep -E '^(Benchmark|cpu:|---|FAIL)' ; }
bench internal/wire 'ReadBatch|AppendSignal|AppendBatch'
bench internal/wsconn 'RoundTrip'
bench internal/source/muster 'Batch$'
bench internal/journal 'Commit$|Append$'
bench internal/pipeline/event 'Apply|Tick|List'
bench internal/api 'Where'
bench internal/react 'Record|Emit'
bench internal/load 'Generate|Frame'
