package load

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/load/observe"
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
	r := &run{epoch: time.Now(), log: observe.NewLog("")}
	f := &reform{run: r}
	here, away, late := &agent{run: r, session: silent{}}, &agent{run: r}, &agent{run: r, session: silent{}}
	first := &order{entry: 1, want: map[string]time.Duration{"a": restInterval}, waiting: map[*agent]struct{}{here: {}, away: {}, late: {}}}
	f.open(first, 1)
	f.assigned(here, &link.Assignment{Definitions: []*model.Definition{(&model.CheckDefinition{Definition: model.Definition{Name: "a"}, Interval: restInterval}).Seal()}}, 2)
	f.answer(first, 3)
	second := &order{entry: 2, want: map[string]time.Duration{"a": 0, "b": restInterval}, waiting: map[*agent]struct{}{here: {}, late: {}}}
	f.open(second, 4)
	f.answer(second, 5)
	f.assigned(late, &link.Assignment{Definitions: []*model.Definition{(&model.CheckDefinition{Definition: model.Definition{Name: "b"}, Interval: restInterval}).Seal()}}, 6)
	f.close()
	want := []observe.Intent{{Entry: 1, Answered: 3, Agents: 3, Held: []int64{2, 6}}, {Entry: 2, Answered: 5, Agents: 2, Held: []int64{6}, Never: 1}}
	if got := r.log.Checks().Intent; !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v", got)
	}
}

// A change of intent is meant at its time, however late the answer to the one before: what
// was not asked for when the run ended is written.
func TestChangesThatNobodyAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{epoch: time.Now(), log: observe.NewLog("")}
		r.follow(score{{From: 0, To: int64(time.Minute), Rate: 1, Measured: true}})
		f := &reform{run: r, held: []*revision{{spec: &scenario.Change{At: sec(10)}, times: 1}, {n: 1, spec: &scenario.Change{At: sec(10), Every: sec(10)}, times: 2}}}
		f.unasked(r.present().end())
		var want []observe.Intent
		for _, at := range []int{30, 40, 50} { // that of 60 s is the end's
			want = append(want, observe.Intent{Entry: 1, Meant: int64(sec(at)), Answered: int64(time.Minute), Unasked: true})
		}
		if got := r.log.Checks().Intent; !reflect.DeepEqual(got, want) {
			t.Errorf("%+v", got)
		}
	})
}
