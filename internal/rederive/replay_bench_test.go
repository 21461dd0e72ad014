package rederive

import (
	"math/rand/v2"
	"testing"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/testenv"
)

// BenchmarkCatchUp measures how fast a replay of the journal computes all changes of events. One pass for all
// partitions of nodes is compared with one pass per partition. The benchmark does not write the transitions to
// history.
func BenchmarkCatchUp(b *testing.B) {
	fs := memfs.New()
	f := &testFleet{rng: rand.New(rand.NewPCG(1, 1)), clock: &manualClock{}, output: 100}
	l := openJournalLife(b, fs, journal.Options{FS: fs, Clock: f.clock, Tick: -1, Reserve: -1})
	defer l.log.Close()
	f.write(b, l.log, 3000)
	whole := float64(l.log.SizeAfter(journal.Position{}))
	for _, way := range []struct {
		name    string
		replays int
		do      func() (changes int)
	}{
		{"one pass", 1, func() (changes int) {
			replay := testenv.Value(l.BeginReplay())(b)
			defer replay.Close()
			if _, err := replay.Read(b.Context(), func(_ journal.Position, _ int64, ts []event.Transition) error {
				changes += len(ts)
				return nil
			}); err != nil {
				b.Fatal(err)
			}
			return changes
		}},
		{"one for each partition", model.Partitions, func() (changes int) {
			for p := range model.Partitions {
				view := event.New(shard.New(shardOptions()), event.Options{Emit: func(ts []event.Transition) { changes += len(ts) }})
				testenv.NoError(b, l.log.Read(b.Context(), journal.Position{}, func(c journal.Commit) error { return view.Apply(partitionCommit{c, journal.Section(p)}) }))
			}
			return changes
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			changes := 0
			for b.Loop() {
				changes += way.do()
			}
			b.ReportMetric(float64(changes)/b.Elapsed().Seconds(), "changes/s")
			b.ReportMetric(whole*float64(way.replays)*float64(b.N)/float64(changes), "journal-B/change")
		})
	}
}

// partitionCommit is a journal commit reduced to the records of one partition (share of the nodes). A commit is a
// group of records; a share is also called a partition.
type partitionCommit struct {
	journal.Commit
	section journal.Section
}

// Sections returns the commit's journal sections with records about the partition's nodes or about all nodes.
// The own section is that of the partition, the common section is All.
func (c partitionCommit) Sections() (list []journal.Section) {
	for _, s := range c.Commit.Sections() {
		if s == c.section || s == journal.All {
			list = append(list, s)
		}
	}
	return list
}
