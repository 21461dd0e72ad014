package event

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// One signal for every way out of the pipeline: received is the sum of the outcomes.
func TestEverySignalHasOneOutcome(t *testing.T) {
	chunks := map[model.ChunkID]*model.Chunk{
		10: {ID: 10, Check: 1000}, 12: {ID: 12, Check: 1002},
	}
	registry := prometheus.NewPedanticRegistry()
	r := run(t, Options{Registerer: registry, Chunks: func(id model.ChunkID) *model.Chunk { return chunks[id] }}, nil)
	result := func(chunk model.ChunkID, at uint64) wire.Signal {
		return wire.ResultSignal(wire.Signal{Chunk: chunk, AtMs: at}, wire.Result{})
	}
	c := newCommit(1, time.Minute, 0)
	c.add(section(1), &wire.Record{Kind: wire.RecordForget, Node: 1, Forget: &wire.ForgetMark{Check: 1002, Gone: true}})
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

	want := map[outcome]float64{applied: 1, unknownChunk: 1, forgotten: 1, keepalive: 1, duplicate: 1, late: 1, lost: 3, malformed: 1, unknownKind: 1}
	sum := 0.0
	for o := range outcomes {
		got := testutil.ToFloat64(r.metrics.outcomes[o])
		sum += got
		if got != want[o] {
			t.Errorf("%s: %v, want %v", o, got, want[o])
		}
	}
	if received := testutil.ToFloat64(r.metrics.received); received != sum || received != 11 {
		t.Errorf("received %v, the outcomes are %v, want 11", received, sum)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v %v", problems, err)
	}
}
