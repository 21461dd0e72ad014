package muster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
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
	idle := func() (list []core.IdleUnit) {
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
	w.plan.tell(directory.Change{Assignments: []model.NodeID{1001}})
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
	w.plan.tell(directory.Change{Assignments: []model.NodeID{1001}})
	a.wait("a difference", func() bool { return len(a.held) == 2 && chunkIDs(a.held[1].Chunks) == "[2 3 4]" })
	refused(a)

	// The agent reads the same from its disk.
	kept, err := (*link.Assignment)(nil).Apply(a.held[1].Message(), uid, nil, wire.DecodeChunk)
	if err != nil || kept.Hash != a.held[1].Hash || len(kept.Refused) != 2 {
		t.Fatalf("kept %+v, %v", kept, err)
	}
	a.Close()
	b := w.reopen(uid, kept, all)
	refused(b)
}

// An assignment larger than a frame arrives whole, in parts; so does a difference. The next
// session gets all of it again.
func TestLargeAssignmentComesInParts(t *testing.T) {
	w := newWorld(t, nil)
	var ids []model.ChunkID
	for id := model.ChunkID(1); id <= 3000; id++ {
		c := &model.CheckChunk{Chunk: model.Chunk{ID: id, Unit: 100 + model.UnitID(id), Namespace: model.DefaultNamespace, Name: "check"},
			Command: &model.Command{Shell: strings.Repeat("x", 700)}, Interval: time.Minute, FailAfter: 1, RecoverAfter: 1}
		if id%1000 == 0 {
			c.Command.Shell = strings.Repeat("y", 200<<10)
		}
		w.plan.add(c.Seal())
		ids = append(ids, id)
	}
	uid := w.node(1, ids[:1]...)
	a := w.agent(uid)
	a.wait("the first", func() bool { return len(a.held) == 1 })
	w.plan.assign(1001, uid, slices.Clone(ids)...)
	w.plan.tell(directory.Change{Assignments: []model.NodeID{1001}})
	a.wait("all of a difference", func() bool { return len(a.held) == 2 && len(a.held[1].Chunks) == len(ids) })
	if n := w.count("sent_total", "assignment"); n < 3 {
		t.Fatalf("%v frames", n)
	}
	kept, err := (*link.Assignment)(nil).Apply(a.held[1].Message(), uid, nil, wire.DecodeChunk)
	if err != nil || kept.Hash != a.held[1].Hash {
		t.Fatalf("kept: %v", err)
	}
	a.Close()
	b := w.agent(uid)
	b.wait("the whole", func() bool { return len(b.held) == 1 && len(b.held[0].Chunks) == len(ids) })
}

// Parts of an assignment that another one overtakes are dropped.
func TestPartsOfAnotherAssignmentAreDropped(t *testing.T) {
	body := make([]byte, 600<<10)
	first := &wire.Assignment{Hash: [32]byte{1}, Add: []wire.AssignedChunk{{ID: 1, Body: body}, {ID: 2, Body: body}}, Signature: []byte{1}}
	second := &wire.Assignment{Hash: [32]byte{2}, Add: []wire.AssignedChunk{{ID: 3, Body: body}, {ID: 4, Body: body}}, Signature: []byte{2}}
	one, two := first.Parts(), second.Parts()
	if len(one) != 2 || len(two) != 2 || !one[0].More || one[1].More || len(one[0].Signature) != 0 {
		t.Fatalf("%d and %d parts", len(one), len(two))
	}
	var p wire.PartialAssignment
	if p.Join(one[0]) != nil || p.Join(two[0]) != nil {
		t.Fatal("whole after a part")
	}
	if whole := p.Join(two[1]); whole == nil || len(whole.Add) != 2 || whole.Add[0].ID != 3 || whole.Add[1].ID != 4 {
		t.Fatalf("joined %+v", whole)
	}
}
