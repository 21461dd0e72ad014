package people

import (
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// TestWhoHoldsAnOrder expects that an agent holds an order if its assignment has each check as wanted, and none of the
// deleted ones.
func TestWhoHoldsAnOrder(t *testing.T) {
	held := func(checks map[string]time.Duration) *link.Assignment {
		h := &link.Assignment{}
		for name, interval := range checks {
			h.Definitions = append(h.Definitions, (&model.CheckDefinition{Definition: model.Definition{Name: name}, Interval: interval}).ToDefinition())
		}
		return h
	}
	o := &order{want: map[string]string{"new": restInterval.String(), "other": otherInterval.String(), "gone": ""}}
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

// stub is a machine with or without a session.
type stub struct {
	Machine
	here  bool
	class *scenario.Class
}

func (s *stub) Class() *scenario.Class { return s.class }

func (s *stub) Here() (string, bool) { return "", s.here }

func (s *stub) Held() (*link.Assignment, int64) { return nil, 0 }

// TestWhoNeverHoldsAnOrder expects a count of machines that never hold an order, without absent ones, and that a later
// order about the same check replaces it.
func TestWhoNeverHoldsAnOrder(t *testing.T) {
	r := &alone{}
	c := &Changes{run: r, time: lasting(0, steady(time.Minute))}
	here, away, late := &stub{here: true}, &stub{}, &stub{here: true}
	first := &order{Intent: observe.Intent{Entry: 1}, want: map[string]string{"a": restInterval.String()}, waiting: map[Machine]struct{}{here: {}, away: {}, late: {}}}
	c.open(first, 1)
	c.Assigned(here, &link.Assignment{Definitions: []*model.Definition{(&model.CheckDefinition{Definition: model.Definition{Name: "a"}, Interval: restInterval}).ToDefinition()}}, 2)
	c.answer(first, 3)
	second := &order{Intent: observe.Intent{Entry: 2}, want: map[string]string{"a": "", "b": restInterval.String()}, waiting: map[Machine]struct{}{here: {}, late: {}}}
	c.open(second, 4)
	c.answer(second, 5)
	c.Assigned(late, &link.Assignment{Definitions: []*model.Definition{(&model.CheckDefinition{Definition: model.Definition{Name: "b"}, Interval: restInterval}).ToDefinition()}}, 6)
	c.closeOrders(func(*order) bool { return true })
	want := []observe.Intent{{Entry: 1, Answered: 3, Agents: 3, Held: []int64{2, 6}}, {Entry: 2, Answered: 5, Agents: 2, Held: []int64{6}, Never: 1}}
	if got := r.changes; !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v", got)
	}
}

// TestChangesThatNobodyAskedFor expects that changes not made before the end of the run are logged, with their planned
// times.
func TestChangesThatNobodyAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &alone{}
		c := &Changes{run: r, time: lasting(0, steady(time.Minute)), entries: []*entry{{spec: &scenario.Change{At: model.Duration(10 * time.Second)}, times: 1}, {n: 1, spec: &scenario.Change{At: model.Duration(10 * time.Second), Every: model.Duration(10 * time.Second)}, times: 2}}}
		c.unasked(int64(time.Minute))
		var want []observe.Intent
		for _, at := range []int{30, 40, 50} { // that of 60 s is the end's
			want = append(want, observe.Intent{Entry: 1, Meant: int64(time.Duration(at) * time.Second), Answered: int64(time.Minute), Unasked: true})
		}
		if got := r.changes; !reflect.DeepEqual(got, want) {
			t.Errorf("%+v", got)
		}
	})
}

// TestGroupOfAChange expects that a change for a group targets it on the server, and is held by agents of all its
// classes.
func TestGroupOfAChange(t *testing.T) {
	sc := &scenario.Scenario{Agents: []scenario.Class{{Name: "web", Groups: []string{"linux", "eu"}}, {Name: "db", Groups: []string{"linux"}}, {Name: "spare"}}}
	var machines []Machine
	for i := range sc.Agents {
		machines = append(machines, &stub{class: &sc.Agents[i]})
	}
	for group, want := range map[string][]string{"linux": {"db", "web"}, "eu": {"web"}, "db": {"db"}, scenario.AllGroup: {"db", "spare", "web"}} {
		sc.Intent = []scenario.Change{{Create: 1, Kind: "check", Group: group}}
		c := NewChanges(&alone{}, lasting(0, steady(time.Minute)), &client.Client{}, sc, nil, machines)
		var holds []string
		for m := range c.concerned(c.entries[0]) {
			holds = append(holds, m.Class().Name)
		}
		slices.Sort(holds)
		if targets := c.groups(c.entries[0]); !slices.Equal(holds, want) || group != scenario.AllGroup && !slices.Equal(targets, []string{group}) {
			t.Errorf("%s: held by %v, targets %v", group, holds, targets)
		}
	}
}
