package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

// recordedBatch has the history rows and problem changes that result from a batch of event changes. Handlers
// may have to be notified of these changes.
type recordedBatch struct {
	history.Batch
	changes []problemChange
}

// problemChange is a change of one problem, such as its opening, for which the router may notify handlers. For each
// change the router decides which handlers to notify.
type problemChange struct {
	*event.Transition
	problem history.Problem
	late    bool // the opening was lost, and found missing at the server's start
	// unnotified is the reason why no handler was notified of the opening; withheld deliveries record it. An opening
	// with such a reason is not routed. Empty: handlers are notified.
	unnotified string
}

// nodesSilentSince returns the times at which nodes stopped sending keepalives, according to the batch, oldest
// first.
func (b *recordedBatch) nodesSilentSince() (at []time.Time) {
	for i := range b.Opened {
		if b.Opened[i].Source == model.CheckSource(model.KeepaliveCheck) {
			at = append(at, b.Opened[i].Opened)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	return at
}

// composeBatch converts event changes to rows of the history database and to changes of problems. It only
// computes, and writes nothing. It skips transitions that are already recorded.
func (r *Dispatcher) composeBatch(ctx context.Context, ts []event.Transition) (recordedBatch, error) {
	b := recordedBatch{Batch: history.Batch{Places: map[model.Partition]history.ChangePosition{}}}
	for i := range ts {
		t := &ts[i]
		if place, ok := b.Places[t.Partition]; ok && place.Includes(t.At, t.Index) {
			continue
		} else if !ok && r.places[t.Partition].Includes(t.At, t.Index) {
			r.metrics.repeated.Inc()
			continue
		}
		b.Places[t.Partition] = history.ChangePosition{At: t.At, Index: t.Index}
		switch t.Kind {
		case event.ProblemOpened:
			p := problemOf(r.opts.Names, t)
			b.Opened = append(b.Opened, p)
			b.changes = append(b.changes, problemChange{Transition: t, problem: p})
		case event.ProblemClosed:
			p, err := r.closedProblem(ctx, t)
			if err != nil {
				return b, err
			}
			change := problemChange{Transition: t, problem: p}
			if missing, err := r.isOpeningMissing(ctx, &b, t, &p); err != nil {
				return b, err
			} else if missing {
				change.unnotified = "history does not have the opening of the problem"
			}
			b.Closed = append(b.Closed, p)
			b.changes = append(b.changes, change)
		case event.Deregistered:
			if err := r.deregister(t, &b); err != nil {
				return b, err
			}
		case event.Beat:
			d, err := watchdogDelivery(t, r.now())
			if err != nil {
				return b, err
			}
			b.Deliveries = append(b.Deliveries, d)
		default:
			b.Entries = append(b.Entries, r.historyRow(t))
			switch t.Kind {
			case event.Acknowledged, event.Unacknowledged:
				b.changes = append(b.changes, problemChange{Transition: t, problem: problemOf(r.opts.Names, t)})
			case event.StatusChanged:
				b.changes = append(b.changes, problemChange{Transition: t})
			}
		}
	}
	return b, nil
}

// entryKinds has the kind of history entry for each kind of transition.
var entryKinds = [...]history.EntryKind{
	event.StatusChanged: history.StatusChanged, event.ResultsLost: history.ResultsLost, event.LateResult: history.LateResult,
	event.Acknowledged: history.Acknowledged, event.Unacknowledged: history.Unacknowledged,
	event.FlappingStarted: history.FlappingStarted, event.FlappingEnded: history.FlappingEnded, event.TextChanged: history.TextChanged,
}

// historyRow converts an event change to a row of the history database.
func (r *Dispatcher) historyRow(t *event.Transition) history.Entry {
	namespace, node, source := namesOf(r.opts.Names, t)
	e := history.Entry{
		At: time.Unix(0, t.Received), Executed: time.Unix(0, t.Executed), Kind: entryKinds[t.Kind],
		Namespace: namespace, Node: node, NodeID: t.Node, Source: t.Source, SourceName: source,
		Status: t.Status, Previous: t.Previous, First: t.First, Output: model.Truncate(t.Output, history.MaxChangeOutput), Count: t.Count, Expired: t.Expired,
		Partition: t.Partition, Place: history.ChangePosition{At: t.At, Index: t.Index},
	}
	if t.Since != 0 {
		e.Since = time.Unix(0, t.Since)
	}
	return e
}

// namesOf returns the namespace, node and check (or trigger) names for an event change. A deleted node, check
// or trigger gets a placeholder.
func namesOf(names Names, t *event.Transition) (namespace, node, source string) {
	namespace, node, ok := names.NodeName(t.Node)
	if !ok {
		node = fmt.Sprintf("node-%d", t.Node)
		namespace, _ = names.NamespaceName(t.Namespace)
	}
	if _, source, ok = names.SourceName(t.Source); !ok {
		if c := names.CheckDefinition(t.Definition, t.Source.Instance); c != nil {
			source = c.Name
		} else {
			source = t.Source.PlaceholderName()
		}
	}
	return namespace, node, source
}

// problemOf returns the problem of an event change, completed with the names of its node and check. It has the
// names of its node and its check or trigger.
func problemOf(names Names, t *event.Transition) history.Problem {
	namespace, node, source := namesOf(names, t)
	return history.Problem{Problem: *t.Problem, Namespace: namespace, Node: node, SourceName: source}
}

// closedProblem returns the problem that has just closed, with the node and check names from its opening. A deleted
// node or check, which may be the cause of the closing, keeps the name that it had at the opening.
func (r *Dispatcher) closedProblem(ctx context.Context, t *event.Transition) (history.Problem, error) {
	p := problemOf(r.opts.Names, t)
	_, _, nodeKnown := r.opts.Names.NodeName(t.Node)
	_, _, sourceKnown := r.opts.Names.SourceName(t.Source)
	if nodeKnown && sourceKnown {
		return p, nil
	}
	opened, err := r.opts.Store.Problem(ctx, p.ID)
	switch {
	case model.ClassOf(err) == model.NotFound: // the problem opened in this same batch, or history has removed it
		return p, nil
	case err != nil:
		return p, err
	}
	p.Namespace, p.Node, p.SourceName = opened.Namespace, opened.Node, opened.SourceName
	return p, nil
}

// deregister records the removal of an ephemeral node, with a message to each handler of the node. It takes the names
// from the transition, because the node is deleted. A replay makes the same keys, so each handler is notified once.
func (r *Dispatcher) deregister(t *event.Transition, b *recordedBatch) error {
	namespace, node, _ := strings.Cut(t.Deregistered.Deregistered, "/")
	keepalive := model.BuiltinCheckName(model.KeepaliveCheck)
	at := time.Unix(0, t.Received)
	b.Entries = append(b.Entries, history.Entry{
		At: at, Executed: at, Kind: history.NodeDeregistered, Namespace: namespace, Node: node, NodeID: t.Node, Source: t.Source, SourceName: keepalive, Output: t.Output,
		Partition: t.Partition, Place: history.ChangePosition{At: t.At, Index: t.Index},
	})
	id := fmt.Sprintf("left-%d", t.Node) // the id of a node is never used again
	note := &handler.Notification{
		Kind: handler.Deregistered, Problem: id, Node: node, Space: namespace, Status: model.OK.String(), Worst: model.OK.String(),
		Severity: model.Information.String(), Output: t.Output, Opened: at.UTC(), Executed: at.UTC(),
	}
	note.SetSource(t.Source, keepalive)
	payload, err := note.Encode()
	if err != nil {
		return err
	}
	now := r.now()
	for _, ref := range strings.Split(t.Deregistered.Handlers, ",") {
		ns, name, _ := strings.Cut(ref, "/")
		if table := r.opts.Pipelines.Table; table != nil && table.HasPipeline(route.Name{Namespace: ns, Name: model.SensuPipeline(name)}) {
			continue // gets Sensu's event: see eventPipeline.evaluate
		}
		d := history.Delivery{Key: id + "/" + ref, Problem: id, NodeID: t.Node, Namespace: namespace, Node: node, Handler: history.HandlerRef{Namespace: ns, Name: name}, Kind: handler.Deregistered, Payload: payload, Created: now}
		if r.opts.Routing.Shadow != nil && r.opts.Routing.Shadow(namespace) {
			d.State, d.Ended = history.Shadow, now
		} else if r.router.mayHaveBeenSent(at) {
			d.State, d.Ended, d.LastError = history.Withheld, now, history.ReasonUnknown
		}
		b.Deliveries = append(b.Deliveries, d)
	}
	return nil
}

// watchdog is the receiver of beats, and not a declared handler. See DeliveryOptions.Beat.
var watchdog = history.HandlerRef{Name: "watchdog"}

// watchdogDelivery returns a periodic message to an external watchdog, as proof of working notifications. The
// message proves that notifications work. It goes through the outbox like every message, and is sent to
// DeliveryOptions.Beat.
func watchdogDelivery(t *event.Transition, now time.Time) (history.Delivery, error) {
	note := handler.Notification{Kind: handler.Beat, Node: model.ServerNodeName,
		Status: t.Status.String(), Output: t.Output, Executed: time.Unix(0, t.Executed)}
	note.SetSource(t.Source, model.BuiltinCheckName(model.WatchdogCheck))
	payload, err := note.Encode()
	return history.Delivery{
		Key: fmt.Sprintf("beat/%d/%d", t.At.Number, t.Index), Problem: watchdog.Name, Handler: watchdog,
		Kind: handler.Beat, Payload: payload, Created: now,
	}, err
}

// isOpeningMissing reports whether history lacks the opening of a problem that closes now and has handlers to
// notify. Those handlers get a withheld delivery with the reason.
func (r *Dispatcher) isOpeningMissing(ctx context.Context, b *recordedBatch, t *event.Transition, p *history.Problem) (bool, error) {
	if len(r.router.of[p.ID]) > 0 || slices.ContainsFunc(b.Opened, func(o history.Problem) bool { return o.ID == p.ID }) {
		return false, nil
	}
	if _, routes := r.router.chooseRoutes(t, p); len(routes) == 0 {
		return false, nil
	}
	_, err := r.opts.Store.Problem(ctx, p.ID)
	if model.ClassOf(err) == model.NotFound {
		return true, nil
	}
	return false, err // history knows the problem: it had no handlers when it opened
}

// recordUnnotified records, for each handler of a closed problem, why the handler was not told of its opening.
// Each handler gets a delivery with the state withheld, which means not sent.
func (o *deliveryBatch) recordUnnotified(t *problemChange) {
	_, routes := o.chooseRoutes(t.Transition, &t.problem)
	for _, to := range routes {
		e := escalationOf(t.problem.ID, to)
		e.NodeID = t.problem.NodeID
		o.recordWithheld(e, t.unnotified)
	}
}
