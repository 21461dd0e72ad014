package muster

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// about makes a node's only check, as chunk 7, one about these proxy nodes.
func (m *memPlan) assignProxies(node model.NodeID, proxies ...model.NodeID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := *m.by[node]
	c := &model.CheckChunk{Chunk: model.Chunk{ID: 7, Unit: model.FirstCheck + 7, Namespace: model.DefaultNamespace, Name: "ping"}, Command: &model.Command{Shell: "true"}, FailAfter: 1, RecoverAfter: 1, Proxy: true}
	c.Hash = wire.ChunkHash(wire.AppendChunk(nil, c.Seal()))
	m.chunks[7] = &c.Chunk
	a.Chunks = append(slices.Clone(a.Chunks), &c.Chunk)
	told := wire.ProxyChecks{Sets: []wire.ProxySet{{Chunks: []model.ChunkID{7}, Nodes: proxies}}}
	var nodes []directory.ProxyNode
	for _, id := range proxies {
		told.Nodes = append(told.Nodes, wire.ProxyNode{Node: id, Name: "p"})
		nodes = append(nodes, directory.ProxyNode{ID: id, UID: uuid.NewSHA1(uuid.Nil, []byte{byte(id)}), Namespace: 3})
	}
	a.Proxied = directory.NewProxyTargets(told, nodes, a.Chunks)
	a.Hash = wire.AssignmentHash(a.Chunks, nil, &a.Proxied.ProxyChecks)
	m.by[node] = &a
}

// output is that of a result; empty: it has none.
func output(s wire.Signal) string {
	r, err := s.Result()
	if err != nil {
		return err.Error()
	}
	return string(r.Output)
}

// proxied are the results about proxy nodes in the journal, and what stands in the senders'
// batches.
func (w *world) journaled(t *testing.T) (proxied []wire.Record, own []wire.Signal) {
	t.Helper()
	w.journal.mu.Lock()
	defer w.journal.mu.Unlock()
	for _, data := range w.journal.entries {
		var r wire.Record
		if err := r.Decode(data); err != nil {
			t.Fatal(err)
		}
		switch r.Kind {
		case wire.RecordProxyResult:
			proxied = append(proxied, r)
		case wire.RecordBatch:
			var b wire.Batch
			if err := b.Decode(r.Batch); err != nil {
				t.Fatal(err)
			}
			own = append(own, b.Signals...)
		}
	}
	return proxied, own
}

// A node speaks for the proxy nodes that its assignment names, and for nobody else; what it
// says of them is kept once, with them, and its number with the node that says it.
func TestANodeSpeaksForThoseItsAssignmentNames(t *testing.T) {
	w := newWorld(t, nil)
	uid := w.node(1, 1)
	w.plan.assignProxies(1001, 50, 51)
	a := w.agent(uid)
	a.wait("assignment", func() bool { return len(a.held) == 1 && len(a.held[0].ProxyChecks.Nodes) == 2 })

	say := func(chunk model.ChunkID, about model.NodeID) wire.Signal {
		return wire.ResultSignal(wire.Signal{Chunk: chunk, Node: about}, wire.Result{Status: model.Warning, Output: []byte("so and so")})
	}
	first := &wire.Batch{StreamKey: live, First: 1, Signals: []wire.Signal{say(7, 50), say(1, 0), say(7, 52), say(7, 0), say(1, 50), say(7, 51), say(7, 1001)}}
	a.send(first)
	a.waitAck(7)
	a.wait("refusals", func() bool { return len(a.refused) == 4 })
	for i, want := range []uint64{3, 4, 5, 7} {
		if r := a.refused[i]; r.Number != want || r.Code != "proxy" || r.Reason == "" {
			t.Errorf("refused %+v, want number %d", r, want)
		}
	}
	// The same once more, and a batch that is new from number 8 on.
	a.send(&wire.Batch{StreamKey: live, First: 6, Signals: []wire.Signal{say(7, 51), say(1, 0), say(7, 50)}})
	a.waitAck(8)
	proxied, own := w.journaled(t)
	var got [][2]uint64
	for _, r := range proxied {
		p := r.ProxyResult
		var s wire.Signal
		if err := s.Decode(p.Signal); err != nil || output(s) != "so and so" || s.Node != r.Node || p.By != 1001 || p.Namespace != 3 || p.StreamKey != live {
			t.Errorf("kept %+v of %+v: %v", s, p, err)
		}
		got = append(got, [2]uint64{uint64(r.Node), p.Number})
	}
	if want := [][2]uint64{{50, 1}, {51, 6}, {50, 8}}; !slices.Equal(got, want) {
		t.Errorf("kept of proxy nodes %v, want %v", got, want)
	}
	for i, s := range own {
		bare := s.Node != 0 && s.Chunk == 0 && len(s.Body) == 0
		if mine := s.Chunk == 1 && output(s) == "so and so"; !bare && !mine && s.Kind != wire.SignalKeepalive {
			t.Errorf("number %d of the node's own is %+v", i, s)
		}
	}

	// It may speak of nobody any more who is taken from it.
	w.plan.assignProxies(1001, 51)
	w.plan.tell(directory.Change{Assignments: []model.NodeID{1001}})
	a.wait("assignment", func() bool { return len(a.held) == 2 && len(a.held[1].ProxyChecks.Nodes) == 1 })
	a.send(&wire.Batch{StreamKey: live, First: 9, Signals: []wire.Signal{say(7, 50), say(7, 51)}})
	a.waitAck(10)
	testenv.Until(t, "one more is refused", func() bool { return w.count("signals_total", "proxy") == 5 })
	w.balance()
}
