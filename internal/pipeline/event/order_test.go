package event

import (
	"testing"
	"time"
	"unsafe"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// There are millions of states.
func TestSlotIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(slot{}); size > 120 {
		t.Errorf("%d bytes per state, at most 120", size)
	}
}

// The order of a state is that of all its results, also of those that came too late to judge it
// and of those without an agent, whatever comes between them; what comes twice is in it once.
func TestOrderOfResults(t *testing.T) {
	chunks := map[model.ChunkID]*model.CheckChunk{11: {Chunk: model.Chunk{ID: 11, Unit: 1001}, Proxy: true}, 12: {Chunk: model.Chunk{ID: 12, Unit: 1002}}}
	result := func(chunk model.ChunkID, at uint64) wire.Signal {
		return wire.ResultSignal(wire.Signal{Chunk: chunk, AtMs: at}, wire.Result{})
	}
	batch := func(number, first uint64, stream wire.StreamID, signals ...wire.Signal) *commit {
		c := newCommit(number, time.Duration(number)*time.Minute, 0)
		c.batch(t, 1, &wire.Batch{StreamKey: wire.StreamKey{Stream: stream}, First: first, NowMs: 100_000, Signals: signals})
		return c
	}
	own := newCommit(4, 4*time.Minute, 0)
	own.add(section(1), &wire.Record{Kind: wire.RecordServerResult, Node: 1, ServerResult: &wire.ServerResult{Chunk: 11}})
	proxied := newCommit(5, 5*time.Minute, 0)
	proxied.add(section(1), &wire.Record{Kind: wire.RecordProxyResult, Node: 1, ProxyResult: proxyResult(12, result(11, 5000))})
	commits := []*commit{
		batch(1, 5, 7, result(11, 90_000), result(12, 90_000), wire.Signal{Kind: wire.SignalKeepalive}, result(11, 99_000)),
		batch(2, 7, 7, wire.Signal{Kind: wire.SignalKeepalive}, result(11, 99_000), result(11, 99_500)), // 7 and 8 again, and 9
		batch(3, 1, 8, result(11, 1)), // older, of another stream: late
		own, proxied,
	}
	want := model.ResultDigest(0).Append(7, 5).Append(7, 8).Append(7, 9).Append(8, 1).Append(0, 0).Append(0xaabb, 12)
	r := replay(t, chunks, 1, journal.Position{}, nil, commits)
	st, _ := r.Get(1, 1001)
	if st.Results != 6 || st.Order != want {
		t.Fatalf("%d results, order %s, want 6 and %s", st.Results, st.Order, want)
	}

	// From a snapshot in the middle it is the same.
	begun := replay(t, chunks, 1, journal.Position{}, nil, commits[:2])
	body, at := begun.Snapshot(model.Partition(section(1)), nil)
	again := replay(t, chunks, 1, at, func(v *View) {
		if err := v.Restore(model.Partition(section(1)), at, body); err != nil {
			t.Fatal(err)
		}
	}, commits)
	if got, _ := again.Get(1, 1001); got.Order != want || got.Results != 6 {
		t.Errorf("restored and continued: %d results, order %s, want 6 and %s", got.Results, got.Order, want)
	}
}
