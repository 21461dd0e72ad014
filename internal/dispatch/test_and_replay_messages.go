package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/store/history"
)

// HandlerTest has the handler's answer to a test message, and the time until the answer.
type HandlerTest struct {
	handler.Receipt
	Duration time.Duration
	Final    bool  // another attempt would fail in the same way
	Err      error // nil: the handler accepted the message
}

// SendTestMessage sends a test message to a handler immediately, without the outbox. Variables in the spec are replaced by
// properties of a node; if node is zero, by their defaults.
func (r *Dispatcher) SendTestMessage(ctx context.Context, ref history.HandlerRef, spec *model.HandlerSpec, by string, node model.NodeID) (HandlerTest, error) {
	now := r.opts.Now().UTC()
	note := &handler.Notification{
		Kind: handler.Test, Problem: "test-" + uuid.NewString(), Node: "no-node", Check: "test", Source: handler.Source{Name: "test"}, Space: ref.Namespace,
		Status: model.OK.String(), Worst: model.OK.String(), Severity: model.Information.String(),
		Output: fmt.Sprintf("Test by %s of handler %s in namespace %s: this is not a real problem", by, ref.Name, ref.Namespace),
		Opened: now, Executed: now, By: by,
	}
	values := model.PropertyValues(func(string) ([]byte, string, bool) { return nil, "", false })
	if node != 0 {
		if _, name, ok := r.opts.Names.NodeName(node); ok {
			note.Node, note.Labels = name, r.opts.Names.NodeLabels(node)
		}
		values = r.opts.Names.NodeProperties(node)
	}
	payload, err := note.Encode()
	if err != nil {
		return HandlerTest{}, err
	}
	spec.QualifyReferences(ref.Namespace)
	spec, err = expandVariables(spec, values)
	if err != nil {
		return HandlerTest{}, model.Errorf(model.Invalid, "%w", err).WithHint("the handler's variables need a node's properties: muster handler test %s --node NODE", ref.Name)
	}
	began := time.Now()
	t := HandlerTest{}
	t.Receipt, t.Err = r.deliver.out.Send(ctx, spec, &handler.Message{Key: note.Problem, Payload: payload, Note: note})
	t.Duration, t.Final = time.Since(began), handler.IsFinal(t.Err)
	return t, nil
}

// ReplayDeadLetters sends the dead letters (given-up messages) of a handler again, oldest first. A dead letter is a message that
// was given up. Dead letters of closed problems stay, because they would call people for nothing. With q.Ended they
// are sent too, followed by their closings.
func (r *Dispatcher) ReplayDeadLetters(ctx context.Context, ref history.HandlerRef, q history.ReplayQuery) (history.ReplayCounts, error) {
	if room := r.deliver.outbox.limit - r.deliver.outbox.undelivered(ref); q.Limit > room/2 {
		if q.Limit = room / 2; q.Limit < 1 {
			return history.ReplayCounts{}, model.Errorf(model.Limited, "the queue of handler %s is full; replay again when its waiting messages are sent", ref.Name).WithHint("see the reason: muster status; replay after the handler accepts messages again")
		}
	}
	done, err := r.opts.Store.Revive(ctx, ref, r.opts.Now(), q)
	if err != nil {
		return history.ReplayCounts{}, err
	}
	r.deliver.outbox.countReplayed(ref, done.Revived)
	pause.Wake(r.deliver.wake)
	return done, nil
}

// refreshPageSize is the number of open problems in one request to an Alertmanager.
const refreshPageSize = 500

// refreshAlertmanagers posts the open problems to Alertmanagers periodically, because an Alertmanager drops alerts
// that are not repeated.
func (d *deliverer) refreshAlertmanagers(ctx context.Context) {
	for pause.For(ctx, handler.AlertEvery) == nil {
		refs, err := d.opts.Store.HandlersOfOpenProblems(ctx)
		if err != nil && ctx.Err() == nil {
			d.opts.Logger.Warn("cannot read the open problems for Alertmanagers; the server retries in a minute", "err", err)
		}
		for _, ref := range refs {
			if err := d.refreshHandler(ctx, ref); err != nil && ctx.Err() == nil {
				d.opts.Logger.Warn("cannot send open problems to an Alertmanager again; the server retries in a minute", "handler", ref.Name, "namespace", ref.Namespace, "err", err)
			}
		}
	}
}

// refreshHandler posts all open problems to one Alertmanager handler again, page by page.
func (d *deliverer) refreshHandler(ctx context.Context, ref history.HandlerRef) error {
	spec, ok := d.opts.Names.Handler(ref.Namespace, ref.Name)
	if !ok || spec.Alertmanager == nil {
		return nil
	}
	for after := int64(0); ; {
		last, more, err := d.refreshPage(ctx, ref, spec, after)
		if err != nil || !more {
			return err
		}
		after = last
	}
}

// refreshPage posts one page of the open problems to an Alertmanager again. Meanwhile no closing is sent to the
// same handler: the page could begin an alert again that the closing has ended.
func (d *deliverer) refreshPage(ctx context.Context, ref history.HandlerRef, spec *model.HandlerSpec, after int64) (last int64, more bool, err error) {
	gate := d.alertmanagerLocks.lockOf(ref)
	gate.Lock()
	defer gate.Unlock()
	list, err := d.opts.Store.OpenDeliveries(ctx, ref, after, refreshPageSize)
	if err != nil || len(list) == 0 {
		return 0, false, err
	}
	var notes []*handler.Notification
	for _, one := range list {
		last = one.ID
		note, err := handler.Decode(one.Payload)
		if err != nil {
			return 0, false, err
		}
		notes = append(notes, note)
	}
	return last, len(list) == refreshPageSize, d.out.ResendProblems(ctx, spec, notes)
}

// alertmanagerLocks has one lock per Alertmanager handler, so that messages and repeated posts of problems do
// not overlap. Sending a message locks it for reading, and a refresh of all problems for writing.
type alertmanagerLocks struct{ locks sync.Map } // a *sync.RWMutex by history.HandlerRef

// lockOf returns the lock of one Alertmanager handler.
func (g *alertmanagerLocks) lockOf(ref history.HandlerRef) *sync.RWMutex {
	lock, _ := g.locks.LoadOrStore(ref, new(sync.RWMutex))
	return lock.(*sync.RWMutex)
}
