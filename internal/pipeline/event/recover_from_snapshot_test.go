package event_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/store/snapshot"
	"github.com/muster-fleet/muster/internal/wire"
)

// testServer is a test server with a journal, events and snapshots. It stands for one run, between start and stop.
type testServer struct {
	t     *testing.T
	log   *journal.Log
	view  *event.View
	cycle *snapshot.PeriodicSaver
	done  chan struct{}
	stop  context.CancelFunc
	acked chan error
}

// testCheckDefinition returns a compiled check with failAfter 2 and a TTL of one hour. It opens a problem after two
// failures.
func testCheckDefinition(id model.DefinitionID) *model.CheckDefinition {
	c := &model.CheckDefinition{Definition: model.Definition{ID: id, Unit: model.CheckID(1000 + id%8), Namespace: 1}, FailAfter: 2, TTL: time.Hour}
	for s := range c.Severities {
		c.Severities[s] = model.DefaultSeverity(model.Status(s))
	}
	return c
}

// openTestServer starts a test server with a journal, events and snapshots, as the real server does. It restores
// snapshots, replays the journal and follows new commits.
func openTestServer(t *testing.T, fs *memfs.FS, withSnapshots bool) *testServer {
	t.Helper()
	l := &testServer{t: t, done: make(chan struct{}), acked: make(chan error, 1)}
	l.view = event.New(shard.New(shard.Options{Workers: 2, Definitions: func(id model.DefinitionID) *model.Definition { return testCheckDefinition(id).ToDefinition() }}), event.Options{})
	ready := make(chan struct{})
	var err error
	l.log, err = journal.Open("/journal", journal.Options{FS: fs, Tick: -1, Deliver: func(c journal.Commit) {
		<-ready
		l.view.Deliver(c)
	}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := snapshot.Open(snapshot.Options{FS: fs, Dir: "/snapshots", Head: l.log.Head(), Resolve: l.log.Resolve})
	if err != nil {
		t.Fatal(err)
	}
	var from journal.Position
	for p := range model.Partitions {
		snap, ok, passed := store.Load(model.Partition(p))
		if len(passed) > 0 {
			t.Fatal(passed)
		}
		if !withSnapshots || !ok {
			from = journal.Position{}
			continue
		}
		if err := l.view.Restore(snap.Partition, snap.At, snap.Body); err != nil {
			t.Fatal(err)
		}
		if p == 0 || snap.At.Number < from.Number {
			from = snap.At
		}
	}
	var ctx context.Context
	ctx, l.stop = context.WithCancel(context.Background())
	go func() {
		defer close(l.done)
		if err := l.view.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	if err := l.log.Read(ctx, from, func(c journal.Commit) error { l.view.Deliver(c); return nil }); err != nil {
		t.Fatal(err)
	}
	close(ready)
	l.cycle = &snapshot.PeriodicSaver{Store: store, View: l.view}
	if err := l.view.WaitApplied(ctx, l.log.Head()); err != nil {
		t.Fatal(err)
	}
	return l
}

// stopServer stops the server and closes its journal.
func (l *testServer) stopServer() {
	l.stop()
	<-l.done
	if err := l.log.Close(); err != nil {
		l.t.Fatal(err)
	}
}

// Committed tells the waiting method sendResults whether the journal has stored its results.
func (l *testServer) Committed(_ uint64, _ journal.Position, err error) { l.acked <- err }

// sendResults appends results of a node to the journal and waits for the commit.
func (l *testServer) sendResults(node model.NodeID, first uint64, rng *rand.Rand) {
	l.t.Helper()
	b := wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: first, NowMs: 1000}
	for range 4 {
		b.Signals = append(b.Signals, wire.ResultSignal(wire.Signal{Definition: model.DefinitionID(10 + rng.IntN(8)), AtMs: 1000}, wire.Result{Status: model.Status(rng.IntN(4)), Output: fmt.Appendf(nil, "%x", rng.Uint64())}))
	}
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
	if err != nil {
		l.t.Fatal(err)
	}
	err = l.log.Append(context.Background(), journal.Entry{
		Section: journal.Section(node % model.Partitions), Data: append(wire.AppendBatchRecord(nil, node), body...), Waiter: l,
	})
	if err == nil {
		err = <-l.acked
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// TestRecoveryFromSnapshotsAndJournal simulates power cuts between commits and snapshots, and expects every
// acknowledged result once.
func TestRecoveryFromSnapshotsAndJournal(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	fs := memfs.New()
	sent := map[model.NodeID]uint64{}
	for round := range uint64(8) {
		l := openTestServer(t, fs, true)
		for node, n := range sent {
			last, err := l.view.LastNumbers(t.Context(), node, l.log.Head())
			if err != nil || len(last) != 1 || last[0].Last != n {
				t.Fatalf("round %d: node %d has numbers %v (%v), %d were acknowledged", round, node, last, err, n)
			}
			results := uint64(0)
			page, err := l.view.List(t.Context(), event.Query{Nodes: []model.NodeID{node}})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range page.States {
				results += s.Results
			}
			if results != n {
				t.Fatalf("round %d: node %d has %d results, %d were acknowledged", round, node, results, n)
			}
		}
		whole := openTestServer(t, fs.Crash(0, round), false)
		for p := range model.Partitions {
			if l.view.Hash(model.Partition(p)) != whole.view.Hash(model.Partition(p)) {
				t.Fatalf("round %d: partition %d differs from the whole replay", round, p)
			}
		}
		whole.stopServer()
		for range 20 {
			node := model.NodeID(1 + rng.IntN(12))
			l.sendResults(node, sent[node]+1, rng)
			sent[node] += 4
			if rng.IntN(5) == 0 {
				for p := rng.IntN(13); p < model.Partitions; p += 1 + rng.IntN(5) {
					if err := l.cycle.Save(t.Context(), model.Partition(p)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		crashed := fs.Crash(rng.IntN(101), round)
		l.stopServer()
		fs = crashed
	}
}
