package rederive

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestReplayEqualsDirectComputation replays the journal after random crashes, and expects the same history as a
// direct computation. Each transition must arrive once and in order.
func TestReplayEqualsDirectComputation(t *testing.T) {
	seeds := 10
	if testing.Short() {
		seeds = 4
	}
	tails, crashes, transitions := 0, 0, 0
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			var all []*copiedCommit
			f := &testFleet{rng: rng, clock: &manualClock{}}
			fs := memfs.New()
			open := func() *journalLife {
				return openJournalLife(t, fs, journal.Options{FS: fs, Clock: f.clock, Tick: -1, Reserve: -1, SegmentSize: 4 << 10,
					Deliver: func(c journal.Commit) { all = append(all, copyCommit(t, c)) }})
			}
			l := open()
			var recorded [model.Partitions][]event.Transition
			var places [2][model.Partitions]history.ChangePosition // recorded places of history and of pipelines
			stop := errors.New("stop")
			for round := range 12 {
				f.write(t, l.log, rng.IntN(60))
				replay, err := l.BeginReplay()
				testenv.NoError(t, err)
				_, err = replay.Read(t.Context(), func(at journal.Position, _ int64, ts []event.Transition) error {
					for _, x := range ts {
						if x.At != at {
							t.Fatalf("commit %d brings a transition of %d", at.Number, x.At.Number)
						}
						of := 0
						if x.Kind == event.Observed {
							of = 1
						}
						if place := &places[of][x.Partition]; !place.Includes(x.At, x.Index) {
							*place = history.ChangePosition{At: x.At, Index: x.Index}
							recorded[x.Partition] = append(recorded[x.Partition], x)
							transitions++
						}
					}
					switch rng.IntN(30) {
					case 0:
						l.saveSnapshots(t, at.Number)
					case 1:
						l.deleteSegments(t)
					case 2:
						if round < 11 {
							return stop
						}
					}
					return nil
				})
				if err != nil && !errors.Is(err, stop) {
					t.Fatal(err)
				}
				replay.Close()
				if rng.IntN(3) == 0 {
					crashes++
					crashed := fs.Crash(rng.IntN(101), seed)
					testenv.NoError(t, l.log.Close())
					fs = crashed
					l = open()
					all = all[:l.log.Head().Number] // commits that Close appended do not belong to the next run
				}
			}
			if l.log.Tail().Number > 1 {
				tails++
			}
			all = all[:l.log.Head().Number]
			testenv.NoError(t, l.log.Close())
			for p, want := range recomputeEachPartition(t, all) {
				if len(want) != len(recorded[p]) {
					t.Fatalf("partition %d: %d transitions, want %d", p, len(recorded[p]), len(want))
				}
				for i := range want {
					if got, want := transitionKey(&recorded[p][i]), transitionKey(&want[i]); got != want {
						t.Fatalf("partition %d, transition %d:\n%s\nwant\n%s", p, i, got, want)
					}
				}
			}
		})
	}
	if tails == 0 || crashes == 0 || transitions < 1000 {
		t.Errorf("%d journals were cut, %d crashed, %d transitions: nothing is shown", tails, crashes, transitions)
	}
}
