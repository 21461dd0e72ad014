package shard

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// A deleted node is remembered as long as a spool may hold results of it, and not
// longer; a fleet that is deleted at once costs no look at each for each.
func TestTombstonesEnd(t *testing.T) {
	const many = 50_000
	first := &commit{pos: journal.Position{Log: 1, Number: 1}}
	for i := range many {
		first.add(1, &wire.Record{Kind: wire.RecordForget, Node: model.NodeID(1 + i*model.Partitions), Forget: &wire.ForgetMark{Deleted: true}})
	}
	forget := func(number uint64, at time.Duration) *commit {
		c := &commit{pos: journal.Position{Log: 1, Number: number}, listening: at}
		c.add(1, &wire.Record{Kind: wire.RecordForget, Node: 1, Forget: &wire.ForgetMark{Check: model.CheckID(1000 + number)}})
		return c
	}
	s := New(Options{})
	apply(t, s, []*commit{first, forget(2, model.MaxSpoolAge)})
	if p := s.Partition(1); len(p.tombstones) != many || len(p.buried) != many || !p.Deleted(1+model.Partitions) {
		t.Fatalf("%d tombstones, %d in order; want %d", len(p.tombstones), len(p.buried), many)
	}
	body, at := s.Snapshot(1, nil)
	again := New(Options{})
	if err := again.Restore(1, at, body); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Shard{s, again} {
		apply(t, s, []*commit{forget(3, TombstoneAge+time.Hour)})
		if p := s.Partition(1); len(p.tombstones) != 0 || len(p.buried) != 0 {
			t.Errorf("%d tombstones, %d in order; want none", len(p.tombstones), len(p.buried))
		}
	}
	if s.Hash(1) != again.Hash(1) {
		t.Error("a restored shard holds something else")
	}
}
