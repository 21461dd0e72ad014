package react

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// recordedBatch holds the rows and problem changes of a list of transitions, before routing.
type recordedBatch struct {
	history.Batch
	changes []problemChange
	// missingOpenings closed, though their openings never came; somebody was to be told of them.
	missingOpenings []problemChange
	// predating are open, and opened before there was this history.
	predating []problemChange
}

// problemChange is one transition for the router, in order.
type problemChange struct {
	*event.Transition
	problem history.Problem
	late    bool // it opened long ago, and that was lost
}

// silentSince lists the times at which nodes fell silent, ascending.
func (b *recordedBatch) silentSince() (at []time.Time) {
	for i := range b.Opened {
		if b.Opened[i].Source == model.CheckSource(model.KeepaliveCheck) {
			at = append(at, b.Opened[i].Opened)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	return at
}

// composeBatch turns transitions into rows. It skips transitions that are recorded, and changes nothing.
func (r *Reactor) composeBatch(ctx context.Context, ts []event.Transition) (recordedBatch, error) {
	b := recordedBatch{Batch: history.Batch{Places: map[model.Partition]history.Place{}}}
	for i := range ts {
		t := &ts[i]
		if place, ok := b.Places[t.Partition]; ok && place.Reached(t.At, t.Index) {
			continue
		} else if !ok && r.places[t.Partition].Reached(t.At, t.Index) {
			r.metrics.repeated.Inc()
			continue
		}
		b.Places[t.Partition] = history.Place{At: t.At, Index: t.Index}
		switch t.Kind {
		case event.ProblemOpened:
			p := r.problem(t)
			b.Opened = append(b.Opened, p)
			b.changes = append(b.changes, problemChange{Transition: t, problem: p})
		case event.ProblemClosed:
			p, err := r.closing(ctx, t)
			if err != nil {
				return b, err
			}
			if unopened, err := r.openingMissing(ctx, &b, t, &p); err != nil {
				return b, err
			} else if unopened {
				b.missingOpenings = append(b.missingOpenings, problemChange{Transition: t, problem: p})
			}
			b.Closed = append(b.Closed, p)
			b.changes = append(b.changes, problemChange{Transition: t, problem: p})
		case event.Deregistered:
			if err := r.deregister(t, &b); err != nil {
				return b, err
			}
		case event.Beat:
			d, err := beat(t, r.now())
			if err != nil {
				return b, err
			}
			b.Deliveries = append(b.Deliveries, d)
		default:
			b.Entries = append(b.Entries, r.entry(t))
			switch t.Kind {
			case event.Acknowledged, event.Unacknowledged:
				b.changes = append(b.changes, problemChange{Transition: t, problem: r.problem(t)})
			case event.StatusChanged:
				b.changes = append(b.changes, problemChange{Transition: t})
			}
		}
	}
	return b, nil
}

// entryKinds maps transition kinds to history's.
var entryKinds = [...]history.EntryKind{
	event.StatusChanged: history.StatusChanged, event.ResultsLost: history.ResultsLost, event.LateResult: history.LateResult,
	event.Acknowledged: history.Acknowledged, event.Unacknowledged: history.Unacknowledged,
	event.FlappingStarted: history.FlappingStarted, event.FlappingEnded: history.FlappingEnded, event.TextChanged: history.TextChanged,
}

func (r *Reactor) entry(t *event.Transition) history.Entry {
	namespace, node, source := r.names(t)
	return history.Entry{
		At: time.Unix(0, t.Received), Executed: time.Unix(0, t.Executed), Kind: entryKinds[t.Kind],
		Namespace: namespace, Node: node, NodeID: t.Node, Source: t.Source, SourceName: source,
		Status: t.Status, Previous: t.Previous, First: t.First, Output: t.Output, Count: t.Count, Expired: t.Expired,
		Partition: t.Partition, Place: history.Place{At: t.At, Index: t.Index},
	}
}

func (r *Reactor) names(t *event.Transition) (namespace, node, source string) {
	return namesOf(r.opts.Names, t)
}

func namesOf(names Names, t *event.Transition) (namespace, node, source string) {
	namespace, node, ok := names.NodeName(t.Node)
	if !ok {
		node = fmt.Sprintf("node-%d", t.Node)
		namespace, _ = names.NamespaceName(t.Namespace)
	}
	if _, source, ok = names.SourceName(t.Source); !ok {
		if c := names.CheckChunk(t.Chunk); c != nil && t.Source.Kind == model.SourceCheck {
			source = c.Name
		} else {
			source = t.Source.PlaceholderName()
		}
	}
	return namespace, node, source
}

func (r *Reactor) problem(t *event.Transition) history.Problem {
	namespace, node, source := r.names(t)
	return history.Problem{Problem: *t.Problem, Namespace: namespace, Node: node, SourceName: source}
}

// closing returns a problem as it ends. A deleted node or source, which may be the cause, keeps the name that
// it had at the opening.
func (r *Reactor) closing(ctx context.Context, t *event.Transition) (history.Problem, error) {
	p := r.problem(t)
	_, _, nodeKnown := r.opts.Names.NodeName(t.Node)
	_, _, sourceKnown := r.opts.Names.SourceName(t.Source)
	if nodeKnown && sourceKnown {
		return p, nil
	}
	opened, err := r.opts.Store.Problem(ctx, p.ID)
	switch {
	case model.ClassOf(err) == model.NotFound: // opened in this very batch, or long ago
		return p, nil
	case err != nil:
		return p, err
	}
	p.Namespace, p.Node, p.SourceName = opened.Namespace, opened.Node, opened.SourceName
	return p, nil
}
