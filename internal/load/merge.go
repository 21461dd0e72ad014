package load

import (
	"context"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/model"
)

// A loader that leads others asks all for what they counted and adds it to its own: tallies
// add bucket by bucket, and the agents' ledgers stand beside its own agents' when they are
// compared with the view. Alone, all of this is nothing.

// connectOthers has the agents of the others connect, once all would play the same.
func (r *run) connectOthers(ctx context.Context, plan string) error {
	if r.cfg.Others == nil {
		return nil
	}
	r.joined = r.cfg.Others.Loaders()
	return r.cfg.Others.Connect(ctx, plan)
}

// awaitOthers waits until their agents hold their checks.
func (r *run) awaitOthers(ctx context.Context, rep *reporting) (err error) {
	if r.cfg.Others == nil {
		return nil
	}
	if r.arrived, err = r.cfg.Others.Ready(ctx); err != nil {
		return err
	}
	for _, a := range r.arrived {
		rep.ConnectSeconds, rep.ReadySeconds = max(rep.ConnectSeconds, a.Connect), max(rep.ReadySeconds, a.Ready)
	}
	return nil
}

// beginning is when the timetable begins: soon, and known to all by then.
func (r *run) beginning() int64 {
	if r.cfg.Others == nil {
		return r.now() + int64(100*time.Millisecond)
	}
	return int64(r.cfg.Others.Begin().Sub(r.epoch))
}

// awaitMeasured takes what the others measured.
func (r *run) awaitMeasured(ctx context.Context) (err error) {
	if r.cfg.Others == nil {
		return nil
	}
	if r.measured, err = r.cfg.Others.Finish(ctx); err != nil {
		return err
	}
	for i, m := range r.measured {
		if err := r.fits(r.joined[i].Number, &m.Ledgers); err != nil {
			return fmt.Errorf("loader %d (%s): %w", r.joined[i].Number+1, r.joined[i].Name, err)
		}
		r.slowed.Add(m.Slowed)
		r.wrong.Add(m.Wrong)
	}
	return nil
}

// stretches are what the others did in a part of the plan; nil entries are not known yet.
func (r *run) stretches(part int) []*Stretch {
	switch {
	case r.cfg.Others == nil:
		return nil
	case r.measured == nil:
		return r.cfg.Others.Stretch(part)
	}
	list := make([]*Stretch, len(r.measured))
	for i, m := range r.measured {
		if part < len(m.Stretches) {
			list[i] = &m.Stretches[part]
		}
	}
	return list
}

// usedElsewhere is what the others used in a part of the plan, so far as it is known.
func (r *run) usedElsewhere(part int) (list []usage.Other) {
	for i, s := range r.stretches(part) {
		if s != nil {
			list = append(list, usage.Other{Here: r.joined[i].Here, CPU: s.CPU, RSS: s.RSS})
		}
	}
	return list
}

// shareOf is how many agents one of the others has.
func (r *run) shareOf(i int) int {
	return Part{Number: r.joined[i].Number, Of: r.cfg.Part.Of}.share(len(r.cfg.Members))
}

// presence sums up who of the others' agents is there; acknowledged is what was so after an
// instant.
func (r *run) presence(since int64) (sum Presence) {
	if r.cfg.Others == nil {
		return sum
	}
	for _, p := range r.cfg.Others.Present() {
		sum.Connected += p.Connected
		sum.Lost += p.Lost
		sum.Most += p.Most
		sum.Away = sum.Away || p.Away
		if at := r.begin.Load() + p.Acked; p.Acked > 0 && at > since && (sum.Acked == 0 || at < sum.Acked) {
			sum.Acked = at
		}
	}
	return sum
}

// fits refuses ledgers that are not those of a loader's agents.
func (r *run) fits(number int, l *observe.Ledgers) error {
	part := Part{Number: number, Of: r.cfg.Part.Of}
	if want := part.share(len(r.cfg.Members)); len(l.Agents) != want {
		return model.Errorf(model.Invalid, "%d ledgers of %d agents", len(l.Agents), want)
	}
	seen := make(map[int]bool, len(l.Agents))
	for i := range l.Agents {
		x := &l.Agents[i]
		if x.Member < 0 || x.Member >= len(r.cfg.Members) || !part.owns(x.Member) || seen[x.Member] || x.Set < 0 || x.Set >= len(l.Sets) ||
			l.Sets[x.Set].Class != r.cfg.Members[x.Member].Class {
			return model.Errorf(model.Invalid, "a ledger of machine %d, which is not its own", x.Member)
		}
		seen[x.Member] = true
		if want := len(r.classes[l.Sets[x.Set].Class].checks); len(l.Sets[x.Set].Checks) != want || len(x.States) != want {
			return model.Errorf(model.Invalid, "a ledger of machine %d with %d states of %d checks", x.Member, len(x.States), want)
		}
	}
	return nil
}

func addTo(sum, more map[string]uint64) {
	for k, n := range more {
		sum[k] += n
	}
}

// told are why connections could not be opened and why sessions ended, of all loaders, and who of
// them ended late.
func (r *run) told(rep *reporting) {
	rep.Failures, rep.Losses = r.causes()
	for i, m := range r.measured {
		addTo(rep.Failures, m.Failures)
		addTo(rep.Losses, m.Losses)
		if m.Late > 0 {
			rep.Label = append(rep.Label, fmt.Sprintf("loader %d (%s) heard %.1f s late that the timetable ends: what it sent meanwhile is compared, and not measured",
				r.joined[i].Number+1, r.joined[i].Name, time.Duration(m.Late).Seconds()))
		}
	}
}

// causes are those that this loader knows of. Its agents live on while a report is made: the maps
// are copies.
func (r *run) causes() (failures, losses map[string]uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.failures), maps.Clone(r.losses)
}

// hostname is how this machine calls itself.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "this machine"
	}
	return name
}
