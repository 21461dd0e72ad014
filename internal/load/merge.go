package load

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/model"
)

// A loader that leads others writes what they saw to its own log: their lines have their numbers, and
// are judged together. Alone, all of this is nothing.

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

// awaitMeasured waits for the rest of the others' logs.
func (r *run) awaitMeasured(ctx context.Context) error {
	if r.cfg.Others == nil {
		return nil
	}
	if err := r.cfg.Others.Finish(ctx); err != nil {
		return err
	}
	r.collect()
	for i, l := range r.othersLedgers() {
		if err := r.fits(r.joined[i].Number, &l); err != nil {
			return fmt.Errorf("loader %d (%s): %w", r.joined[i].Number+1, r.joined[i].Name, err)
		}
	}
	return nil
}

// collect writes what the others saw to the log.
func (r *run) collect() {
	if r.cfg.Others == nil {
		return
	}
	for _, line := range r.cfg.Others.Lines() {
		r.log.Append(line)
	}
}

// othersLedgers are those of the other loaders, in their order.
func (r *run) othersLedgers() (list []observe.Ledgers) {
	r.log.Look(func(c *observe.Checks) {
		for i := range r.joined {
			l := observe.Ledgers{}
			if n := r.joined[i].Number; n < len(c.Ledgers) {
				l = c.Ledgers[n]
			}
			list = append(list, l)
		}
	})
	return list
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
