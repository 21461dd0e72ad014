package muster

import (
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestChangeWakesOnlyThoseConcerned: a check of ten nodes among 2,000 changes; ten
// assignments leave, each a difference of one definition.
func TestChangeWakesOnlyThoseConcerned(t *testing.T) {
	n := 2000
	if testing.Short() {
		n = 200
	}
	w := newWorld(t, nil)
	agents := make([]*agent, n)
	uids := make([]uuid.UUID, n)
	for i := range agents {
		uids[i] = w.node(i, 1, 2, 3)
		agents[i] = w.agent(uids[i])
	}
	for _, a := range agents {
		a.wait("first assignment", func() bool { return len(a.held) == 1 })
	}
	testenv.Until(w.t, "every agent has confirmed", func() bool { return w.count("frames_total", "holding") == float64(n) })
	before := w.count("sent_total", "assignment")
	var changed []model.NodeID
	for i := 0; i < n; i += n / 10 {
		w.plan.assign(model.NodeID(1000+i), uids[i], 1, 3, 4) // definition 2 became 4
		changed = append(changed, model.NodeID(1000+i))
	}
	w.plan.tell(directory.Change{Assignments: changed})
	for i := 0; i < n; i += n / 10 {
		a := agents[i]
		a.wait("change", func() bool { return len(a.held) == 2 })
		if got := chunkIDs(a.held[1].Chunks); got != "[1 3 4]" {
			t.Fatalf("agent %d holds %s", i, got)
		}
	}
	testenv.Until(w.t, "the ten have confirmed", func() bool { return w.count("frames_total", "holding") == float64(n+10) })
	if sent := w.count("sent_total", "assignment") - before; sent != 10 {
		t.Fatalf("%v assignments sent, want 10", sent)
	}
}

// The agent of a node that is deleted is told so, and the others are not.
func TestTheAgentOfADeletedNodeIsTold(t *testing.T) {
	w := newWorld(t, nil)
	uid := w.node(1, 1)
	a, b := w.agent(uid), w.agent(w.node(2, 1))
	for _, x := range []*agent{a, b} {
		x.wait("first assignment", func() bool { return len(x.held) == 1 })
	}
	w.plan.mu.Lock()
	delete(w.plan.by, 1001)
	delete(w.plan.by, 1002) // has no assignment now, as one that would be too large, but is there
	w.plan.mu.Unlock()
	w.nodes.mu.Lock()
	delete(w.nodes.by, uid)
	w.nodes.mu.Unlock()
	w.plan.tell(directory.Change{Assignments: []model.NodeID{1001, 1002}})
	if r := a.refusal(); r.Code != "unknown" || !strings.Contains(r.Message, "deleted") || r.Hint == "" {
		t.Fatalf("%+v", r)
	}
	b.send(results(1, 1, 1))
	b.waitAck(1)
	_, err := w.open(uid, nil)
	if r := refusalOf(t, err); r.Code != "unknown" {
		t.Fatalf("it comes back: %+v", r)
	}
}

func chunkIDs(list []*model.Chunk) string {
	var ids []model.ChunkID
	for _, c := range list {
		ids = append(ids, c.ID)
	}
	return fmt.Sprint(ids)
}

// TestHeldAssignmentIsNotSentAgain: who comes back with the present hash gets
// nothing; who holds something else gets the whole.
func TestHeldAssignmentIsNotSentAgain(t *testing.T) {
	w := newWorld(t, nil)
	uid := w.node(1, 1, 2)
	a := w.agent(uid)
	a.wait("assignment", func() bool { return len(a.held) == 1 })
	held := a.held[0]
	reopen := func() *agent {
		b := &agent{t: t, acks: map[wire.StreamKey]uint64{}}
		b.changed = newCond(b)
		cfg := &link.Config{Node: uid, ServerKey: w.key.Public().(ed25519.PublicKey)}
		s, err := link.Open(t.Context(), cfg, w.addr, &wire.Hello{Streams: []wire.StreamRange{{StreamKey: live, First: 1}}}, held, b)
		if err != nil {
			t.Fatal(err)
		}
		b.Session = s
		t.Cleanup(s.Close)
		go func() { err := s.Read(); b.set(func() { b.ended, b.over = err, true }) }()
		return b
	}
	b := reopen()
	b.send(results(1, 1, 1)) // and its answer, by which an assignment would have come
	b.waitAck(1)
	if err := w.ask(1001, 1); err != nil {
		t.Fatal(err)
	}
	b.wait("run", func() bool { return len(b.runs) == 1 })
	if sent := w.count("sent_total", "assignment"); sent != 1 {
		t.Fatalf("%v assignments sent, want the first one only", sent)
	}
	b.Close()
	w.plan.assign(1001, uid, 2, 3) // while it was away
	c := reopen()
	c.wait("whole", func() bool { return len(c.held) == 1 && chunkIDs(c.held[0].Chunks) == "[2 3]" })
}

// TestStrayAgentGetsTheWhole: Holding with another hash than expected.
func TestStrayAgentGetsTheWhole(t *testing.T) {
	w := newWorld(t, nil)
	a := w.agent(w.node(1, 1, 2))
	a.wait("assignment", func() bool { return len(a.held) == 1 })
	raw(a, wire.AppendAssignmentStatus(nil, &wire.AssignmentStatus{Hash: [32]byte{1}}))
	a.wait("whole again", func() bool { return len(a.held) == 2 })
	if w.count("assignments_resent_total", "") != 1 {
		t.Fatal("not counted")
	}
}

// TestDifferenceLeadsToWanted: applying what difference says arrives at the wanted
// assignment, in one message.
func TestDifferenceLeadsToWanted(t *testing.T) {
	_, key, _ := ed25519.GenerateKey(nil)
	uid := uuid.New()
	rapid.Check(t, func(t *rapid.T) {
		p := newMemPlan()
		most := rapid.SampledFrom([]uint32{30, 3000}).Draw(t, "most") // of many, more are removed than a difference takes
		draw := func(name string) *directory.Assignment {
			var list []model.ChunkID
			if most > 30 {
				from := rapid.Uint32Range(1, most).Draw(t, name+" from")
				for id := from; id <= most; id++ {
					list = append(list, model.ChunkID(id))
				}
			} else {
				for _, id := range rapid.SliceOfDistinct(rapid.Uint32Range(1, most), func(v uint32) uint32 { return v }).Draw(t, name) {
					list = append(list, model.ChunkID(id))
				}
			}
			p.assign(1, uid, list...)
			a := *p.For(1)
			for i := range rapid.IntRange(0, 3).Draw(t, name+" properties") {
				a.Properties = append(a.Properties, wire.Property{Name: fmt.Sprint("p", i), Value: []byte(rapid.StringN(0, 4, -1).Draw(t, "value"))})
			}
			a.Hash = wire.AssignmentHash(a.Chunks, a.Properties, nil)
			return &a
		}
		have, want := draw("have"), draw("want")
		start := have
		var held *link.Assignment
		if rapid.Bool().Draw(t, "from nothing") {
			start = nil
		} else {
			held = &link.Assignment{Generation: have.Generation, Hash: have.Hash, Chunks: have.Chunks, Properties: have.Properties}
		}
		m := difference(start, want)
		m.Signature = ed25519.Sign(key, wire.SignedBytes(uid, m.Generation, m.Hash))
		frame := wire.AppendPackedAssignment(nil, m)
		if len(frame) > wire.MaxFrame {
			t.Fatalf("message of %d bytes", len(frame))
		}
		_, body, err := wire.FrameKind(frame)
		if err != nil {
			t.Fatal(err)
		}
		var got wire.Assignment
		if err := got.Decode(body); err != nil {
			t.Fatal(err)
		}
		held, err = held.Apply(&got, uid, key.Public().(ed25519.PublicKey), wire.DecodeChunk)
		if err != nil {
			t.Fatal(err)
		}
		if held.Hash != want.Hash {
			t.Fatalf("holds another")
		}
	})
}
