package muster

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// add makes chunks known that assign then hands out.
func (m *memPlan) add(chunks ...*model.Chunk) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range chunks {
		c.Hash = wire.ChunkHash(wire.AppendChunk(nil, c))
		m.chunks[c.ID] = c
	}
}

const futureKind model.ChunkKind = 9

func futureChunk(id model.ChunkID) *model.Chunk {
	return (&model.Chunk{ID: id, Unit: 77, Namespace: model.DefaultNamespace, Name: "future"}).Seal(futureKind, []byte{1, 2, 3})
}

// An agent that does not understand a kind of chunks gets the rest; one that does gets all.
func TestFeatureLackedLeavesOutTheUnit(t *testing.T) {
	w := newWorld(t, nil)
	w.plan.add(futureChunk(3))
	uid := w.node(1, 1, 2, 3)
	old := w.agent(uid)
	old.wait("the rest", func() bool { return len(old.held) == 1 && chunkIDs(old.held[0].Chunks) == "[1 2]" })
	idle := func() (list []IdleUnit) {
		a, _ := w.server.Agent(1001)
		return a.Idle
	}
	if list := idle(); len(list) != 1 || list[0].Unit != 77 || list[0].Name != "future" || !strings.Contains(list[0].Reason, "kind 9: update") {
		t.Fatalf("idle %+v", list)
	}
	if n := w.count("units_left_out_total", ""); n != 1 {
		t.Fatalf("%v units left out", n)
	}
	w.plan.assign(1001, uid, 2, 3, 4)
	w.plan.tell([]model.NodeID{1001})
	old.wait("a difference", func() bool { return len(old.held) == 2 && chunkIDs(old.held[1].Chunks) == "[2 4]" })
	old.Close()

	next, err := w.open(uid, func(cfg *link.Config, hello *wire.Hello) {
		hello.Features = append(wire.Features(), wire.ChunkFeature(futureKind))
		cfg.Chunk = func(id model.ChunkID, body []byte) (*model.Chunk, error) {
			c, err := wire.DecodeChunk(id, body)
			if err == nil && c.Kind == futureKind {
				c.Seal(futureKind, struct{}{})
			}
			return c, err
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	next.wait("all", func() bool { return len(next.held) == 1 && chunkIDs(next.held[0].Chunks) == "[2 3 4]" })
	if list := idle(); len(list) != 0 {
		t.Fatalf("idle %+v", list)
	}
}

// A chunk that the agent does not know the kind of, and one that it can't read, stop nothing else,
// and the server knows them, also in the sessions after.
func TestRefusedChunkStopsOneUnit(t *testing.T) {
	w := newWorld(t, nil)
	long := &model.CheckChunk{Chunk: model.Chunk{ID: 4, Unit: 78, Namespace: model.DefaultNamespace, Name: "long"}, Command: &model.Command{Shell: strings.Repeat("x", wire.MaxBody+1)}}
	w.plan.add(futureChunk(3), long.Seal())
	uid := w.node(1, 1, 3, 4)
	all := func(_ *link.Config, hello *wire.Hello) {
		hello.Features = append(wire.Features(), wire.ChunkFeature(futureKind))
	}
	a, err := w.open(uid, all)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(a *agent) {
		t.Helper()
		testenv.Until(t, "the server knows what is refused", func() bool {
			x, _ := w.server.Agent(1001)
			return len(x.Idle) == 2 && x.Idle[0].Unit == 77 && x.Idle[1].Unit == 78 && x.Confirmed &&
				strings.Contains(x.Idle[0].Reason, "kind 9") && strings.Contains(x.Idle[1].Reason, "at most 262144")
		})
	}
	refused(a)
	a.send(results(1, 1, 1))
	a.waitAck(1)
	if len(a.refused) != 0 {
		t.Fatalf("results of the others are refused: %+v", a.refused)
	}
	w.plan.assign(1001, uid, 2, 3, 4)
	w.plan.tell([]model.NodeID{1001})
	a.wait("a difference", func() bool { return len(a.held) == 2 && chunkIDs(a.held[1].Chunks) == "[2 3 4]" })
	refused(a)

	// The agent reads the same from its disk.
	kept, err := (*link.Held)(nil).Apply(a.held[1].Message(), uid, nil, wire.DecodeChunk)
	if err != nil || kept.Hash != a.held[1].Hash || len(kept.Refused) != 2 {
		t.Fatalf("kept %+v, %v", kept, err)
	}
	a.Close()
	b := w.reopen(uid, kept, all)
	refused(b)
}
