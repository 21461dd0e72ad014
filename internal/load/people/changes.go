package people

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/clock"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// Changes makes the scenario's changes of intent, and records when agents hold them. Agents do not run the checks that
// it creates: their interval is hours. A nil Changes changes nothing.
type Changes struct {
	run      Run
	time     clock.Pipeline
	api      *client.Client
	sc       *scenario.Scenario
	plan     *plan.Directives // nil: there are none
	edits    int              // changes of the directive that all nodes of the plan have
	machines []Machine        // of this process
	some     atomic.Bool      // an order is open: machines that get an assignment look
	entries  []*entry

	mu     sync.Mutex
	orders []*order
}

// entry is one entry of the scenario's intent.
type entry struct {
	spec  *scenario.Change
	n     int              // of the entry
	made  int              // names so far
	times int              // that it was changed
	pool  []string         // names of what exists, oldest first
	other map[string]bool  // names of what is not as it was made
	first []model.Resource // what is there before the first turn
}

const (
	restInterval  = 12 * time.Hour // of a check that is there to be held
	otherInterval = 13 * time.Hour // … and has been changed
)

// NewChanges is nil where nothing changes.
func NewChanges(run Run, time clock.Pipeline, api *client.Client, sc *scenario.Scenario, directives *plan.Directives, machines []Machine) *Changes {
	if len(sc.Intent) == 0 || api == nil {
		return nil
	}
	c := &Changes{run: run, time: time, api: api, sc: sc, plan: directives, machines: machines}
	for i := range sc.Intent {
		spec := &sc.Intent[i]
		x := &entry{spec: spec, n: i, other: map[string]bool{}}
		if !c.edited(x) {
			x.first = c.more(x, spec.Change+spec.Delete, nil)
		}
		c.entries = append(c.entries, x)
	}
	return c
}

// Play creates the resources to change, then makes all changes at their times until ctx ends; each waits for the answer
// to the one before, and is timed from its planned time. It uses the context calls for requests, and returns their
// first error.
func (c *Changes) Play(ctx, calls context.Context) error {
	if c == nil {
		return nil
	}
	for _, x := range c.entries {
		if len(x.first) > 0 {
			if err := simulated.Apply(calls, c.api, "what a load run will change", x.first...); err != nil {
				return fmt.Errorf("%s: %w", x.spec.What(), err)
			}
		}
	}
	for ctx.Err() == nil {
		next := slices.MinFunc(c.entries, func(a, b *entry) int { return cmp.Compare(c.meant(a), c.meant(b)) })
		if wait := time.Duration(c.meant(next) - c.time.Now()); wait > 0 {
			pause.For(ctx, min(wait, time.Second))
			continue
		}
		if err := c.revise(calls, next); err != nil {
			return fmt.Errorf("%s: %w", next.spec.What(), err)
		}
		next.times++
	}
	c.unasked(min(c.time.Now(), c.time.Present().End()))
	return nil
}

// edited reports whether an entry changes a directive of the policies.
func (c *Changes) edited(x *entry) bool { return x.spec.Kind == "directive" }

// meant is when it is its turn next, in the run's time: sooner where phases speed changes of
// intent up. A directive is not changed in the last two intervals, so that its last runs are of the last change.
func (c *Changes) meant(x *entry) int64 {
	at := c.time.Meant(c.time.Virtual(c.time.Present().Zero()) + int64(x.at()))
	if c.edited(x) && at > c.time.Present().End()-2*int64(c.plan.Every) {
		return math.MaxInt64
	}
	return at
}

// unasked logs the changes planned before the end that were not made, with a time until the answer of at least the rest
// of the run.
func (c *Changes) unasked(end int64) {
	begin := c.time.Begin()
	for _, x := range c.entries {
		for ; c.meant(x) <= end-CutOff; x.times++ {
			c.run.Append(&observe.Intent{Entry: x.n, Meant: c.meant(x) - begin, Answered: end - begin, Unasked: true, Away: c.run.Away(c.meant(x), end)})
		}
	}
}

// at returns the planned time of the next change.
func (x *entry) at() model.Duration {
	if x.times > 0 && x.spec.Every == 0 {
		return model.Duration(1 << 62)
	}
	return x.spec.At + model.Duration(x.times)*x.spec.Every
}

// revise makes one change. It opens the order before the request, because an agent may hold the change before the
// answer.
func (c *Changes) revise(ctx context.Context, x *entry) error {
	o, list, gone := c.next(x)
	c.open(o, c.time.Now())
	if len(list) > 0 {
		if err := simulated.Apply(ctx, c.api, x.spec.What(), list...); err != nil {
			return err
		}
	}
	if len(gone) > 0 {
		if err := simulated.Delete(ctx, c.api, x.spec.What(), gone...); err != nil {
			return err
		}
	}
	c.answer(o, c.time.Now())
	return nil
}

// next returns the next change of an entry: the order, the resources to declare and those to delete.
func (c *Changes) next(x *entry) (o *order, list, gone []model.Resource) {
	o = &order{Intent: observe.Intent{Entry: x.n, Meant: c.meant(x)}, want: map[string]string{}, waiting: c.concerned(x)}
	if c.edited(x) {
		c.edits++
		edited := c.plan.Edited(c.edits, func(name string, spec model.Spec) model.Resource {
			return simulated.Resource(model.Metadata{Name: name, Namespace: simulated.Namespace}, spec)
		})
		o.want[edited.Metadata.Name] = strconv.Itoa(c.edits)
		return o, []model.Resource{edited}, nil
	}
	old := x.pool[:min(x.spec.Delete, len(x.pool))]
	x.pool = x.pool[len(old):]
	for _, name := range x.pool[:min(x.spec.Change, len(x.pool))] {
		x.other[name] = !x.other[name]
		list = append(list, c.made(x, name))
		o.want[name] = x.interval(name).String()
	}
	list = append(list, c.more(x, x.spec.Create, o.want)...)
	for _, name := range old {
		gone = append(gone, c.made(x, name))
		o.want[name] = ""
	}
	return o, list, gone
}

// more makes so many new ones.
func (c *Changes) more(x *entry, n int, want map[string]string) (list []model.Resource) {
	for range n {
		name := fmt.Sprintf("intent-%d-%04d", x.n, x.made)
		x.made++
		x.pool = append(x.pool, name)
		list = append(list, c.made(x, name))
		if want != nil {
			want[name] = x.interval(name).String()
		}
	}
	return list
}

// made returns a check of the classes; a changed check has another interval.
func (c *Changes) made(x *entry, name string) model.Resource {
	return simulated.Resource(model.Metadata{Name: name, Namespace: simulated.Namespace},
		&model.CheckSpec{Targets: &model.Targets{Groups: c.groups(x)}, Command: &model.Command{Shell: "true"}, Interval: model.Duration(x.interval(name))})
}

// interval returns the interval of the check with this name.
func (x *entry) interval(name string) time.Duration {
	if x.other[name] {
		return otherInterval
	}
	return restInterval
}

// groups returns the groups whose agents hold the changes of an entry.
func (c *Changes) groups(x *entry) (list []string) {
	if g := x.spec.Group; g != "" && g != scenario.AllGroup { // which may be none on the server
		return []string{g}
	}
	for i := range c.sc.Agents {
		if class := &c.sc.Agents[i]; x.spec.Of(class) {
			list = append(list, class.Name)
		}
	}
	return list
}

// concerned returns the machines that hold the changes of an entry.
func (c *Changes) concerned(x *entry) map[Machine]struct{} {
	all := map[Machine]struct{}{}
	for _, a := range c.machines {
		if x.spec.Of(a.Class()) && (!c.edited(x) || len(a.Class().Policies) > 0) {
			all[a] = struct{}{}
		}
	}
	return all
}
