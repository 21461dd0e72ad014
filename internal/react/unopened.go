package react

import (
	"context"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// unopened says of a problem that closes whether its opening never came to history, though somebody
// was to be told of it: a change was lost, or history is another one than it was. That nobody was told
// must not pass without a trace.
func (r *Reactor) unopened(ctx context.Context, b *rows, t *event.Transition, p *history.Problem) (bool, error) {
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
	return false, err // where it is known, nobody was to be told when it opened
}

// unopened keeps for those who were to be told why they were not.
func (r *router) unopened(o *telling, t *turn, why string) {
	_, routes := r.choose(t.Transition, &t.problem)
	for _, to := range routes {
		r.untold(o, escalationOf(t.problem.ID, to), why)
	}
}
