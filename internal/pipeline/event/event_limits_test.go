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

// TestEverySignalHasOneOutcome applies accepted, duplicate and faulty results, and expects exactly one counted outcome
// per result. Examples of outcomes are applied and duplicate.
func TestEverySignalHasOneOutcome(t *testing.T) {
	definitions := map[model.DefinitionID]*model.CheckDefinition{
		10: {Definition: model.Definition{ID: 10, Unit: 1000}}, 12: {Definition: model.Definition{ID: 12, Unit: 1002}},
	}
	registry := prometheus.NewPedanticRegistry()
	r := startView(t, viewOptions{Registerer: registry, Definitions: func(id model.DefinitionID) *model.CheckDefinition { return definitions[id] }}, nil)
	result := func(definition model.DefinitionID, at uint64) wire.Signal {
		return wire.ResultSignal(wire.Signal{Definition: definition, AtMs: at}, wire.Result{})
	}
	c := newCommit(1, time.Minute, 0)
	c.addRecord(testSection(1), &wire.Record{Kind: wire.RecordForget, Node: 1, Forget: &wire.ForgetRecord{Check: 1002, Deleted: true}})
	live := wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: 1, NowMs: 1000, Signals: []wire.Signal{
		result(10, 1000), // applied
		result(99, 1000), // unknown definition
		result(12, 1000), // forgotten
		{Kind: wire.SignalKeepalive, AtMs: 1000},
	}}
	c.addBatch(t, 1, &live)
	// A signal of a kind that a later version may have: field 12 of it, empty.
	later := []byte{6<<3 | 2, 4, 1 << 3, 1, 12<<3 | 2, 0}
	_, body, err := wire.FrameKind(append(wire.AppendBatchHeader(nil, wire.StreamKey{Stream: 2}, 1, 1000, len(later)), later...))
	if err != nil {
		t.Fatal(err)
	}
	c.addRecord(testSection(1), &wire.Record{Kind: wire.RecordBatch, Node: 1, Batch: body})
	c.addBatch(t, 1, &wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: 4, NowMs: 1000, Signals: []wire.Signal{result(10, 1000)}})                                                              // duplicate
	c.addBatch(t, 1, &wire.Batch{StreamKey: wire.StreamKey{Stream: 1, Lane: wire.Backlog}, First: 1, NowMs: 1000, Signals: []wire.Signal{result(10, 0)}})                                             // late
	c.addBatch(t, 1, &wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: 5, NowMs: 1000, Gap: &wire.Gap{Last: 7, Counts: []wire.GapCount{{Kind: wire.SignalResult, Definition: 10, Count: 3}}}}) // lost ×3
	c.AddEntry(testSection(1), append(wire.AppendBatchRecord(nil, 1), 0xff))                                                                                                                          // malformed
	r.apply(c)

	want := map[shard.Outcome]int{shard.Applied: 1, shard.UnknownDefinition: 1, shard.Forgotten: 1, shard.Keepalive: 1, shard.Duplicate: 1, shard.Late: 1, shard.Lost: 3, shard.Malformed: 1, shard.UnknownKind: 1}
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

// limitsOfNamespace returns low limits of event states for the tests' namespaces. Namespace 1 allows three event
// states per node, namespace 2 four in total, with keepalives.
func limitsOfNamespace(ns model.NamespaceID) model.Limits {
	if ns == 2 {
		return model.Limits{States: 4}
	}
	return model.Limits{StatesPerNode: 3}
}

// addSessionBegin adds the journal record of a session's start to the commit.
func addSessionBegin(c *testCommit, node model.NodeID, session uint64, ns model.NamespaceID) {
	c.addRecord(testSection(node), &wire.Record{
		Kind: wire.RecordSession, Node: node, Session: &wire.SessionRecord{Start: true, Session: session, Namespace: ns},
	})
}

// TestAdmitReservesCapacity admits results near the limit of events, and expects reserved capacity for each
// admitted event. The reservation lasts until the event exists.
func TestAdmitReservesCapacity(t *testing.T) {
	r := startView(t, viewOptions{Definitions: plainCheckDefinitions, Limits: limitsOfNamespace}, nil)
	c := newCommit(1, time.Second, 0)
	addSessionBegin(c, 1, 1, 1)
	addSessionBegin(c, 2, 1, 2)
	addSessionBegin(c, 5, 1, 2)
	r.apply(c)
	admit := func(node model.NodeID, definition model.DefinitionID, want string) {
		t.Helper()
		if code, reason := r.Admit(node, plainCheckDefinitions(definition)); code != want || (code != "") != (reason != "") {
			t.Errorf("node %d definition %d: %q %q, want %q", node, definition, code, reason, want)
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
	r.apply(newResultCommit(t, 2, 1, 10, 0, ""))
	admit(1, 11, "")
	admit(1, 12, "node_limit")
	if total := r.totals.counter(1).Load(); total != 3 {
		t.Errorf("namespace 1 counts %d, want keepalive, state and promise", total)
	}
	// The promise of a session that ended without the result ends with it.
	c = newCommit(3, 3*time.Second, 0)
	addSessionBegin(c, 1, 2, 1)
	r.apply(c)
	admit(1, 12, "")
	admit(1, 11, "node_limit")
	// So does one whose result makes no state: its check is deleted meanwhile.
	c = newCommit(4, 4*time.Second, 0)
	c.addRecord(testSection(1), &wire.Record{
		Kind: wire.RecordForget, Node: 1, Forget: &wire.ForgetRecord{Check: plainCheckDefinitions(12).Unit, Deleted: true},
	})
	r.apply(c, newResultCommit(t, 5, 1, 12, 0, ""))
	admit(1, 11, "")
	if total := r.totals.counter(1).Load(); total != 3 {
		t.Errorf("namespace 1 counts %d", total)
	}
	// A node that moves takes nothing along that it was promised.
	c = newCommit(6, 6*time.Second, 0)
	addSessionBegin(c, 1, 3, 3)
	r.apply(c)
	if was, is := r.totals.counter(1).Load(), r.totals.counter(3).Load(); was != 0 || is != 2 {
		t.Errorf("moved: %d and %d, want 0 and 2", was, is)
	}
}

// TestLimitsDoNotChangeReplay replays more results than the limits allow, and expects the view to apply all
// results. Limits apply only before results enter the journal.
func TestLimitsDoNotChangeReplay(t *testing.T) {
	hash := func(limits func(model.NamespaceID) model.Limits) [32]byte {
		r := startView(t, viewOptions{Definitions: plainCheckDefinitions, Limits: limits}, nil)
		c := newCommit(1, time.Second, 0)
		addSessionBegin(c, 1, 1, 1)
		r.apply(c, newResultCommit(t, 2, 1, 10, 0, ""), newResultCommit(t, 3, 1, 11, 0, ""), newResultCommit(t, 4, 1, 12, 0, ""))
		if n := r.Counts(0).States; n != 4 {
			t.Errorf("%d states, want 4", n)
		}
		return r.Hash(1)
	}
	if hash(nil) != hash(func(model.NamespaceID) model.Limits { return model.Limits{StatesPerNode: 1, States: 1} }) {
		t.Error("another limit makes another view of one journal")
	}
}
