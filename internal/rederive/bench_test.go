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

// BenchmarkCatchUp makes all changes of a journal again: in one pass, and as it was done
// before, one partition after the other. What records them costs nothing here.
func BenchmarkCatchUp(b *testing.B) {
	fs := memfs.New()
	f := &fleet{rng: rand.New(rand.NewPCG(1, 1)), clock: &manualClock{}, output: 100}
	l := openJournalLife(b, fs, journal.Options{FS: fs, Clock: f.clock, Tick: -1, Reserve: -1})
	defer l.log.Close()
	f.write(b, l.log, 3000)
	whole := float64(l.log.SizeAfter(journal.Position{}))
	for _, way := range []struct {
		name   string
		passes int
		do     func() (changes int)
	}{
		{"one pass", 1, func() (changes int) {
			pass := testenv.Value(l.BeginPass())(b)
			defer pass.Close()
			if _, err := pass.Read(b.Context(), func(_ journal.Position, _ int64, ts []event.Transition) error {
				changes += len(ts)
				return nil
			}); err != nil {
				b.Fatal(err)
			}
			return changes
		}},
		{"one for each partition", model.Partitions, func() (changes int) {
			for p := range model.Partitions {
				view := event.New(shard.New(options()), event.Options{Emit: func(ts []event.Transition) { changes += len(ts) }})
				testenv.NoError(b, l.log.Read(b.Context(), journal.Position{}, func(c journal.Commit) error { return view.Apply(part{c, journal.Section(p)}) }))
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
			b.ReportMetric(whole*float64(way.passes)*float64(b.N)/float64(changes), "journal-B/change")
		})
	}
}

// part is a commit of which one partition is seen.
type part struct {
	journal.Commit
	section journal.Section
}

func (c part) Sections() (list []journal.Section) {
	for _, s := range c.Commit.Sections() {
		if s == c.section || s == journal.All {
			list = append(list, s)
		}
	}
	return list
}
