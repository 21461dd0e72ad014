package react

import (
	"context"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
)

// resolved are the silences that end with problems which closed: those that were to last
// until the first of their problems closes.
func (r *router) resolved(turns []turn, now time.Time) (names []route.Name) {
	if r.opts.EndSilences == nil {
		return nil
	}
	for i := range turns {
		t := &turns[i]
		if t.Kind != event.ProblemClosed {
			continue
		}
		for _, h := range r.opts.Routing.Holds(r.matter(t.Node, t.Check, t.problem.Status, t.problem.Severity), nil, now) {
			if h.UntilResolved && !slices.Contains(names, h.By) {
				names = append(names, h.By)
			}
		}
	}
	return names
}

// endSilences takes silences away, and those that could not be before. Nothing waits for it:
// what fails is tried again in a minute.
func (r *Reactor) endSilences(ctx context.Context, names []route.Name) {
	for _, name := range r.ending {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if r.ending = nil; len(names) == 0 {
		return
	}
	if err := r.opts.EndSilences(ctx, names); err != nil && ctx.Err() == nil {
		r.opts.Logger.Warn("silences could not be ended with their problems; trying again in a minute", "silences", names, "err", err)
		r.ending, r.endAgain = names, r.now().Add(clockLook)
	}
}
