package app

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// episodes keep a built-in event of nodes: bad from the first time that something comes,
// OK when it has not come for ten minutes in which this server ran. They count in ticks:
// while the server is stopped or stands still, none pass.
type episodes struct {
	write func(node model.NodeID, status model.Status, text string) error
	bad   model.Status
	over  string // what did not come
	open  map[model.NodeID]*episode
}

// episode is from the first to the last.
type episode struct {
	quiet   int    // ticks since it came
	written int    // ticks since the event was written
	about   string // then; "": it was not written by this life of the server
}

const (
	episodeTick  = 5 * time.Second
	episodeAgain = 12  // ticks after which the event is written again though it says the same
	episodeGone  = 120 // ticks after which it closes
)

// newEpisodes begins with those that an earlier life of this server left open.
func (s *Server) newEpisodes(ctx context.Context, check model.CheckID, bad model.Status, over string) (*episodes, error) {
	e := &episodes{bad: bad, over: over, open: map[model.NodeID]*episode{}}
	e.write = func(node model.NodeID, status model.Status, text string) error {
		if s.planner.For(node) == nil {
			return nil // deleted meanwhile, and its events with it
		}
		within, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		return s.ownOf(within, node, check, status, text)
	}
	q := event.Query{
		Checks: []model.CheckID{check}, Statuses: []model.Status{model.Warning, model.Critical, model.Unknown},
		Limit: event.MaxLimit,
	}
	for {
		page, err := s.view.List(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("look for events %q: %w", model.BuiltinCheckName(check), err)
		}
		for _, state := range page.States {
			e.open[state.Node] = &episode{}
		}
		if q.After = page.Next; q.After == "" {
			return e, nil
		}
	}
}

// came writes the event of the node, unless it has been about the same a moment ago; first:
// an episode begins.
func (e *episodes) came(node model.NodeID, about, text string) (first bool) {
	now := e.open[node]
	if first = now == nil; first {
		now = &episode{}
		e.open[node] = now
	}
	now.quiet = 0
	if (about != now.about || now.written >= episodeAgain) && e.write(node, e.bad, text) == nil {
		now.about, now.written = about, 0
	}
	return first
}

func (e *episodes) tick() {
	for node, now := range e.open {
		now.written++
		now.quiet++
		if now.quiet < episodeGone {
			continue
		}
		if e.write(node, model.OK, fmt.Sprintf("%s for %s", e.over, episodeGone*episodeTick)) == nil {
			delete(e.open, node)
		}
	}
}
