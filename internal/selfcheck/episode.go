package selfcheck

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// episodes keep one built-in event of nodes: it opens at the first occurrence and closes after ten
// minutes without one. They count ticks, none of which pass while the server is stopped or hangs.
type episodes struct {
	write  func(node model.NodeID, status model.Status, text string) error
	status model.Status // of an open event
	closed string       // text of the closing result, before its duration
	open   map[model.NodeID]*episode
}

// episode is the time from the first to the last occurrence on one node.
type episode struct {
	sinceSeen    int    // ticks since the last occurrence
	sinceWritten int    // ticks since the last result
	subject      string // of the last result; "": an earlier run of the server wrote it
}

const (
	episodeTick   = 5 * time.Second
	episodeRepeat = 12  // ticks after which an unchanged result is written again
	episodeLength = 120 // ticks without an occurrence after which the event closes
)

// newEpisodes continues the events that an earlier run of the server left open.
func (m *Monitor) newEpisodes(ctx context.Context, check model.CheckID, status model.Status, closed string) (*episodes, error) {
	e := &episodes{status: status, closed: closed, open: map[model.NodeID]*episode{}}
	e.write = func(node model.NodeID, status model.Status, text string) error {
		if !m.o.Exists(node) {
			return nil // the node was deleted, and its events with it
		}
		within, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		return m.o.Record(within, node, check, status, text)
	}
	q := event.Query{
		Checks: []model.CheckID{check}, Statuses: []model.Status{model.Warning, model.Critical, model.Unknown},
		Limit: event.MaxLimit,
	}
	for {
		page, err := m.o.Events(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("list events %q: %w", model.BuiltinCheckName(check), err)
		}
		for _, state := range page.States {
			e.open[state.Node] = &episode{}
		}
		if q.After = page.Next; q.After == "" {
			return e, nil
		}
	}
}

// occurred writes a result for the node, unless the last one has the same subject and is recent. first:
// the event opens.
func (e *episodes) occurred(node model.NodeID, subject, text string) (first bool) {
	current := e.open[node]
	if first = current == nil; first {
		current = &episode{}
		e.open[node] = current
	}
	current.sinceSeen = 0
	if (subject != current.subject || current.sinceWritten >= episodeRepeat) && e.write(node, e.status, text) == nil {
		current.subject, current.sinceWritten = subject, 0
	}
	return first
}

// tick closes events without a recent occurrence; a result that the journal refuses is written by a later tick.
func (e *episodes) tick() {
	for node, current := range e.open {
		current.sinceWritten++
		current.sinceSeen++
		if current.sinceSeen < episodeLength {
			continue
		}
		if e.write(node, model.OK, fmt.Sprintf("%s for %s", e.closed, episodeLength*episodeTick)) == nil {
			delete(e.open, node)
		}
	}
}
