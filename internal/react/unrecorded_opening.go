package react

import (
	"context"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// openingMissing reports whether a problem closes whose opening is not in history although its routes have
// handlers: a transition was lost, or history was replaced. Those handlers get a withheld delivery with the
// reason.
func (r *Reactor) openingMissing(ctx context.Context, b *recordedBatch, t *event.Transition, p *history.Problem) (bool, error) {
	if len(r.router.of[p.ID]) > 0 || slices.ContainsFunc(b.Opened, func(o history.Problem) bool { return o.ID == p.ID }) {
		return false, nil
	}
	if _, routes := r.router.choose(t, p); len(routes) == 0 {
		return false, nil
	}
	_, err := r.opts.Store.Problem(ctx, p.ID)
	if model.ClassOf(err) == model.NotFound {
		return true, nil
	}
	return false, err // a known problem had no handlers when it opened
}

// recordUnopened writes a withheld delivery for each handler of a problem without recorded opening.
func (o *deliveryBatch) recordUnopened(t *problemChange, why string) {
	r := o.router
	_, routes := r.choose(t.Transition, &t.problem)
	for _, to := range routes {
		o.recordWithheld(escalationOf(t.problem.ID, to), why)
	}
}
