package react

import (
	"context"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
)

// SilenceEnd is a silence with when a problem closed that it was to last for.
type SilenceEnd struct {
	Silence route.Name
	At      time.Time
}

// resolved are the silences that end with problems which closed: those that were to last
// until the first of their problems closes, and were in force when it did. History may be behind:
// what was silenced since is not meant.
func (r *router) resolved(turns []turn) (ends []SilenceEnd) {
	if r.opts.EndSilences == nil {
		return nil
	}
	for i := range turns {
		t := &turns[i]
		if t.Kind != event.ProblemClosed {
			continue
		}
		at := time.Unix(0, t.Received)
		for _, h := range r.opts.Routing.Holds(r.described(t.Node, t.Source, t.problem.Status, t.problem.Severity), nil, at) {
			if h.UntilResolved {
				ends = withEnd(ends, SilenceEnd{h.By, at})
			}
		}
	}
	return ends
}

// withEnd adds an end; of one silence it keeps the last.
func withEnd(list []SilenceEnd, end SilenceEnd) []SilenceEnd {
	i := slices.IndexFunc(list, func(e SilenceEnd) bool { return e.Silence == end.Silence })
	if i < 0 {
		return append(list, end)
	}
	if list[i].At.Before(end.At) {
		list[i].At = end.At
	}
	return list
}

// endSilences takes silences away, and those that could not be before. Nothing waits for it:
// what fails is tried again in a minute.
func (r *Reactor) endSilences(ctx context.Context, ends []SilenceEnd) {
	for _, end := range r.ending {
		ends = withEnd(ends, end)
	}
	if r.ending = nil; len(ends) == 0 {
		return
	}
	if err := r.opts.EndSilences(ctx, ends); err != nil && ctx.Err() == nil {
		r.opts.Logger.Warn("silences could not be ended with their problems; trying again in a minute", "silences", ends, "err", err)
		r.ending, r.endAgain = ends, r.now().Add(time.Minute)
	}
}
