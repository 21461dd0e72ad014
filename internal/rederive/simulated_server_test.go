package rederive

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/store/snapshot"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// testDefinition returns the compiled test check with the given id, from a set of eight checks. Half of the
// checks have a TTL of a few seconds.
func testDefinition(id model.DefinitionID) *model.CheckDefinition {
	c := &model.CheckDefinition{Definition: model.Definition{ID: id, Unit: model.CheckID(1000 + id%8), Namespace: 1}, FailAfter: uint32(id % 3), TTL: time.Duration(id%2) * 6 * time.Second}
	for s := range c.Severities {
		c.Severities[s] = model.DefaultSeverity(model.Status(s))
	}
	return c
}

// shardOptions returns the shard settings used both for the live event states and for a replay. The live states
// and the states of a replay have the same settings.
func shardOptions() shard.Options {
	return shard.Options{Definitions: func(id model.DefinitionID) *model.Definition { return testDefinition(id).ToDefinition() }, Grace: 2 * time.Second, BacklogWait: 5 * time.Second, KeepaliveTimeout: 5 * time.Second}
}

// manualClock is a clock that a test sets by hand.
type manualClock struct{ ns atomic.Int64 }

// Wall returns the wall clock in nanoseconds since 1970, advanced by the test.
func (h *manualClock) Wall() int64 {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano() + h.ns.Load()
}

// Mono returns the monotonic time that the test has set.
func (h *manualClock) Mono() time.Duration { return time.Duration(h.ns.Load()) }

// journalLife is one run of a simulated server, from start to crash, with its journal and snapshots.
type journalLife struct {
	*Source
	log   *journal.Log
	store *snapshot.Store
}

// openJournalLife opens a journal and its snapshots on a test file system, like a server's start.
func openJournalLife(t testing.TB, fs disk.FS, o journal.Options) *journalLife {
	t.Helper()
	log := testenv.Value(journal.Open("/journal", o))(t)
	store := testenv.Value(snapshot.Open(snapshot.Options{FS: fs, Dir: "/snapshots", Head: log.Head(), Resolve: log.Resolve}))(t)
	return &journalLife{log: log, store: store, Source: &Source{Journal: log, Snapshots: store, Live: event.New(shard.New(shardOptions()), event.Options{}), Options: shardOptions, Parallel: 2}}
}

// saveSnapshots saves a snapshot of every partition (share of the nodes). It fails the test if history has not yet recorded all
// transitions of a partition.
func (l *journalLife) saveSnapshots(t testing.TB, recorded uint64) {
	t.Helper()
	for i := range model.Partitions {
		p := model.Partition(i)
		body, at := l.Snapshot(p, nil)
		if at.Number == 0 || at.Number > recorded {
			t.Fatalf("snapshot of partition %d at %d, history has %d", p, at.Number, recorded)
		}
		pending, err := l.store.Write(p, at, snapshot.Append(nil, &snapshot.Snapshot{Partition: p, At: at, Body: body}))
		if err == nil {
			err = pending.Commit()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// deleteSegments deletes the journal segments that no consumer needs any more.
func (l *journalLife) deleteSegments(t testing.TB) {
	t.Helper()
	if floor := l.lowestPosition(); floor.Number > 0 {
		testenv.NoError(t, l.log.Cut(floor))
	}
}

// copiedCommit is a copy of a journal commit, which stays valid after the journal reuses its buffers. It stays
// valid after the original's buffers are reused.
type copiedCommit struct {
	journal.Commit // nil: the fields below hold the whole commit
	at             journal.Position
	received       int64
	listening      time.Duration
	sections       []journal.Section
	entries        map[journal.Section][][]byte
}

// copyCommit returns a copy of a journal commit with all its entries.
func copyCommit(t testing.TB, c journal.Commit) *copiedCommit {
	out := &copiedCommit{at: c.Position(), received: c.Received(), listening: c.Listening(), entries: map[journal.Section][][]byte{}}
	for _, s := range c.Sections() {
		out.sections = append(out.sections, s)
		if err := c.Entries(s, func(data []byte) error {
			out.entries[s] = append(out.entries[s], append([]byte(nil), data...))
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	return out
}

// Position returns the commit's position in the journal.
func (c *copiedCommit) Position() journal.Position { return c.at }

// Received returns the time at which the server received the entries.
func (c *copiedCommit) Received() int64 { return c.received }

// Listening returns for how long the server had accepted messages from agents before the commit.
func (c *copiedCommit) Listening() time.Duration { return c.listening }

// Sections returns the shares of the nodes (partitions) that have entries in the commit.
func (c *copiedCommit) Sections() []journal.Section { return c.sections }

// Entries calls fn with each entry in one section (share of the nodes) of the commit. Each partition of nodes
// has one section.
func (c *copiedCommit) Entries(s journal.Section, fn func([]byte) error) error {
	for _, data := range c.entries[s] {
		if err := fn(data); err != nil {
			return err
		}
	}
	return nil
}

// onlyPartition returns a journal commit with only the entries of one share of the nodes (partition).
func (c *copiedCommit) onlyPartition(p model.Partition) *copiedCommit {
	out := *c
	out.sections = nil
	for _, s := range c.sections {
		if s == journal.Section(p) || s == journal.All {
			out.sections = append(out.sections, s)
		}
	}
	return &out
}

// used holds the partitions of the test nodes, see section.
const used, apart = 7, 37

// recomputeEachPartition computes the changes of events separately for each partition, as the expected result of a
// replay. A share (partition) has event states of its own.
func recomputeEachPartition(t testing.TB, all []*copiedCommit) (out [model.Partitions][]event.Transition) {
	t.Helper()
	for i := range used {
		p := model.Partition(i * apart)
		view := event.New(shard.New(shardOptions()), event.Options{Emit: func(ts []event.Transition) {
			for _, x := range ts {
				if x.Partition == p {
					out[p] = append(out[p], x)
				}
			}
		}})
		for _, c := range all {
			testenv.NoError(t, view.Apply(c.onlyPartition(p)))
		}
	}
	return out
}

// transitionKey formats a transition (change of an event) as text, to compare transitions.
func transitionKey(t *event.Transition) string {
	problem, _ := json.Marshal(t.Problem)
	return fmt.Sprint(t.At, t.Index, t.Partition, t.Kind, t.Node, t.Namespace, t.Source, t.Definition, t.Status, t.Previous, t.First, t.Severity, t.Received, t.Executed, t.Output, t.Count, t.Expired, string(problem))
}

// testFleet makes random journal entries of a dozen simulated nodes. The nodes are in seven partitions (shares of the
// fleet).
type testFleet struct {
	rng    *rand.Rand
	clock  *manualClock
	output int // length of an output in bytes
	number [13]uint64
}

// section returns the number of the journal section to which records about a node belong.
func (f *testFleet) section(node model.NodeID) journal.Section {
	return journal.Section(node % used * apart)
}

// entry returns a random journal entry of a node, some time after the last entry.
func (f *testFleet) entry(t testing.TB) journal.Entry {
	f.clock.ns.Add(f.rng.Int64N(int64(3 * time.Second)))
	node := model.NodeID(1 + f.rng.IntN(12))
	e := journal.Entry{Section: f.section(node)}
	switch f.rng.IntN(20) {
	case 0:
		return journal.Entry{Section: journal.All, Data: wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordStarted})}
	case 1, 2:
		e.Data = wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordSession, Node: node, Session: &wire.SessionRecord{
			Session: 1 + f.rng.Uint64N(2), Start: f.rng.IntN(3) > 0, Clean: f.rng.IntN(2) > 0, Namespace: 1, TimeoutMs: 5000, Backlog: f.rng.Uint64N(3)}})
	case 3:
		e.Data = wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordAction, Node: node, Action: &wire.Action{
			Verb: []string{"resolve", "delete", "acknowledge"}[f.rng.IntN(3)], Check: model.CheckID(1000 + f.rng.IntN(8)), By: "ann"}})
	default:
		b := wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: f.number[node] + 1, NowMs: 1 << 40}
		for range 1 + f.rng.IntN(6) {
			b.Signals = append(b.Signals, wire.ResultSignal(wire.Signal{Definition: model.DefinitionID(10 + f.rng.IntN(8)), AtMs: b.NowMs - f.rng.Uint64N(3000)}, wire.Result{Status: model.Status(f.rng.IntN(4)), Output: f.text()}))
		}
		f.number[node] += uint64(len(b.Signals))
		_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
		testenv.NoError(t, err)
		e.Data = append(wire.AppendBatchRecord(nil, node), body...)
	}
	return e
}

// text returns a random output of a check.
func (f *testFleet) text() []byte {
	text := fmt.Appendf(nil, "%x", f.rng.Uint64())
	for len(text) < f.output {
		text = append(text, byte('0'+f.rng.IntN(64)))
	}
	return text
}

// commitWaiter is a channel that receives the error of one journal entry's commit.
type commitWaiter chan error

// Committed sends the error of a journal commit to the waiting test.
func (w commitWaiter) Committed(_ uint64, _ journal.Position, err error) { w <- err }

// write appends `count` random entries to the journal, each in a commit of its own.
func (f *testFleet) write(t testing.TB, log *journal.Log, count int) {
	t.Helper()
	kept := make(commitWaiter, 1)
	for range count {
		e := f.entry(t)
		e.Waiter = kept
		err := log.Append(context.Background(), e)
		if err == nil {
			err = <-kept
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// lowestPosition returns the lowest journal position among all readers of the journal. The journal may delete
// the entries before it.
func (l *journalLife) lowestPosition() journal.Position {
	var c journal.Consumers
	c.Add(l.store.Consumers)
	c.Add(l.Source.Consumers)
	lowest, _ := c.Slowest()
	return lowest.At
}
