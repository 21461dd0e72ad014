package event

import (
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// proxyResult is a result that node 1 sent about another node, as its number 12 at its time 5000.
func proxyResult(number uint64, s wire.Signal) *wire.ProxyResult {
	var r wire.BatchReader
	_, body, _ := wire.FrameKind(wire.AppendBatch(nil, &wire.Batch{First: number, Signals: []wire.Signal{s}}))
	if err := r.Reset(body); err != nil || !r.Next(&s) {
		panic("BUG: a batch that was just encoded cannot be read")
	}
	return &wire.ProxyResult{StreamKey: wire.StreamKey{Stream: 0xaabb}, Number: number, By: 1, Namespace: 3, NowMs: 5000, Signal: slices.Clone(r.Raw())}
}

// A result about a proxy node makes that node's state and problem, says who ran it, and is
// counted once: what stands in the sender's batch in its place is no result.
func TestResultsAboutProxyNodes(t *testing.T) {
	chunks := map[model.ChunkID]*model.CheckChunk{
		11: {Chunk: model.Chunk{ID: 11, Unit: 1001, Namespace: 9}, FailAfter: 1, Proxy: true, TTL: time.Hour, Severities: [4]model.Severity{0, 2, 4, 3}},
	}
	r := replay(t, chunks, 1, journal.Position{}, nil, nil)
	c := newCommit(1, time.Minute, time.Hour)
	c.batch(t, 1, &wire.Batch{StreamKey: wire.StreamKey{Stream: 0xaabb}, First: 1, NowMs: 5000, Signals: []wire.Signal{
		wire.ResultSignal(wire.Signal{AtMs: 4900, Node: 7}, wire.Result{}), {Kind: wire.SignalKeepalive, AtMs: 5000},
	}})
	c.add(3, &wire.Record{Kind: wire.RecordProxyResult, Node: 7, ProxyResult: proxyResult(1, wire.ResultSignal(wire.Signal{Chunk: 11, AtMs: 4900, Node: 7}, wire.Result{Status: model.Critical, Output: []byte("no answer")}))})
	r.continueWith(t, []*commit{c})
	st, ok := r.Get(7, 1001)
	if !ok || st.Status != model.Critical || st.RanBy != 1 || st.Problem == nil || st.Problem.NodeID != 7 || st.Namespace != 3 || st.Output != "no answer" || st.Results != 1 {
		t.Fatalf("the proxy node's state is %+v", st)
	}
	if _, ok := r.Get(1, 1001); ok {
		t.Error("the node that ran it has a state of its own")
	}
	if _, ok := r.Get(7, model.KeepaliveCheck); ok {
		t.Error("the proxy node has a keepalive")
	}
	if sum := r.Summaries([]model.NodeID{7})[0]; sum.Silent || sum.Stopped {
		t.Errorf("the proxy node is missed: %+v", sum)
	}

	// A snapshot carries who ran it; the server's own word takes it away.
	body, at := r.Snapshot(3, nil)
	again := newView(options{Chunks: func(id model.ChunkID) *model.CheckChunk { return chunks[id] }})
	if err := again.Restore(3, at, body); err != nil {
		t.Fatal(err)
	}
	if st, _ := again.Get(7, 1001); st.RanBy != 1 {
		t.Errorf("restored: %+v", st)
	}
	if next, _ := again.Snapshot(3, nil); !slices.Equal(next, body) {
		t.Error("a snapshot of what a snapshot brought differs")
	}
	c = newCommit(2, time.Minute, time.Hour)
	c.add(3, &wire.Record{Kind: wire.RecordServerResult, Node: 7, ServerResult: &wire.ServerResult{Chunk: 11, Status: model.Unknown, Output: []byte("nobody runs it")}})
	r.continueWith(t, []*commit{c})
	if st, _ := r.Get(7, 1001); st.RanBy != 0 || st.Status != model.Unknown {
		t.Errorf("after the server's word: %+v", st)
	}
}
