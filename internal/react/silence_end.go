package react

import (
	"context"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
)

// SilenceEnd names a silence that ends because its problem closed, with the time.
type SilenceEnd struct {
	Silence route.Name
	At      time.Time
}

// endedSilences returns the silences with untilResolved that were in force when a problem closed. History may
// be behind: newer silences do not count.
func (r *router) endedSilences(turns []problemChange) (ends []SilenceEnd) {
	if r.EndSilences == nil {
		return nil
	}
	for i := range turns {
		t := &turns[i]
		if t.Kind != event.ProblemClosed {
			continue
		}
		at := time.Unix(0, t.Received)
		for _, h := range r.Table.Holds(r.describe(t.Node, t.Source, t.problem.Status, t.problem.Severity), nil, at) {
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

// endSilences deletes ended silences. Failures are tried again in a minute; nothing waits for it.
func (r *Reactor) endSilences(ctx context.Context, ends []SilenceEnd) {
	for _, end := range r.pendingEnds {
		ends = withEnd(ends, end)
	}
	if r.pendingEnds = nil; len(ends) == 0 {
		return
	}
	if err := r.opts.Routing.EndSilences(ctx, ends); err != nil && ctx.Err() == nil {
		r.opts.Logger.Warn("silences could not be ended with their problems; trying again in a minute", "silences", ends, "err", err)
		r.pendingEnds, r.endRetry = ends, r.now().Add(time.Minute)
	}
}
