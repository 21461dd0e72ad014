package shard

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/journaltest"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// newCounterShard returns a shard with two reducers, the second an example that counts signals.
func newCounterShard() (*Shard, *signalCounter) {
	s, c := New(Options{Grace: 10 * time.Second}), new(signalCounter)
	s.Add(c)
	return s, c
}

// newSampleCommits returns three journal commits with signals of three nodes, for tests of the example reducer.
// One keeps sending, one falls silent, one stops. A restart and the removal of a node follow.
func newSampleCommits(t testing.TB) []*testCommit {
	const going, silent, stopped = 1, 1 + model.Partitions, 1 + 2*model.Partitions
	var list []*testCommit
	numbers := map[model.NodeID]uint64{}
	at := func(seconds int, entries ...func(c *testCommit)) {
		c := newCommit(uint64(len(list)+1), time.Duration(seconds)*time.Second)
		for _, add := range entries {
			add(c)
		}
		list = append(list, c)
	}
	begin := func(node model.NodeID) func(*testCommit) {
		return func(c *testCommit) {
			c.addRecord(1, &wire.Record{
				Kind: wire.RecordSession, Node: node, Session: &wire.SessionRecord{Session: 1, Start: true, Namespace: 1, TimeoutMs: 600_000},
			})
		}
	}
	send := func(node model.NodeID) func(*testCommit) {
		return func(c *testCommit) { c.addValueBlocks(t, node, numbers[node]+1, 1); numbers[node]++ }
	}
	repeat := func(node model.NodeID) func(*testCommit) {
		return func(c *testCommit) { c.addValueBlocks(t, node, numbers[node], 1) }
	}
	alive := func(node model.NodeID) func(*testCommit) { // without a signal that the reducer claims
		return func(c *testCommit) {
			numbers[node]++
			c.addKeepalive(t, node, numbers[node])
		}
	}
	at(1, begin(going), begin(silent), begin(stopped), send(going), send(silent), send(stopped))
	at(30, send(going), repeat(going), func(c *testCommit) {
		c.addRecord(1, &wire.Record{Kind: wire.RecordSession, Node: stopped, Session: &wire.SessionRecord{Session: 1, Clean: true}})
	})
	at(50, func(c *testCommit) { c.addRecord(journal.All, &wire.Record{Kind: wire.RecordStarted}) })
	at(65, alive(silent)) // with the grace due at 71, not at 61
	at(71, alive(silent), send(going))
	at(80, func(c *testCommit) {
		c.addRecord(1, &wire.Record{Kind: wire.RecordForget, Node: silent, Forget: &wire.ForgetRecord{Deleted: true}})
	}, send(going))
	at(90, send(silent)) // deleted: it does not come back
	return list
}

// applyCommits applies commits to a shard and fails the test on an error.
func applyCommits(t *testing.T, s *Shard, list []*testCommit) {
	t.Helper()
	for _, c := range list {
		if err := s.Apply(c); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSecondReducerGetsSignalsAndDeadlines adds a second reducer, and expects each signal once, and separate deadlines
// and snapshot sections.
func TestSecondReducerGetsSignalsAndDeadlines(t *testing.T) {
	commits := newSampleCommits(t)
	whole, c := newCounterShard()
	applyCommits(t, whole, commits)
	p := whole.Partition(1)
	n, ok := p.Find(1)
	if _, deleted := p.Find(1 + model.Partitions); !ok || deleted || c.partitions[1].counts[n] != 4 {
		t.Fatalf("node 1 has %d signals, want 4; the deleted node exists: %v", c.partitions[1].counts[n], deleted)
	}
	if want := []model.NodeID{1 + model.Partitions}; !slices.Equal(c.silent, want) {
		t.Fatalf("silent: %v, want %v", c.silent, want)
	}
	for k := range commits {
		part, _ := newCounterShard()
		applyCommits(t, part, commits[:k])
		again, c := newCounterShard()
		for id := range model.Partitions {
			body, at := part.Snapshot(model.Partition(id), nil)
			if err := again.Restore(model.Partition(id), at, body); err != nil {
				t.Fatal(err)
			}
		}
		applyCommits(t, again, commits)
		if again.Hash(1) != whole.Hash(1) {
			t.Errorf("from a snapshot after commit %d: another partition", k)
		}
		if k < 5 && len(c.silent) != 1 {
			t.Errorf("from a snapshot after commit %d: silent %v", k, c.silent)
		}
	}
}

// TestSectionWithoutReducerIsRefused restores a snapshot section of an unknown reducer, and expects an error
// that names the section.
func TestSectionWithoutReducerIsRefused(t *testing.T) {
	s, _ := newCounterShard()
	applyCommits(t, s, newSampleCommits(t)[:1])
	body, at := s.Snapshot(1, nil)
	if err := New(Options{}).Restore(1, at, body); !errors.Is(err, ErrSnapshot) || !strings.Contains(err.Error(), `section "counts"`) {
		t.Errorf("without the reducer: %v", err)
	}
	alone := New(Options{})
	applyCommits(t, alone, newSampleCommits(t)[:1])
	body, at = alone.Snapshot(1, nil)
	late, c := newCounterShard()
	if err := late.Restore(1, at, body); err != nil || late.Nodes() != 3 || !slices.Equal(c.partitions[1].counts, []uint64{0, 0, 0}) {
		t.Errorf("a reducer added later: %v, %v", err, c.partitions[1].counts)
	}
	defer func() {
		if recover() == nil {
			t.Error("two reducers of one section")
		}
	}()
	late.Add(new(signalCounter))
}

// FuzzRestoreSections restores random bytes as a snapshot, and expects an error with an empty partition, or no error.
func FuzzRestoreSections(f *testing.F) {
	s, _ := newCounterShard()
	for _, c := range newSampleCommits(f) {
		if err := s.Apply(c); err != nil {
			f.Fatal(err)
		}
		body, _ := s.Snapshot(1, nil)
		f.Add(body)
	}
	f.Add(EmptySnapshot())
	f.Fuzz(func(t *testing.T, data []byte) {
		s, _ := newCounterShard()
		if err := s.Restore(1, journal.Position{Log: 1, Number: 1}, data); err != nil {
			if s.Nodes() != 0 || s.Partition(1).tombstones.Len() != 0 {
				t.Fatalf("%d nodes after %v", s.Nodes(), err)
			}
			return
		}
		again, _ := newCounterShard()
		body, _ := s.Snapshot(1, nil)
		if err := again.Restore(1, journal.Position{}, body); err != nil || again.Hash(1) != s.Hash(1) {
			t.Fatalf("a snapshot of what was restored is another: %v", err)
		}
	})
}

// TestTombstonesExpireAfterSpoolAge removes nodes, and expects their tombstones to expire after the maximum
// spool age. Until then an agent's spool may still have results of the node. Deleting a whole fleet at once
// takes linear time.
func TestTombstonesExpireAfterSpoolAge(t *testing.T) {
	const many = 50_000
	first := newCommit(1, 0)
	for i := range many {
		first.addRecord(1, &wire.Record{
			Kind: wire.RecordForget, Node: model.NodeID(1 + i*model.Partitions), Forget: &wire.ForgetRecord{Deleted: true},
		})
	}
	forget := func(number uint64, at time.Duration) *testCommit {
		c := newCommit(number, at)
		c.addRecord(1, &wire.Record{Kind: wire.RecordForget, Node: 1, Forget: &wire.ForgetRecord{Check: model.CheckID(1000 + number)}})
		return c
	}
	s := New(Options{})
	applyCommits(t, s, []*testCommit{first, forget(2, model.MaxSpoolAge)})
	if p := s.Partition(1); len(p.tombstones.marks) != many || len(p.tombstones.byAge) != many || !p.Deleted(1+model.Partitions) {
		t.Fatalf("%d tombstones, %d in order; want %d", len(p.tombstones.marks), len(p.tombstones.byAge), many)
	}
	body, at := s.Snapshot(1, nil)
	again := New(Options{})
	if err := again.Restore(1, at, body); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Shard{s, again} {
		applyCommits(t, s, []*testCommit{forget(3, TombstoneAge+time.Hour)})
		if p := s.Partition(1); len(p.tombstones.marks) != 0 || len(p.tombstones.byAge) != 0 {
			t.Errorf("%d tombstones, %d in order; want none", len(p.tombstones.marks), len(p.tombstones.byAge))
		}
	}
	if s.Hash(1) != again.Hash(1) {
		t.Error("a restored shard holds something else")
	}
}

// testCommit is a journal.Commit in memory.
type testCommit struct{ journaltest.Commit }

// newCommit returns an empty test commit with a number and the time for which the server has listened.
func newCommit(number uint64, listening time.Duration) *testCommit {
	return &testCommit{journaltest.Commit{
		At: journal.Position{Log: 1, Number: number}, Listened: listening, Time: int64(1_800_000_000*time.Second + listening),
	}}
}

// addRecord adds a record to one section (the entries of one partition) of the commit
func (c *testCommit) addRecord(s journal.Section, r *wire.Record) {
	c.AddEntry(s, wire.AppendRecord(nil, r))
}

// addValueBlocks adds value blocks (metric samples) of a node, numbered from a given sequence number.
func (c *testCommit) addValueBlocks(t testing.TB, node model.NodeID, first uint64, blocks int) {
	b := &wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: first, NowMs: 1}
	for range blocks {
		b.Signals = append(b.Signals, wire.Signal{Kind: countSignal, Definition: 10, AtMs: 1, Body: wire.AppendValueBlock(nil, &wire.ValueBlock{Rows: 1, Columns: []byte{0}})})
	}
	c.addBatch(t, node, b)
}

// addKeepalive adds a batch with one keepalive of a node to the commit.
func (c *testCommit) addKeepalive(t testing.TB, node model.NodeID, first uint64) {
	c.addBatch(t, node, &wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: first, NowMs: 1, Signals: []wire.Signal{{Kind: wire.SignalKeepalive, AtMs: 1}}})
}

// addBatch adds the journal record of a node's batch to the commit.
func (c *testCommit) addBatch(t testing.TB, node model.NodeID, b *wire.Batch) {
	t.Helper()
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, b))
	if err != nil {
		t.Fatal(err)
	}
	c.addRecord(journal.Section(node%model.Partitions), &wire.Record{Kind: wire.RecordBatch, Node: node, Batch: body})
}
