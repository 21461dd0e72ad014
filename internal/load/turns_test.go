package load

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// asked is what somebody who lists asked of a server that answers within 10 ms, but for a
// while in which it answers nothing.
func asked(t *testing.T, rate float64, whole, stallFrom, stall time.Duration) (w *work, begun []time.Duration, figure report.Beside) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithTimeout(t.Context(), whole)
		defer end()
		r := &run{cfg: Config{Scenario: &scenario.Scenario{Seed: 7}}, epoch: time.Now()}
		r.follow(forever(0, int64(whole)))
		p := &people{run: r, works: map[string]*work{}}
		p.atRate(ctx, "list", r.random("list", 0), rate, func() error {
			at := time.Since(r.epoch)
			begun = append(begun, at)
			if at >= stallFrom && at < stallFrom+stall {
				pause(ctx, stallFrom+stall-at)
			}
			pause(ctx, 10*time.Millisecond)
			return ctx.Err()
		})
		w, figure = p.works["list"], r.besidesOf(0, nil, newTally())[0]
	})
	return w, begun, figure
}

// A server that answers nobody for a minute of ten is late for all that were meant to be
// asked then: they ask behind each other, and are timed from when they were meant.
func TestAStallIsInTheLatencyOfAllThatWereMeantInIt(t *testing.T) {
	const whole = 10 * time.Minute
	calm, times, _ := asked(t, 1, whole, whole, 0)
	if l := report.LatencyOf(calm.took); calm.requests != 600 || calm.unanswered != 0 || l.Max > 10.1 || l.P50 < 9.9 {
		t.Errorf("without a stall: %d answers, %d given up, %+v", calm.requests, calm.unanswered, l)
	}
	w, again, figure := asked(t, 1, whole, 3*time.Minute, time.Minute)
	l := report.LatencyOf(w.took)
	if w.requests != 600 || w.unanswered != 0 || w.failed != 0 {
		t.Errorf("%d answers, %d given up, %d failed", w.requests, w.unanswered, w.failed)
	}
	// One request in ten was meant in the stall: the p99 of all is the p90 of those.
	if l.P99 < 53_000 || l.P99 > 56_000 || l.Max < 59_000 || l.P50 > 10.1 {
		t.Errorf("with a stall: %+v", l)
	}
	if figure.Figure != "list-p99" || figure.Count != 600 || figure.Value != l.P99 {
		t.Errorf("of the phase: %+v, of the run %+v", figure, l)
	}
	// The times are the seed's, and not the server's.
	if n := len(times); n != len(again) || !slices.Equal(times[:100], again[:100]) || !slices.Equal(times[n-100:], again[n-100:]) {
		t.Errorf("%d requests, then %d, or at other times", n, len(again))
	}
}

// What has no answer when the run ends, and what nobody waits for because too many do,
// counts with what it had waited.
func TestWhatIsGivenUpCounts(t *testing.T) {
	w, _, _ := asked(t, 1, 10*time.Minute, 8*time.Minute, time.Hour)
	if l := report.LatencyOf(w.took); w.requests != 480 || w.unanswered < 118 || w.unanswered > 120 || l.P99 < 112_000 || l.Max < 119_000 {
		t.Errorf("%d answers, %d given up, %+v", w.requests, w.unanswered, l)
	}
	w, begun, _ := asked(t, 50, 10*time.Minute, time.Minute, time.Minute)
	if l := report.LatencyOf(w.took); w.requests+w.unanswered != 30_000 || w.unanswered < 1900 || w.unanswered > 2000 || l.P99 < 50_000 || len(begun) != int(w.requests) {
		t.Errorf("%d answers, %d given up, %+v", w.requests, w.unanswered, l)
	}
	if w, _, _ = asked(t, 1, 10*time.Minute, 599*time.Second, time.Hour); w.unanswered > 1 {
		t.Errorf("what the end broke off: %d given up", w.unanswered)
	}
}

// Whoever fails is counted, and is none that had an answer.
func TestFailuresOfPeopleAreCounted(t *testing.T) {
	p := &people{run: &run{}, works: map[string]*work{}}
	p.note("apply", 5, 7, errors.New("no room"))
	p.note("apply", 6, 7, errors.New("later"))
	p.note("apply", 7, 7, nil)
	if w := p.works["apply"]; w.requests != 3 || w.failed != 2 || w.why != "no room" || w.took.TotalCount() != 1 {
		t.Errorf("%+v", w)
	}
}

// A change of intent is meant at its time, however late the answer to the one before: what
// was not asked for when the run ended is counted.
func TestChangesThatNobodyAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{epoch: time.Now()}
		r.follow(score{{from: 0, to: int64(time.Minute), rate: 1, measured: true}})
		once := &revision{spec: &scenario.Change{At: sec(10)}, turns: 1, took: newTally().whole, asked: newTally().whole}
		often := &revision{spec: &scenario.Change{At: sec(10), Every: sec(10)}, turns: 2, took: newTally().whole, asked: newTally().whole}
		f := &reform{run: r, held: []*revision{once, often}}
		f.unasked(r.present().end())
		f.sums()
		if once.sum.Unasked != 0 || often.sum.Unasked != 3 { // at 30, 40 and 50 s; that of 60 s is the end's
			t.Errorf("%d and %d", once.sum.Unasked, often.sum.Unasked)
		}
		if a := often.sum.Answered; a.Max < 29_000 || a.Max > 31_000 || once.sum.Answered.Max != 0 {
			t.Errorf("%+v", a)
		}
	})
}
