package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/people"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// reform is what people change while results flow, and who holds it since when. Checks
// that it makes are not played: their interval is hours.
type reform struct {
	run  *run
	some atomic.Bool // an order is open: agents that get an assignment look

	mu     sync.Mutex
	orders []*order
	held   []*revision
}

// revision is one entry of the scenario's intent.
type revision struct {
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

// newReform is nil where nothing changes.
func (r *run) newReform() *reform {
	if len(r.cfg.Scenario.Intent) == 0 || r.cfg.API == nil {
		return nil
	}
	f := &reform{run: r}
	for i := range r.cfg.Scenario.Intent {
		spec := &r.cfg.Scenario.Intent[i]
		x := &revision{spec: spec, n: i, other: map[string]bool{}}
		x.first = f.more(x, spec.Change+spec.Delete, nil)
		f.held = append(f.held, x)
	}
	return f
}

// play makes what is there to be changed, and then all changes at their times, while ctx
// lasts; each waits for the answer to the one before, and is timed from when it was meant.
// An error is of the API, which is asked within calls.
func (f *reform) play(ctx, calls context.Context) error {
	if f == nil {
		return nil
	}
	for _, x := range f.held {
		if len(x.first) > 0 {
			if err := simulated.Apply(calls, f.run.cfg.API, "what a load run will change", x.first...); err != nil {
				return fmt.Errorf("%s: %w", x.spec.What(), err)
			}
		}
	}
	for ctx.Err() == nil {
		next := slices.MinFunc(f.held, func(a, b *revision) int { return int(a.at() - b.at()) })
		if wait := f.run.until(time.Duration(f.meant(next))); wait > 0 {
			pause.For(ctx, min(wait, time.Second))
			continue
		}
		if err := f.revise(calls, next); err != nil {
			return fmt.Errorf("%s: %w", next.spec.What(), err)
		}
		next.times++
	}
	f.unasked(min(f.run.now(), f.run.present().end()))
	return nil
}

// meant is when it is its turn next, in the run's time: sooner where phases speed changes of
// intent up.
func (f *reform) meant(x *revision) int64 {
	tempo := f.run.tempo(scenario.Intent)
	return tempo.meant(tempo.virtual(tempo.zero()) + int64(x.at()))
}

// unasked writes what should have been changed before the end and was not: its answer took
// at least as long as until then.
func (f *reform) unasked(end int64) {
	begin := f.run.begin.Load()
	for _, x := range f.held {
		for ; f.meant(x) <= end-people.CutOff; x.times++ {
			f.run.log.Append(observe.Line{Intent: &observe.Intent{Entry: x.n, Meant: f.meant(x) - begin, Answered: end - begin, Unasked: true, Away: f.run.script.away(f.meant(x), end)}})
		}
	}
}

// at is when it is its turn next.
func (x *revision) at() model.Duration {
	if x.times > 0 && x.spec.Every == 0 {
		return model.Duration(1 << 62)
	}
	return x.spec.At + model.Duration(x.times)*x.spec.Every
}

// revise changes once. The order is open before the server is asked: an agent may hold
// what is new before the answer is here.
func (f *reform) revise(ctx context.Context, x *revision) error {
	o, list, gone := f.next(x)
	f.open(o, f.run.now())
	if len(list) > 0 {
		if err := simulated.Apply(ctx, f.run.cfg.API, x.spec.What(), list...); err != nil {
			return err
		}
	}
	if err := f.remove(ctx, x, gone); err != nil {
		return err
	}
	f.answer(o, f.run.now())
	return nil
}

// next is what is changed when it is an entry's turn: what to declare, and what to delete.
func (f *reform) next(x *revision) (o *order, list []model.Resource, gone []string) {
	o = &order{entry: x.n, meant: f.meant(x), want: map[string]time.Duration{}, waiting: f.concerned(x)}
	gone = x.pool[:min(x.spec.Delete, len(x.pool))]
	x.pool = x.pool[len(gone):]
	for _, name := range x.pool[:min(x.spec.Change, len(x.pool))] {
		x.other[name] = !x.other[name]
		list = append(list, f.made(x, name)...)
		o.want[name] = f.interval(x, name)
	}
	list = append(list, f.more(x, x.spec.Create, o.want)...)
	for _, name := range gone {
		o.want[name] = 0
	}
	return o, list, gone
}

func (f *reform) remove(ctx context.Context, x *revision, names []string) error {
	var refs []v1.Ref
	for _, name := range names {
		refs = append(refs, v1.Ref{Kind: "Check", Namespace: simulated.Namespace, Name: name})
		if x.spec.Kind == "group" {
			refs = append(refs, v1.Ref{Kind: "Group", Namespace: simulated.Namespace, Name: name})
		}
	}
	if len(refs) == 0 {
		return nil
	}
	_, err := f.run.cfg.API.Resources.DeleteMany(ctx, v1.DeleteRequest{Resources: refs, Message: x.spec.What(), Yes: true})
	return err
}

// more makes so many new ones.
func (f *reform) more(x *revision, n int, want map[string]time.Duration) (list []model.Resource) {
	for range n {
		name := fmt.Sprintf("intent-%d-%04d", x.n, x.made)
		x.made++
		x.pool = append(x.pool, name)
		list = append(list, f.made(x, name)...)
		if want != nil {
			want[name] = f.interval(x, name)
		}
	}
	return list
}

// made is a check of the classes or, of the kind group, a group of all of them and a check
// for it. What is other is a check with another interval, or a group that is empty.
func (f *reform) made(x *revision, name string) []model.Resource {
	meta := model.Metadata{Name: name, Namespace: simulated.Namespace}
	check := &model.CheckSpec{Targets: &model.Targets{Groups: f.groups(x)}, Command: &model.Command{Shell: "true"}, Interval: model.Duration(restInterval)}
	if x.spec.Kind != "group" {
		check.Interval = model.Duration(f.interval(x, name))
		return []model.Resource{simulated.Resource(meta, check)}
	}
	group := &model.GroupSpec{Groups: f.groups(x)}
	if x.other[name] {
		group = &model.GroupSpec{Where: "false"}
	}
	check.Targets.Groups = []string{name}
	return []model.Resource{simulated.Resource(meta, group), simulated.Resource(meta, check)}
}

// interval is that of the check of this name where agents hold it; zero: they do not.
func (f *reform) interval(x *revision, name string) time.Duration {
	switch {
	case !x.other[name]:
		return restInterval
	case x.spec.Kind == "group":
		return 0
	}
	return otherInterval
}

// groups are those whose agents hold what a revision makes.
func (f *reform) groups(x *revision) (list []string) {
	if g := x.spec.Group; g != "" && g != scenario.AllGroup { // which may be none on the server
		return []string{g}
	}
	sc := f.run.cfg.Scenario
	for i := range sc.Agents {
		if c := &sc.Agents[i]; x.spec.Of(c) {
			list = append(list, c.Name)
		}
	}
	return list
}

func (f *reform) concerned(x *revision) map[*agent]struct{} {
	all := map[*agent]struct{}{}
	for _, a := range f.run.agents {
		if x.spec.Of(a.class.spec) {
			all[a] = struct{}{}
		}
	}
	return all
}
