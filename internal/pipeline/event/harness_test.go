package event

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/journaltest"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/wire"
)

// testCommit is an implementation of journal.Commit in memory, for tests.
type testCommit struct{ journaltest.Commit }

// addRecord adds a record to one section (the entries of one partition) of the commit
func (c *testCommit) addRecord(s journal.Section, r *wire.Record) {
	c.AddEntry(s, wire.AppendRecord(nil, r))
}

// addBatch adds the journal record of a node's batch to the commit.
func (c *testCommit) addBatch(t testing.TB, node model.NodeID, b *wire.Batch) {
	t.Helper()
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, b))
	if err != nil {
		t.Fatal(err)
	}
	c.addRecord(testSection(node), &wire.Record{Kind: wire.RecordBatch, Node: node, Batch: body})
}

// testSection returns the number of the journal section (partition) that has the entries of a test node. It is
// the node's number modulo the number of partitions.
func testSection(node model.NodeID) journal.Section { return journal.Section(node % model.Partitions) }

const (
	epoch   = int64(1_800_000_000_000_000_000)
	testLog = 7
)

// newCommit returns an empty journal commit with a number and the time for which the server has listened.
// Listening time is the total time in which the server could receive results. down is how long the server was
// stopped before.
func newCommit(number uint64, listening, down time.Duration) *testCommit {
	return &testCommit{journaltest.Commit{
		At: journal.Position{Log: testLog, Number: number}, Listened: listening, Time: epoch + int64(listening+down),
	}}
}

// viewOptions has the options of a View (the state of all events) and of its shard.
type viewOptions struct {
	Definitions                          func(model.DefinitionID) *model.CheckDefinition
	Workers, QueueCommits                int
	Grace, BacklogWait, KeepaliveTimeout time.Duration
	Emit                                 func([]Transition)
	EmitAfter                            journal.Position
	Limits                               func(model.NamespaceID) model.Limits
	Queues                               *queue.Registry
	Registerer                           prometheus.Registerer
}

// newView returns a View (the state of all events) on a shard of its own
func newView(o viewOptions) *View {
	return New(shard.New(shard.Options{
		Definitions: sealedDefinitions(o.Definitions), Workers: o.Workers, QueueCommits: o.QueueCommits, Grace: o.Grace, BacklogWait: o.BacklogWait,
		KeepaliveTimeout: o.KeepaliveTimeout, Registerer: o.Registerer, Queues: o.Queues,
	}), Options{Emit: o.Emit, EmitAfter: o.EmitAfter, Limits: o.Limits, Registerer: o.Registerer, Queues: o.Queues})
}

// runningView is a View (the state of all events) whose workers run until the test ends
type runningView struct {
	*View
	t       testing.TB
	mu      sync.Mutex
	emitted []Transition
}

// startView starts a View for one test, and collects the transitions (changes of events) of the View. Its workers run
// until the test ends.
func startView(t testing.TB, o viewOptions, restore func(*View)) *runningView {
	t.Helper()
	r := &runningView{t: t}
	o.Emit = func(list []Transition) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.emitted = append(r.emitted, list...)
	}
	r.View = newView(o)
	if restore != nil {
		restore(r.View)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

// apply delivers commits to the view and waits until all are applied
func (r *runningView) apply(commits ...*testCommit) {
	r.t.Helper()
	for _, c := range commits {
		r.Deliver(c)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.WaitApplied(ctx, commits[len(commits)-1].At); err != nil {
		r.t.Fatal(err)
	}
}

// drainEmitted returns the transitions (changes of events) of the view since the last call
func (r *runningView) drainEmitted() []Transition {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.emitted
	r.emitted = nil
	return list
}

// checkIndexes fails the test if an index of the partition disagrees with the stored events
func (p *eventPartition) checkIndexes(t testing.TB) {
	t.Helper()
	states := 0
	counts := map[model.NamespaceID]*Counts{}
	nodes := map[model.NamespaceID][]uint32{}
	for _, n := range p.SortedNodes() {
		ns := p.Node(n).Namespace
		r := counts[ns]
		if r == nil {
			r = new(Counts)
			counts[ns] = r
		}
		nodes[ns] = append(nodes[ns], n)
		if _, found := p.nodes[n].find(model.KeepaliveCheck); found && p.Node(n).Keepalive == shard.KeepaliveNone {
			t.Fatalf("node %d has an event of a keepalive that is not supervised", p.Node(n).ID)
		}
		for _, e := range p.nodes[n].states {
			s := p.slots.slot(e.slot)
			states++
			if s.node != n || s.check != e.check {
				t.Fatalf("slot %d is of node %d check %d, want %d %d", e.slot, s.node, s.check, n, e.check)
			}
			for st := range p.byStatus {
				if p.byStatus[st].has(e.slot) != (s.status == model.Status(st)) {
					t.Fatalf("index of status %d is wrong for slot %d", st, e.slot)
				}
			}
			for sev := range p.bySeverity {
				if p.bySeverity[sev].has(e.slot) != (s.severity == model.Severity(sev)) {
					t.Fatalf("index of severity %d is wrong for slot %d", sev, e.slot)
				}
			}
			open := s.flags&flagProblemOpen != 0
			if p.open.has(e.slot) != open || (p.problems[e.slot] != nil) != open {
				t.Fatalf("index of problems is wrong for slot %d", e.slot)
			}
			if !slices.Contains(p.byCheck[s.check], e.slot) {
				t.Fatalf("index of check %d misses slot %d", s.check, e.slot)
			}
			r.States++
			r.ByStatus[s.status]++
			if open {
				r.Problems++
			}
		}
	}
	if sum := p.byStatus[0].count + p.byStatus[1].count + p.byStatus[2].count + p.byStatus[3].count; sum != states {
		t.Fatalf("%d states, %d in the index of status", states, sum)
	}
	for ns, want := range counts {
		if got := p.counts[ns]; got == nil && want.States > 0 || got != nil && *got != *want {
			t.Fatalf("namespace %d counts %+v, want %+v", ns, got, want)
		}
	}
	for ns := range p.counts {
		if counts[ns] == nil {
			t.Fatalf("namespace %d is counted and has no nodes", ns)
		}
	}
	for ns, want := range nodes {
		if !slices.Equal(p.NamespaceNodes(ns), want) {
			t.Fatalf("namespace %d has the nodes %v, want %v", ns, p.NamespaceNodes(ns), want)
		}
	}
}

// sealedDefinitions returns a function that finds a compiled test check by its id. Each call returns a new copy.
func sealedDefinitions(checks func(model.DefinitionID) *model.CheckDefinition) func(model.DefinitionID) *model.Definition {
	if checks == nil {
		return nil
	}
	return func(id model.DefinitionID) *model.Definition {
		c := checks(id)
		if c == nil {
			return nil
		}
		own := *c
		return own.ToDefinition()
	}
}
