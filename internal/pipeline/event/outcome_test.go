package event

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/wire"
)

// One signal for every way out of the pipeline: received is the sum of the outcomes.
func TestEverySignalHasOneOutcome(t *testing.T) {
	chunks := map[model.ChunkID]*model.CheckChunk{
		10: {Chunk: model.Chunk{ID: 10, Unit: 1000}}, 12: {Chunk: model.Chunk{ID: 12, Unit: 1002}},
	}
	registry := prometheus.NewPedanticRegistry()
	r := run(t, options{Registerer: registry, Chunks: func(id model.ChunkID) *model.CheckChunk { return chunks[id] }}, nil)
	result := func(chunk model.ChunkID, at uint64) wire.Signal {
		return wire.ResultSignal(wire.Signal{Chunk: chunk, AtMs: at}, wire.Result{})
	}
	c := newCommit(1, time.Minute, 0)
	c.add(section(1), &wire.Record{Kind: wire.RecordForget, Node: 1, Forget: &wire.ForgetMark{Check: 1002, Deleted: true}})
	live := wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: 1, NowMs: 1000, Signals: []wire.Signal{
		result(10, 1000), // applied
		result(99, 1000), // unknown chunk
		result(12, 1000), // forgotten
		{Kind: wire.SignalKeepalive, AtMs: 1000},
	}}
	c.batch(t, 1, &live)
	// A signal of a kind that a later version may have: field 12 of it, empty.
	later := []byte{6<<3 | 2, 4, 1 << 3, 1, 12<<3 | 2, 0}
	_, body, err := wire.FrameKind(append(wire.AppendBatchHeader(nil, wire.StreamKey{Stream: 2}, 1, 1000, len(later)), later...))
	if err != nil {
		t.Fatal(err)
	}
	c.add(section(1), &wire.Record{Kind: wire.RecordBatch, Node: 1, Batch: body})
	c.batch(t, 1, &wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: 4, NowMs: 1000, Signals: []wire.Signal{result(10, 1000)}})                                                         // duplicate
	c.batch(t, 1, &wire.Batch{StreamKey: wire.StreamKey{Stream: 1, Lane: wire.Backlog}, First: 1, NowMs: 1000, Signals: []wire.Signal{result(10, 0)}})                                        // late
	c.batch(t, 1, &wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: 5, NowMs: 1000, Gap: &wire.Gap{Last: 7, Counts: []wire.GapCount{{Kind: wire.SignalResult, Chunk: 10, Count: 3}}}}) // lost ×3
	c.addBytes(section(1), append(wire.AppendBatchRecord(nil, 1), 0xff))                                                                                                                      // malformed
	r.apply(c)

	want := map[shard.Outcome]int{shard.Applied: 1, shard.UnknownChunk: 1, shard.Forgotten: 1, shard.Keepalive: 1, shard.Duplicate: 1, shard.Late: 1, shard.Lost: 3, shard.Malformed: 1, shard.UnknownKind: 1}
	var text strings.Builder
	text.WriteString("# HELP muster_event_signals_total Signals, by outcome.\n# TYPE muster_event_signals_total counter\n")
	sum := 0
	for o, n := range want {
		fmt.Fprintf(&text, "muster_event_signals_total{outcome=%q} %d\n", o, n)
		sum += n
	}
	fmt.Fprintf(&text, "# HELP muster_event_signals_received_total Signals found in the journal; the sum of muster_event_signals_total.\n# TYPE muster_event_signals_received_total counter\nmuster_event_signals_received_total %d\n", sum)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(text.String()), "muster_event_signals_total", "muster_event_signals_received_total"); err != nil || sum != 11 {
		t.Errorf("%d signals: %v", sum, err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v %v", problems, err)
	}
}
