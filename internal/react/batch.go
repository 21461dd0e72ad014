package react

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// batch turns transitions into rows; those recorded before are passed over.
func (r *Reactor) batch(ctx context.Context, ts []event.Transition) (history.Batch, error) {
	b := history.Batch{Places: map[model.Partition]history.Place{}}
	told, err := r.opts.Store.Told(ctx, r.closed(ts))
	if err != nil {
		return b, err
	}
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
		case event.StatusChanged, event.ResultsLost, event.LateResult, event.Acknowledged, event.Unacknowledged,
			event.FlappingStarted, event.FlappingEnded, event.TextChanged:
			b.Entries = append(b.Entries, r.entry(t))
		case event.ProblemOpened:
			p := r.problem(t)
			b.Opened = append(b.Opened, p)
			refs := r.handlers(t)
			told[p.ID] = refs
			if err := r.tell(&b, t, p, handler.Opened, refs); err != nil {
				return b, err
			}
		case event.ProblemClosed:
			p, err := r.closing(ctx, t)
			if err != nil {
				return b, err
			}
			b.Closed = append(b.Closed, p)
			if err := r.tell(&b, t, p, handler.Closed, told[p.ID]); err != nil {
				return b, err
			}
		}
	}
	return b, nil
}

// closed names the problems that close.
func (r *Reactor) closed(ts []event.Transition) (ids []string) {
	for i := range ts {
		if ts[i].Kind == event.ProblemClosed {
			ids = append(ids, ts[i].Problem.ID)
		}
	}
	return ids
}

// entryKinds are what history calls transitions.
var entryKinds = [...]history.EntryKind{
	event.StatusChanged: history.StatusChanged, event.ResultsLost: history.ResultsLost, event.LateResult: history.LateResult,
	event.Acknowledged: history.Acknowledged, event.Unacknowledged: history.Unacknowledged,
	event.FlappingStarted: history.FlappingStarted, event.FlappingEnded: history.FlappingEnded, event.TextChanged: history.TextChanged,
}

func (r *Reactor) entry(t *event.Transition) history.Entry {
	namespace, node, check := r.names(t)
	return history.Entry{
		At: time.Unix(0, t.Received), Executed: time.Unix(0, t.Executed), Kind: entryKinds[t.Kind],
		Namespace: namespace, Node: node, NodeID: t.Node, Check: check, CheckID: t.Check,
		Status: t.Status, Previous: t.Previous, First: t.First, Output: t.Output, Count: t.Count, Expired: t.Expired,
		Partition: t.Partition, Place: history.Place{At: t.At, Index: t.Index},
	}
}

func (r *Reactor) names(t *event.Transition) (namespace, node, check string) {
	namespace, node, ok := r.opts.Names.NodeName(t.Node)
	if !ok {
		node = fmt.Sprintf("node-%d", t.Node)
		namespace, _ = r.opts.Names.NamespaceName(t.Namespace)
	}
	if _, check, ok = r.opts.Names.CheckName(t.Check); !ok {
		if c := r.opts.Names.Chunk(t.Chunk); c != nil {
			check = c.CheckName
		} else {
			check = fmt.Sprintf("check-%d", t.Check)
		}
	}
	return namespace, node, check
}

func (r *Reactor) problem(t *event.Transition) history.Problem {
	namespace, node, check := r.names(t)
	return history.Problem{Problem: *t.Problem, Namespace: namespace, Node: node, Check: check}
}

// closing is the problem as it ends. A node or check that was deleted, which may be
// why it ends, is called what it was called when the problem opened.
func (r *Reactor) closing(ctx context.Context, t *event.Transition) (history.Problem, error) {
	p := r.problem(t)
	_, _, nodeKnown := r.opts.Names.NodeName(t.Node)
	_, _, checkKnown := r.opts.Names.CheckName(t.Check)
	if nodeKnown && checkKnown {
		return p, nil
	}
	opened, err := r.opts.Store.Problem(ctx, p.ID)
	switch {
	case model.ClassOf(err) == model.NotFound: // opened in this very batch, or long ago
		return p, nil
	case err != nil:
		return p, err
	}
	p.Namespace, p.Node, p.Check = opened.Namespace, opened.Node, opened.Check
	return p, nil
}

// handlers are those that the definition names which judged the result; where it names
// none (a keepalive never does), those of the node's namespace.
func (r *Reactor) handlers(t *event.Transition) []history.HandlerRef {
	var names []string
	var owner model.NamespaceID
	if chunk := r.opts.Names.Chunk(t.Chunk); chunk != nil {
		names, owner = chunk.Handlers, chunk.Namespace
	}
	if len(names) == 0 {
		owner = t.Namespace
	}
	namespace, ok := r.opts.Names.NamespaceName(owner)
	if !ok {
		return nil
	}
	if len(names) == 0 {
		names = r.opts.Names.NamespaceHandlers(namespace)
	}
	refs := make([]history.HandlerRef, len(names))
	for i, name := range names {
		refs[i].Namespace, refs[i].Name = model.SplitRef(namespace, name)
	}
	return refs
}

func (r *Reactor) tell(b *history.Batch, t *event.Transition, p history.Problem, kind string, refs []history.HandlerRef) error {
	if len(refs) == 0 {
		return nil
	}
	labels := r.opts.Names.NodeLabels(t.Node)
	payload, err := encodeNotification(kind, t, p, labels)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		one := history.Delivery{
			Key: p.ID + "/" + kind + "/" + ref.Namespace + "/" + ref.Name, Problem: p.ID, Handler: ref,
			Kind: kind, Payload: payload, Created: r.opts.Now(),
		}
		if n := r.deliver.waiting(ref) + sameHandler(b.Deliveries, ref); n >= r.deliver.most {
			one.State, one.Ended = history.Dead, one.Created
			one.LastError = fmt.Sprintf("%d messages wait for this handler already: it was not told", n)
		}
		b.Deliveries = append(b.Deliveries, one)
	}
	return nil
}

// sameHandler counts the deliveries of a batch that wait for the handler.
func sameHandler(list []history.Delivery, ref history.HandlerRef) (n int) {
	for i := range list {
		if list[i].Handler == ref && list[i].State != history.Dead {
			n++
		}
	}
	return n
}
