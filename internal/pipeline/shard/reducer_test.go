package shard

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// countShard is a shard with the counter on it.
func countShard() (*Shard, *counter) {
	s, c := New(Options{Grace: 10 * time.Second}), new(counter)
	s.Add(c)
	return s, c
}

// commits of three nodes of partition 1: one goes on sending, one falls silent, and one stops
// by a planned end; then the server restarts, and a node is deleted.
func countCommits(t testing.TB) []*commit {
	const going, silent, stopped = 1, 1 + model.Partitions, 1 + 2*model.Partitions
	var list []*commit
	numbers := map[model.NodeID]uint64{}
	at := func(seconds int, entries ...func(c *commit)) {
		c := &commit{pos: journal.Position{Log: 1, Number: uint64(len(list) + 1)}, listening: time.Duration(seconds) * time.Second}
		for _, add := range entries {
			add(c)
		}
		list = append(list, c)
	}
	begin := func(node model.NodeID) func(*commit) {
		return func(c *commit) {
			c.add(1, &wire.Record{Kind: wire.RecordSession, Node: node, Session: &wire.SessionMark{Session: 1, Begun: true, Namespace: 1, TimeoutMs: 600_000}})
		}
	}
	send := func(node model.NodeID) func(*commit) {
		return func(c *commit) { c.batch(t, node, numbers[node]+1, 1); numbers[node]++ }
	}
	repeat := func(node model.NodeID) func(*commit) {
		return func(c *commit) { c.batch(t, node, numbers[node], 1) }
	}
	alive := func(node model.NodeID) func(*commit) { // without a signal that the reducer claims
		return func(c *commit) {
			numbers[node]++
			c.keepalive(t, node, numbers[node])
		}
	}
	at(1, begin(going), begin(silent), begin(stopped), send(going), send(silent), send(stopped))
	at(30, send(going), repeat(going), func(c *commit) {
		c.add(1, &wire.Record{Kind: wire.RecordSession, Node: stopped, Session: &wire.SessionMark{Session: 1, Clean: true}})
	})
	at(50, func(c *commit) { c.add(journal.All, &wire.Record{Kind: wire.RecordStarted}) })
	at(65, alive(silent)) // with the grace due at 71, not at 61
	at(71, alive(silent), send(going))
	at(80, func(c *commit) {
		c.add(1, &wire.Record{Kind: wire.RecordForget, Node: silent, Forget: &wire.ForgetMark{Deleted: true}})
	}, send(going))
	at(90, send(silent)) // deleted: it does not come back
	return list
}

func apply(t *testing.T, s *Shard, list []*commit) {
	t.Helper()
	for _, c := range list {
		if err := s.Apply(c); err != nil {
			t.Fatal(err)
		}
	}
}

// A second reducer stands on the shard without copying anything: duplicates are dropped, its
// deadlines get the grace and wait for a stopped node, deleted nodes stay deleted, and its
// section restores it from a snapshot after any commit.
func TestAnotherReducer(t *testing.T) {
	commits := countCommits(t)
	whole, c := countShard()
	apply(t, whole, commits)
	p := whole.Partition(1)
	n, ok := p.Find(1)
	if _, deleted := p.Find(1 + model.Partitions); !ok || deleted || c.partitions[1].counts[n] != 4 {
		t.Fatalf("node 1 has %d signals, want 4; the deleted node exists: %v", c.partitions[1].counts[n], deleted)
	}
	if want := []model.NodeID{1 + model.Partitions}; !slices.Equal(c.silent, want) {
		t.Fatalf("silent: %v, want %v", c.silent, want)
	}
	for k := range commits {
		part, _ := countShard()
		apply(t, part, commits[:k])
		again, c := countShard()
		for id := range model.Partitions {
			body, at := part.Snapshot(model.Partition(id), nil)
			if err := again.Restore(model.Partition(id), at, body); err != nil {
				t.Fatal(err)
			}
		}
		apply(t, again, commits)
		if again.Hash(1) != whole.Hash(1) {
			t.Errorf("from a snapshot after commit %d: another partition", k)
		}
		if k < 5 && len(c.silent) != 1 {
			t.Errorf("from a snapshot after commit %d: silent %v", k, c.silent)
		}
	}
}

// A snapshot with the section of a reducer that this program lacks is refused by its name; a
// reducer without a section starts empty.
func TestSectionsOfOtherReducers(t *testing.T) {
	s, _ := countShard()
	apply(t, s, countCommits(t)[:1])
	body, at := s.Snapshot(1, nil)
	if err := New(Options{}).Restore(1, at, body); !errors.Is(err, ErrSnapshot) || !strings.Contains(err.Error(), `section "counts"`) {
		t.Errorf("without the reducer: %v", err)
	}
	alone := New(Options{})
	apply(t, alone, countCommits(t)[:1])
	body, at = alone.Snapshot(1, nil)
	late, c := countShard()
	if err := late.Restore(1, at, body); err != nil || late.Nodes() != 3 || !slices.Equal(c.partitions[1].counts, []uint64{0, 0, 0}) {
		t.Errorf("a reducer added later: %v, %v", err, c.partitions[1].counts)
	}
	defer func() {
		if recover() == nil {
			t.Error("two reducers of one section")
		}
	}()
	late.Add(new(counter))
}
