package app

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/source/muster"
)

// clones are machines that were sent away because another one has their identity, on
// their way to the node's event. Who finds no room comes again within two minutes.
type clones chan muster.Clone

// came is muster.Config.OnClone.
func (c clones) came(clone muster.Clone) {
	select {
	case c <- clone:
	default:
	}
}

const (
	cloneTick  = 5 * time.Second
	cloneAgain = 12  // ticks after which the event is written again though it says the same
	cloneGone  = 120 // ticks without a clone after which it closes: ten minutes of listening
)

// tellClones keeps the event `identity` of nodes: critical while a second machine comes
// with a node's identity, OK when none came for ten minutes in which this server ran.
func (s *Server) tellClones(ctx context.Context) error {
	w := cloneWatch{write: func(node model.NodeID, status model.Status, text string) error {
		if s.planner.For(node) == nil {
			return nil // deleted meanwhile, and its events with it
		}
		within, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		return s.ownOf(within, node, model.IdentityCheck, status, text)
	}}
	open, err := s.openClones(ctx)
	if err != nil {
		return err
	}
	for _, node := range open {
		w.episode(node)
	}
	tick := time.NewTicker(cloneTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			w.tick()
		case c := <-s.clones:
			text, first := w.came(c)
			if first {
				s.log.Warn("two machines have one identity", "node", c.Node.Name, "holds", c.Holds.String(), "came", c.Came.String(), "event", text)
			}
		}
	}
}

// openClones are the nodes whose event an earlier life of this server left open.
func (s *Server) openClones(ctx context.Context) (nodes []model.NodeID, err error) {
	q := event.Query{
		Checks: []model.CheckID{model.IdentityCheck}, Statuses: []model.Status{model.Warning, model.Critical, model.Unknown},
		Limit: event.MaxLimit,
	}
	for {
		page, err := s.view.List(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("look for events of cloned nodes: %w", err)
		}
		for _, state := range page.States {
			nodes = append(nodes, state.Node)
		}
		if q.After = page.Next; q.After == "" {
			return nodes, nil
		}
	}
}

// cloneWatch counts in ticks: while the server is stopped or stands still, none pass.
type cloneWatch struct {
	write func(node model.NodeID, status model.Status, text string) error
	open  map[model.NodeID]*episode
}

// episode is from the first clone of a node to the last.
type episode struct {
	quiet   int    // ticks since one came
	written int    // ticks since the event was written
	text    string // then
}

func (w *cloneWatch) episode(node model.NodeID) (e *episode, first bool) {
	if w.open == nil {
		w.open = map[model.NodeID]*episode{}
	}
	e = w.open[node]
	if first = e == nil; first {
		e = &episode{}
		w.open[node] = e
	}
	return e, first
}

// came writes the event of the node, unless it has said the same a moment ago.
func (w *cloneWatch) came(c muster.Clone) (text string, first bool) {
	e, first := w.episode(c.Node.ID)
	e.quiet = 0
	text = cloneText(c)
	if (text != e.text || e.written >= cloneAgain) && w.write(c.Node.ID, model.Critical, text) == nil {
		e.text, e.written = text, 0
	}
	return text, first
}

func (w *cloneWatch) tick() {
	for node, e := range w.open {
		e.written++
		e.quiet++
		if e.quiet < cloneGone {
			continue
		}
		if w.write(node, model.OK, fmt.Sprintf("no second machine came with this node's identity for %s", cloneGone*cloneTick)) == nil {
			delete(w.open, node)
		}
	}
}

func cloneText(c muster.Clone) string {
	return fmt.Sprintf("two machines have this node's identity: %s is connected since %s; %s came with it and was sent away. "+
		"One is a copy of the other. On the one that is wrong, type: systemctl stop muster-agent; muster-agent reset-identity; then join it with a token of its own. "+
		"This closes by itself when none came for %s",
		c.Holds, c.Holds.Since.Format(time.RFC3339), c.Came, model.Duration(cloneGone*cloneTick))
}
