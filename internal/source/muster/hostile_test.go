package muster

import (
	"fmt"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// An agent may send results of what it is not assigned any more, but cannot make
// another team's handlers speak, nor judge what the server judges.
func TestDefinitionsThatANodeMayNotName(t *testing.T) {
	w := newWorld(t, nil)
	define := func(id model.ChunkID, check model.CheckID, namespace model.NamespaceID) {
		w.plan.mu.Lock()
		w.plan.chunks[id] = &model.Chunk{ID: id, Check: check, Namespace: namespace}
		w.plan.mu.Unlock()
	}
	define(2, model.FirstCheck+1, model.DefaultNamespace)
	define(3, model.FirstCheck+2, model.SharedNamespace)
	define(4, model.FirstCheck+3, 77)
	keepalive := model.BuiltinChunk(model.KeepaliveCheck)
	define(keepalive, model.KeepaliveCheck, model.DefaultNamespace)
	a := w.agent(w.node(1, 1))
	b := results(1, 5, 1)
	for i, id := range []model.ChunkID{1, 2, 3, 4, keepalive} {
		b.Signals[i].Chunk = id
	}
	a.send(b)
	a.waitAck(5)
	got := ""
	for _, r := range a.refused {
		got += fmt.Sprint(r.Number, " ", r.Code, "\n")
	}
	if want := "4 unknown_chunk\n5 unknown_chunk\n"; got != want {
		t.Fatalf("refused\n%swant\n%s", got, want)
	}
}

// A gap becomes a row of history per definition that it names.
func TestGapsPay(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.NodeResultsPerSec, c.Limits.RateBurst = 100, time.Second })
	a := w.agent(w.node(1, 1))
	a.send(&wire.Batch{StreamKey: live, First: 1, Gap: &wire.Gap{Last: 1, Counts: make([]wire.GapCount, 120)}})
	testenv.Until(w.t, "the node is throttled", func() bool { return w.count("throttled_total", "node") > 0 })
}
