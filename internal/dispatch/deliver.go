package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/handler/body"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/store/attempt"
	"github.com/muster-fleet/muster/internal/store/history"
)

// Retry has the limits for repeated attempts to send a message, such as the longest pause.
type Retry struct {
	First  time.Duration // pause before the second attempt, doubled for each further one; default 1 s
	Most   time.Duration // longest pause between two attempts; default 10 min
	GiveUp time.Duration // time from the composition of a message until it becomes a dead letter; default 24 h
	// PerHandler is the most messages that one handler gets at the same time; default 4.
	PerHandler int
}

// withDefaults returns the retry limits with defaults in place of zero values.
func (r Retry) withDefaults() Retry {
	return Retry{cmp.Or(max(r.First, 0), time.Second), cmp.Or(max(r.Most, 0), 10*time.Minute),
		cmp.Or(max(r.GiveUp, 0), 24*time.Hour), cmp.Or(max(r.PerHandler, 0), 4)}
}

// deliverer sends the messages in the outbox (a database table) to handlers, each message at least once. The
// rows of the outbox in SQL decide; the copy in memory only saves queries.
type deliverer struct {
	opts              *Options
	metrics           *metrics
	wake              chan struct{} // capacity 1
	wg                sync.WaitGroup
	outbox            *outbox
	alertmanagerLocks alertmanagerLocks
	outcomes          attemptWriter
	out               *handler.Sender
	suspects          crashGuard
	failing           failingHandlers
}

// newDeliverer returns the deliverer that sends the messages in a dispatcher's outbox.
func newDeliverer(o *Options, m *metrics) *deliverer {
	sending := o.Delivery.Options
	sending.Now, sending.Logger = o.Now, o.Logger
	d := &deliverer{
		opts: o, metrics: m, wake: make(chan struct{}, 1), outcomes: attemptWriter{store: o.Store}, out: handler.New(sending), suspects: crashGuard{log: o.Delivery.Attempts},
	}
	d.outbox = newOutbox(o.Queues, d.messageSlots)
	return d
}

// countEnqueued adds new messages to the count of waiting messages, and wakes the sending goroutine.
func (d *deliverer) countEnqueued(list []history.Delivery) {
	d.outbox.add(list)
	pause.Wake(d.wake)
}

// perSocket is the most messages at the same time to a handler that sends no answers (stream or UDP).
const perSocket = 32

// messageSlots returns how many messages may be sent to a handler at the same time.
func (d *deliverer) messageSlots(ref history.HandlerRef) int {
	if spec, ok := d.opts.Names.Handler(ref.Namespace, ref.Name); ok && (spec.Stream != nil || spec.UDP != nil) {
		return max(perSocket, d.opts.Delivery.Retry.PerHandler)
	}
	return d.opts.Delivery.Retry.PerHandler
}

// run sends due messages until ctx ends.
func (d *deliverer) run(ctx context.Context) {
	defer d.out.Close()
	under := d.newShutdown(ctx)
	defer under.end()
	defer d.wg.Wait()
	d.wg.Go(func() { d.refreshAlertmanagers(ctx) })
	for ctx.Err() == nil {
		select {
		case <-d.wake:
		case <-time.After(d.startDueMessages(ctx, under)):
		case <-ctx.Done():
		}
	}
}

// startDueMessages starts sending all due messages, and returns how long to wait until the next call. Its query
// leaves out handlers without a free slot: however many messages wait for a handler that hangs, the query finds
// messages for other handlers.
func (d *deliverer) startDueMessages(ctx context.Context, under shutdown) time.Duration {
	d.retryAssetWaits(ctx)
	for {
		now := d.opts.Now()
		full, n := d.outbox.beginQuery()
		due, next, err := d.opts.Store.Due(ctx, now, n, full)
		if err != nil {
			if ctx.Err() == nil {
				d.opts.Logger.Warn("cannot read the outbox; the server retries", "err", err)
			}
			return 2 * time.Second
		}
		started := 0
		for i := range due {
			one := &due[i]
			arrivals, ok := d.outbox.reserve(one)
			if !ok {
				continue
			}
			started++
			d.wg.Go(func() {
				d.outbox.release(one, d.deliver(under, one), arrivals)
				pause.Wake(d.wake)
			})
		}
		if len(due) == n && started > 0 {
			continue
		}
		if next.IsZero() {
			return time.Minute
		}
		return min(time.Minute, max(next.Sub(now), time.Millisecond))
	}
}

// deliver makes one attempt to send a message, and records the result.
func (d *deliverer) deliver(under shutdown, one *history.Delivery) attemptOutcome {
	began := d.opts.Now()
	var receipt handler.Receipt
	end, err := d.suspects.start("delivery " + one.Key)
	if err != nil {
		err = handler.FinalError(err)
	} else {
		receipt, err = d.attemptDelivery(under.sending, one)
	}
	end()
	if err != nil && under.sending.Err() != nil {
		return unsettled // the stop of the server aborted it: sent again after the start, with the same key
	}
	now := d.opts.Now()
	d.metrics.deliverSeconds.Observe(now.Sub(began).Seconds())
	a, outcome := d.outcomeOf(one, receipt, err, now)
	d.failing.log(d.opts.Logger, one, &a)
	d.metrics.attempts.WithLabelValues(outcome).Inc()
	for attempt := 0; ; attempt++ {
		failed := d.outcomes.record(under.recording, one.ID, a)
		switch {
		case failed == nil && a.State != history.Pending:
			return settled
		case failed == nil && handler.FailureOf(err).Asset:
			return missingAsset
		case failed == nil || under.recording.Err() != nil:
			return unsettled
		}
		d.opts.Logger.Warn("cannot record the outcome of a delivery; the server retries", "err", failed)
		if pause.For(under.recording, backoff(attempt, d.opts.retryFirst, 10*time.Second)) != nil {
			return unsettled
		}
	}
}

// crashGuard refuses work, such as a delivery, that was in progress during several server crashes. Such work,
// for example a delivery, may be the cause of the crashes.
type crashGuard struct {
	log *attempt.CrashLog
	mu  sync.Mutex // held during work that may cause the next, last crash: only the culprit has it on its account
}

// start records the beginning of a piece of work, so that a crash in the meantime is counted. An error means
// that the work was in progress at too many crashes.
func (s *crashGuard) start(key string) (end func(), err error) {
	switch crashes := s.log.Crashes(key); {
	case crashes >= attempt.MaxCrashes:
		return func() { s.log.Forget(key) }, fmt.Errorf("gave up: the server crashed %d times in a row during this delivery; check the handler, its filters and its mutator", crashes)
	case crashes == attempt.MaxCrashes-1:
		s.mu.Lock()
		end := s.log.Start(key)
		return func() { end(); s.mu.Unlock() }, nil
	}
	return s.log.Start(key), nil
}

// maxAnswer is the most bytes of an answer that history keeps.
const maxAnswer = 200

// outcomeOf converts a handler's answer or error to the entry about the attempt in history. It also returns a
// label for metrics.
func (d *deliverer) outcomeOf(one *history.Delivery, receipt handler.Receipt, err error, now time.Time) (a history.Attempt, label string) {
	a = history.Attempt{At: now, State: history.Delivered}
	if err == nil {
		a.Answer = body.Cut(body.JoinLines(strings.TrimSpace(receipt.Answer)), maxAnswer)
		if receipt.Refused != nil {
			a.Error = receipt.Refused.Error()
		}
		return a, "delivered"
	}
	a.Error = err.Error()
	wait := backoff(one.Attempts, d.opts.Delivery.Retry.First, d.opts.Delivery.Retry.Most)
	wait = max(wait, min(handler.FailureOf(err).After, d.opts.Delivery.Retry.Most))
	a.State, a.NextAt = history.Pending, now.Add(wait)
	if handler.IsFinal(err) || a.NextAt.Sub(one.AttemptsStart()) > d.opts.Delivery.Retry.GiveUp {
		a.State, a.NextAt = history.Dead, time.Time{}
		d.opts.Logger.Error("gave up a delivery", "handler", one.Handler.Name, "problem", one.Problem, "attempts", one.Attempts+1, "err", err)
		return a, "dead"
	}
	return a, "retried"
}

// attemptDelivery makes one attempt to send a message.
func (d *deliverer) attemptDelivery(ctx context.Context, one *history.Delivery) (handler.Receipt, error) {
	if len(one.Payload) == 0 {
		return handler.Receipt{}, handler.FinalError(errors.New("history was full, so the server removed the text of this waiting message: raise --history-budget"))
	}
	note, err := handler.Decode(one.Payload)
	if err != nil {
		return handler.Receipt{}, handler.FinalError(err)
	}
	if one.Handler == watchdog {
		if d.opts.Delivery.Beat != nil {
			d.opts.Delivery.Beat(note.Output)
		}
		return handler.Receipt{}, nil
	}
	spec, ok := d.opts.Names.Handler(one.Handler.Namespace, one.Handler.Name)
	if !ok {
		return handler.Receipt{}, fmt.Errorf("handler %s/%s does not exist; create it with muster apply -f, then the server sends this message", one.Handler.Namespace, one.Handler.Name)
	}
	payload, hidden, err := d.mutatedBody(ctx, note, one.Payload)
	if err != nil {
		return handler.Receipt{}, err
	}
	spec, err = expandVariables(spec, func(name string) ([]byte, string, bool) { return d.property(ctx, one, name) })
	if err != nil {
		return handler.Receipt{}, err
	}
	if spec.Alertmanager != nil {
		gate := d.alertmanagerLocks.lockOf(one.Handler)
		gate.RLock()
		defer gate.RUnlock()
	}
	return d.out.Send(ctx, spec, &handler.Message{Key: one.Key, Payload: payload, Note: note, Secrets: hidden, Opened: func(ctx context.Context) (*handler.Notification, error) {
		return d.openingOf(ctx, one)
	}})
}

// property returns a property value of the problem's node, to fill a variable in the handler's settings. It is
// called only for handlers with variables.
func (d *deliverer) property(ctx context.Context, one *history.Delivery, name string) (value []byte, reason string, ok bool) {
	if one.Kind == handler.Deregistered {
		return nil, "", false // the node was deleted, and its properties with it
	}
	if node, ok := nodeOfEventKey(one.Problem); ok {
		return d.opts.Names.NodeProperties(node)(name)
	}
	problem, err := d.opts.Store.Problem(ctx, one.Problem)
	if err != nil {
		return nil, err.Error(), true
	}
	return d.opts.Names.NodeProperties(problem.NodeID)(name)
}

// expandVariables replaces variables in the spec of a handler by properties of the problem's node. An unset property may
// be set later, so its error is not final.
func expandVariables(spec *model.HandlerSpec, values model.PropertyValues) (*model.HandlerSpec, error) {
	out, err := spec.Expand(values)
	if errors.As(err, new(*model.TemplateError)) {
		return nil, handler.FinalError(fmt.Errorf("replace variables in the settings of the handler: %w", err))
	} else if err != nil {
		return nil, fmt.Errorf("replace variables in the settings of the handler: %w", err)
	}
	return out, nil
}

// openingOf returns the earlier notification to the same handler about the problem's opening, or nil.
func (d *deliverer) openingOf(ctx context.Context, one *history.Delivery) (*handler.Notification, error) {
	list, err := d.opts.Store.Deliveries(ctx, one.Problem)
	if err != nil {
		return nil, err
	}
	for _, other := range list {
		if other.Handler == one.Handler && (other.Kind == handler.Opened || other.Kind == handler.Summary) && len(other.Payload) > 2 {
			return handler.Decode(other.Payload)
		}
	}
	return nil, nil
}

const (
	cleanEvery = time.Minute
	cleanStep  = 1000 // rows of a kind in one transaction: other batches are recorded between two steps
)

// removeOldHistory deletes history rows older than the retention, in small steps. It also makes messages due whose next
// attempt is too far in the future because the clock was set back.
func (d *deliverer) removeOldHistory(ctx context.Context) {
	for {
		removed := 0
		for {
			n, err := d.opts.Store.Clean(ctx, d.opts.Now().Add(-d.opts.Retention), cleanStep)
			if err != nil && ctx.Err() == nil {
				d.opts.Logger.Warn("cannot delete old history; the server retries in a minute", "err", err)
			}
			if removed += n; n == 0 || err != nil {
				break
			}
		}
		now := d.opts.Now()
		if err := d.opts.Store.ClampDue(ctx, now, now.Add(2*d.opts.Delivery.Retry.Most)); err != nil && ctx.Err() == nil {
			d.opts.Logger.Warn("cannot check the due times of the outbox; the server retries in a minute", "err", err)
		}
		if removed > 0 {
			d.opts.Logger.Info("deleted old history", "rows", removed)
		}
		if pause.For(ctx, cleanEvery) != nil {
			return
		}
	}
}

// shutdown has the contexts that limit how long running deliveries may continue after the server's stop. Without that
// time a command would be killed, and a message that was sent but not recorded would be sent again after the next
// start.
type shutdown struct {
	sending   context.Context // ends a fixed time after the server begins to stop
	recording context.Context // ends a fixed time after sending
	end       func()
}

// newShutdown returns the contexts that let running deliveries finish when the server stops. Both end a fixed time
// after ctx, so that running deliveries can finish.
func (d *deliverer) newShutdown(ctx context.Context) shutdown {
	sending, cut := context.WithCancel(context.WithoutCancel(ctx))
	recording, give := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		_ = pause.For(recording, d.opts.shutdownWait)
		cut()
		_ = pause.For(recording, d.opts.shutdownWait)
		give()
	})
	return shutdown{sending, recording, func() { stop(); cut(); give() }}
}

// mutatedBody returns the bytes of a message, either the stored notification or the output of a Sensu mutator.
// It is the recorded notification or, for an event of a pipeline, the output of the mutator. The mutator runs
// in each attempt of its delivery, so that a slow or failing mutator delays only that delivery. hidden lists
// the secrets that logs must not show.
func (d *deliverer) mutatedBody(ctx context.Context, note *handler.Notification, payload []byte) (body []byte, hidden []string, err error) {
	switch {
	case note.Event == nil:
		return payload, nil, nil
	case note.Mutator == "" || note.Mutator == model.MutatorJSON:
		return note.Event, nil, nil
	case note.Mutator == model.MutatorOnlyOutput:
		return []byte(note.Output), nil, nil
	case d.opts.Pipelines.Table == nil:
		return nil, nil, fmt.Errorf("mutator %s: pipelines are turned off on this server", note.Mutator)
	}
	body, command, err := d.opts.Pipelines.Table.Mutate(ctx, note.Mutator, func() (event map[string]any, err error) {
		return event, json.Unmarshal(note.Event, &event)
	}, d.opts.Now())
	if err == nil && command != nil {
		body, hidden, err = d.out.Mutate(ctx, command, note.Event)
	}
	if err != nil {
		failed := fmt.Errorf("mutator %s: %w", note.Mutator, err)
		if class := model.ClassOf(err); command == nil && ctx.Err() == nil && !errors.Is(err, filter.ErrSlow) {
			if class != model.NotFound && class != model.Unavailable {
				return nil, nil, handler.FinalError(failed) // JavaScript fails again with the same error, unless it was too slow
			}
			return nil, nil, &handler.Failure{Err: failed, Asset: true}
		}
		return nil, nil, failed
	}
	return body, hidden, nil
}
