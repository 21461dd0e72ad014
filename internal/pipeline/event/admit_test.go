package event

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Namespace 1 has room for three states of a node, namespace 2 for four in all; the
// keepalive that a session brings is one of them.
func limitsOfTest(ns model.NamespaceID) model.Limits {
	if ns == 2 {
		return model.Limits{States: 4}
	}
	return model.Limits{StatesPerNode: 3}
}

func beginSession(c *commit, node model.NodeID, session uint64, ns model.NamespaceID) {
	c.add(section(node), &wire.Record{Kind: wire.RecordSession, Node: node, Session: &wire.SessionMark{Begun: true, Session: session, Namespace: ns}})
}

// Results under way count: what was admitted has its room when the journal brings it,
// and nobody else is promised that room.
func TestAdmitPromisesRoom(t *testing.T) {
	r := run(t, options{Chunks: plainChunks, Limits: limitsOfTest}, nil)
	c := newCommit(1, time.Second, 0)
	beginSession(c, 1, 1, 1)
	beginSession(c, 2, 1, 2)
	beginSession(c, 5, 1, 2)
	r.apply(c)
	admit := func(node model.NodeID, chunk model.ChunkID, want string) {
		t.Helper()
		if code, reason := r.Admit(node, plainChunks(chunk)); code != want || (code != "") != (reason != "") {
			t.Errorf("node %d chunk %d: %q %q, want %q", node, chunk, code, reason, want)
		}
	}
	admit(1, 10, "")
	admit(1, 11, "")
	admit(1, 12, "node_limit") // nothing is applied yet
	admit(1, 10, "")           // promised once
	admit(2, 10, "")
	admit(5, 10, "")
	admit(5, 11, "namespace_limit")
	admit(2, 11, "namespace_limit") // of another partition too
	admit(77, 10, "")               // nobody knows it: forgotten when it comes

	// A promise is kept, and counts no more beside its state.
	r.apply(one(t, 2, 1, 10, 0, ""))
	admit(1, 11, "")
	admit(1, 12, "node_limit")
	if total := r.totals.counter(1).Load(); total != 3 {
		t.Errorf("namespace 1 counts %d, want keepalive, state and promise", total)
	}
	// The promise of a session that ended without the result ends with it.
	c = newCommit(3, 3*time.Second, 0)
	beginSession(c, 1, 2, 1)
	r.apply(c)
	admit(1, 12, "")
	admit(1, 11, "node_limit")
	// So does one whose result makes no state: its check is deleted meanwhile.
	c = newCommit(4, 4*time.Second, 0)
	c.add(section(1), &wire.Record{Kind: wire.RecordForget, Node: 1, Forget: &wire.ForgetMark{Check: plainChunks(12).Unit, Deleted: true}})
	r.apply(c, one(t, 5, 1, 12, 0, ""))
	admit(1, 11, "")
	if total := r.totals.counter(1).Load(); total != 3 {
		t.Errorf("namespace 1 counts %d", total)
	}
	// A node that moves takes nothing along that it was promised.
	c = newCommit(6, 6*time.Second, 0)
	beginSession(c, 1, 3, 3)
	r.apply(c)
	if was, is := r.totals.counter(1).Load(), r.totals.counter(3).Load(); was != 0 || is != 2 {
		t.Errorf("moved: %d and %d, want 0 and 2", was, is)
	}
}

// What is acknowledged is in the view: limits that became lower, or another server's,
// do not change what the journal says.
func TestJournalIsNotRefused(t *testing.T) {
	hash := func(limits func(model.NamespaceID) model.Limits) [32]byte {
		r := run(t, options{Chunks: plainChunks, Limits: limits}, nil)
		c := newCommit(1, time.Second, 0)
		beginSession(c, 1, 1, 1)
		r.apply(c, one(t, 2, 1, 10, 0, ""), one(t, 3, 1, 11, 0, ""), one(t, 4, 1, 12, 0, ""))
		if n := r.Counts(0).States; n != 4 {
			t.Errorf("%d states, want 4", n)
		}
		return r.Hash(1)
	}
	if hash(nil) != hash(func(model.NamespaceID) model.Limits { return model.Limits{StatesPerNode: 1, States: 1} }) {
		t.Error("another limit makes another view of one journal")
	}
}
