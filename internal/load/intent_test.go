package load

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// An agent holds an order when each check is there as wanted, and what must go is gone.
func TestWhoHoldsAnOrder(t *testing.T) {
	held := func(checks map[string]time.Duration) *link.Assignment {
		h := &link.Assignment{}
		for name, interval := range checks {
			h.Definitions = append(h.Definitions, (&model.CheckDefinition{Definition: model.Definition{Name: name}, Interval: interval}).Seal())
		}
		return h
	}
	o := &order{want: map[string]time.Duration{"new": restInterval, "other": otherInterval, "gone": 0}}
	for _, c := range []struct {
		checks map[string]time.Duration
		want   bool
	}{
		{map[string]time.Duration{"new": restInterval, "other": otherInterval}, true},
		{map[string]time.Duration{"new": restInterval, "other": otherInterval, "web-http-000": time.Second}, true},
		{map[string]time.Duration{"new": restInterval, "other": restInterval}, false},
		{map[string]time.Duration{"new": restInterval, "other": otherInterval, "gone": restInterval}, false},
		{map[string]time.Duration{"other": otherInterval}, false},
		{nil, false},
	} {
		if got := o.heldIn(held(c.checks)); got != c.want {
			t.Errorf("%v: %v", c.checks, got)
		}
	}
}

// Who never holds what was ordered is counted, unless the machine is away; what a later
// order wants otherwise, nobody waits for.
func TestWhoNeverHoldsAnOrder(t *testing.T) {
	r := &run{epoch: time.Now()}
	x := &revision{spec: &scenario.Change{}, sum: report.Held{What: "create 1 checks"}}
	f := &reform{run: r, held: []*revision{x}}
	here, away, late := &agent{run: r, session: silent{}}, &agent{run: r}, &agent{run: r, session: silent{}}
	first := &order{revision: x, want: map[string]time.Duration{"a": restInterval}, waiting: map[*agent]struct{}{here: {}, away: {}, late: {}}}
	f.open(first, 1)
	f.assigned(here, &link.Assignment{Definitions: []*model.Definition{(&model.CheckDefinition{Definition: model.Definition{Name: "a"}, Interval: restInterval}).Seal()}}, 2)
	f.answer(first, 3)
	second := &order{revision: x, want: map[string]time.Duration{"a": 0, "b": restInterval}, waiting: map[*agent]struct{}{here: {}, late: {}}}
	f.open(second, 4)
	f.answer(second, 5)
	f.assigned(late, &link.Assignment{Definitions: []*model.Definition{(&model.CheckDefinition{Definition: model.Definition{Name: "b"}, Interval: restInterval}).Seal()}}, 6)
	f.close()
	sums := f.sums()
	if len(sums) != 1 || sums[0].Agents != 5 || sums[0].Never != 1 || x.took.Count() != 3 || x.lasts[0] != 3 || x.lasts[1] != -1 {
		t.Fatalf("%+v, %d timed", sums, x.took.Count())
	}
}

// A change of intent is meant at its time, however late the answer to the one before: what
// was not asked for when the run ended is counted.
func TestChangesThatNobodyAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{epoch: time.Now()}
		r.follow(score{{from: 0, to: int64(time.Minute), rate: 1, measured: true}})
		once := &revision{spec: &scenario.Change{At: sec(10)}, times: 1}
		often := &revision{spec: &scenario.Change{At: sec(10), Every: sec(10)}, times: 2}
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
