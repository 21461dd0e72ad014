package react

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/store/history"
)

// Retry sets how often and how long a delivery is tried.
type Retry struct {
	First  time.Duration // before the second attempt; doubles; default 1 s
	Most   time.Duration // between two attempts; default 10 min
	GiveUp time.Duration // after the message was made; default 24 h: a dead letter then
	// PerHandler is how many messages one handler gets at the same time; default 4.
	PerHandler int
}

func (r Retry) withDefaults() Retry {
	if r.First <= 0 {
		r.First = time.Second
	}
	if r.Most <= 0 {
		r.Most = 10 * time.Minute
	}
	if r.GiveUp <= 0 {
		r.GiveUp = 24 * time.Hour
	}
	if r.PerHandler <= 0 {
		r.PerHandler = 4
	}
	return r
}

// deliverer works off the outbox. The rows are the truth: what is under way is
// remembered only so as not to start it twice; after a crash it is tried again with
// the same key.
type deliverer struct {
	opts    Options
	metrics *metrics
	wake    chan struct{}

	mu       sync.Mutex
	underway map[int64]bool
	// finished stay under way until the next look at the outbox begins: a look that was
	// on its way when the outcome was recorded still shows them as waiting.
	finished []int64
	busy     map[history.HandlerRef]int
	pending  map[history.HandlerRef]int // rows of the outbox that are not delivered
	limit    int                        // of them, per handler
	passed   uint64
	overflow uint64
	wg       sync.WaitGroup
	gates    map[history.HandlerRef]*sync.RWMutex // see standing.go

	assetWaits assetWaits
	outcomes   outcomes
	out        *handler.Out
}

func newDeliverer(o Options, m *metrics) *deliverer {
	most, policy := o.Queues.Bounds("deliveries")
	d := &deliverer{
		opts: o, metrics: m, wake: make(chan struct{}, 1), limit: int(most),
		out:      handler.New(handler.Options{Guard: o.Guard, ProblemLink: o.ProblemLink, Secret: o.Secret, Assets: o.Assets, Now: o.Now, Logger: o.Logger}),
		outcomes: outcomes{store: o.Store},
		gates:    map[history.HandlerRef]*sync.RWMutex{},
		underway: map[int64]bool{}, busy: map[history.HandlerRef]int{}, pending: map[history.HandlerRef]int{},
	}
	o.Queues.Register("deliveries", func() queue.Info {
		d.mu.Lock()
		defer d.mu.Unlock()
		info := queue.Info{Name: "deliveries", Capacity: most, Unit: "items", Policy: policy, Passed: d.passed, Overflow: d.overflow}
		for _, n := range d.pending {
			info.Depth = max(info.Depth, int64(n))
		}
		return info
	})
	return d
}

// load reads what waits since before the start.
func (d *deliverer) load(ctx context.Context) error {
	pending, err := d.opts.Store.Pending(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = pending
	return nil
}

// waiting returns the number of undelivered messages of a handler.
func (d *deliverer) waiting(ref history.HandlerRef) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pending[ref]
}

// enqueued counts deliveries that were written to the outbox.
func (d *deliverer) enqueued(list []history.Delivery) {
	d.mu.Lock()
	for i := range list {
		switch list[i].State {
		case "", history.Pending:
		case history.Dead:
			d.overflow++
			continue
		default:
			continue
		}
		d.passed++
		d.pending[list[i].Handler]++
	}
	d.mu.Unlock()
	d.signal()
}

// revived counts dead letters that are pending again.
func (d *deliverer) revived(ref history.HandlerRef, n int) {
	d.mu.Lock()
	if n > 0 {
		d.pending[ref] += n
		d.passed += uint64(n)
	}
	d.mu.Unlock()
	d.signal()
}

// settled counts a delivery that is delivered or dead.
func (d *deliverer) settled(ref history.HandlerRef) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending[ref]--; d.pending[ref] <= 0 {
		delete(d.pending, ref)
	}
}

func (d *deliverer) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// dueAtOnce bounds one look at the outbox: several times what one handler has under way.
// It is no shorter than dueLeast.
const (
	dueAtOnce = 4 * perSocket
	dueLeast  = 8
)

// perSocket bounds concurrent messages to a handler that gives no answer: a line in a stream is written at
// once.
const perSocket = 32

// handlerLimit returns how many messages a handler gets at the same time.
func (d *deliverer) handlerLimit(ref history.HandlerRef) int {
	if spec, ok := d.opts.Names.Handler(ref.Namespace, ref.Name); ok && (spec.Stream != nil || spec.UDP != nil) {
		return max(perSocket, d.opts.Retry.PerHandler)
	}
	return d.opts.Retry.PerHandler
}

func (d *deliverer) run(ctx context.Context) error {
	defer d.out.Close()
	under := d.newShutdown(ctx)
	defer under.end()
	defer d.wg.Wait()
	d.wg.Go(func() { d.refreshAlertmanagers(ctx) })
	for {
		wait := d.startDue(ctx, under)
		timer := time.NewTimer(wait)
		select {
		case <-d.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// startDue starts what is due and returns how long to wait for more. Handlers that
// have all they may are left out of the next look: however many messages wait for a
// handler that hangs, those for others are found.
func (d *deliverer) startDue(ctx context.Context, under shutdown) time.Duration {
	d.retryAssetWaits(ctx)
	for {
		now := d.opts.Now()
		full, n := d.capacity()
		due, next, err := d.opts.Store.Due(ctx, now, n, full)
		if err != nil {
			if ctx.Err() == nil {
				d.opts.Logger.Warn("outbox cannot be read; trying again", "err", err)
			}
			return 2 * time.Second
		}
		started := 0
		for i := range due {
			if d.start(under, due[i]) {
				started++
			}
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

// capacity begins a look at the outbox: it lists the handlers that have as many messages
// under way as they may, and says how many rows can be of use: what the others may have, of which
// those under way are still in the outbox. Each message that is over looks again, so
// a look must not cost more the more wait.
func (d *deliverer) capacity() (full []history.HandlerRef, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range d.finished {
		delete(d.underway, id)
	}
	d.finished = d.finished[:0]
	for handler, n := range d.busy {
		if n >= d.handlerLimit(handler) {
			full = append(full, handler)
		}
	}
	for handler := range d.pending {
		if most := d.handlerLimit(handler); d.busy[handler] < most {
			n += most
		}
	}
	return full, min(max(n, dueLeast), dueAtOnce)
}

const (
	cleanEvery = time.Minute
	cleanStep  = 1000 // rows of a kind in one transaction: batches pass in between
)

// clean removes what is older than the retention, in small steps, and sees to it that
// no message waits for a time that the clock was set back from.
func (d *deliverer) clean(ctx context.Context) error {
	for {
		removed := 0
		for {
			n, err := d.opts.Store.Clean(ctx, d.opts.Now().Add(-d.opts.Retention), cleanStep)
			if err != nil && ctx.Err() == nil {
				d.opts.Logger.Warn("old history could not be removed; trying again in a minute", "err", err)
			}
			if removed += n; n == 0 || err != nil {
				break
			}
		}
		now := d.opts.Now()
		if err := d.opts.Store.ClampDue(ctx, now, now.Add(2*d.opts.Retry.Most)); err != nil && ctx.Err() == nil {
			d.opts.Logger.Warn("the outbox could not be looked through; trying again in a minute", "err", err)
		}
		if removed > 0 {
			d.opts.Logger.Info("old history removed", "rows", removed)
		}
		if err := sleep(ctx, cleanEvery); err != nil {
			return err
		}
	}
}

// start delivers one message in the background, unless it is under way or its
// handler has all it may.
func (d *deliverer) start(under shutdown, one history.Delivery) bool {
	most := d.handlerLimit(one.Handler)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.underway[one.ID] || d.busy[one.Handler] >= most {
		return false
	}
	d.underway[one.ID] = true
	d.busy[one.Handler]++
	d.wg.Go(func() {
		d.deliver(under, one)
		d.mu.Lock()
		d.finished = append(d.finished, one.ID)
		if d.busy[one.Handler]--; d.busy[one.Handler] == 0 {
			delete(d.busy, one.Handler)
		}
		d.mu.Unlock()
		d.signal()
	})
	return true
}

func (d *deliverer) deliver(under shutdown, one history.Delivery) {
	began, since := d.opts.Now(), d.assetWaits.started(one.ID)
	refused, err := d.attempt(under.sending, one)
	if err != nil && under.sending.Err() != nil {
		return // cut off by a stop: tried again at the next start, with the same key
	}
	now := d.opts.Now()
	d.metrics.deliverSeconds.Observe(now.Sub(began).Seconds())
	a := history.Attempt{At: now, State: history.Delivered}
	outcome := "delivered"
	if refused != nil { // the others have it
		a.Error = refused.Error()
	}
	if err != nil {
		a.Error = err.Error()
		wait := backoff(one.Attempts, d.opts.Retry.First, d.opts.Retry.Most)
		if busy := (*handler.BusyError)(nil); errors.As(err, &busy) {
			wait = max(wait, min(busy.After, d.opts.Retry.Most))
		}
		a.NextAt = now.Add(wait)
		a.State, outcome = history.Pending, "retried"
		if isFinal(err) || a.NextAt.Sub(one.Since()) > d.opts.Retry.GiveUp {
			a.State, a.NextAt, outcome = history.Dead, time.Time{}, "dead"
			d.opts.Logger.Error("message given up", "handler", one.Handler.Name, "problem", one.Problem, "attempts", one.Attempts+1, "err", err)
		}
	}
	lacks := a.State == history.Pending && errors.As(err, new(*handler.MissingAsset))
	d.metrics.attempts.WithLabelValues(outcome).Inc()
	for attempt := 0; ; attempt++ {
		err := d.outcomes.record(under.recording, one.ID, a)
		if err == nil && a.State != history.Pending {
			d.settled(one.Handler)
		}
		if err == nil && lacks {
			d.assetWaits.add(one.ID, since)
		}
		if err == nil || under.recording.Err() != nil {
			return
		}
		d.opts.Logger.Warn("outcome of a delivery could not be recorded; trying again", "err", err)
		if sleep(under.recording, backoff(attempt, d.opts.retryFirst, 10*time.Second)) != nil {
			return
		}
	}
}

func (d *deliverer) attempt(ctx context.Context, one history.Delivery) (refused, err error) {
	if one.Handler == watchdog {
		note, err := handler.Decode(one.Payload)
		if err != nil {
			return nil, &handler.FinalError{Err: err}
		}
		if d.opts.Beat != nil {
			d.opts.Beat(note.Output)
		}
		return nil, nil
	}
	spec, ok := d.opts.Names.Handler(one.Handler.Namespace, one.Handler.Name)
	if !ok {
		return nil, fmt.Errorf("handler %s/%s does not exist (any more): apply it, and this message is sent", one.Handler.Namespace, one.Handler.Name)
	}
	note, err := handler.Decode(one.Payload)
	if err != nil {
		return nil, &handler.FinalError{Err: err}
	}
	body, hidden, err := d.mutated(ctx, note, one.Payload)
	if err != nil {
		return nil, err
	}
	spec, err = expand(spec, func(name string) ([]byte, string, bool) { // asked only where a variable stands
		if one.Kind == handler.Deregistered {
			return nil, "", false // its properties went with the node
		}
		if node, ok := nodeOf(one.Problem); ok {
			return d.opts.Names.NodeProperties(node)(name)
		}
		problem, err := d.opts.Store.Problem(ctx, one.Problem)
		if err != nil {
			return nil, err.Error(), true
		}
		return d.opts.Names.NodeProperties(problem.NodeID)(name)
	})
	if err != nil {
		return nil, err
	}
	if spec.Alertmanager != nil {
		gate := d.gate(one.Handler)
		gate.RLock()
		defer gate.RUnlock()
	}
	receipt, err := d.out.Send(ctx, spec, &handler.Message{Key: one.Key, Payload: body, Note: note, Hidden: hidden, Opened: func(ctx context.Context) (*handler.Notification, error) {
		return d.opened(ctx, one)
	}})
	return receipt.Refused, err
}

func isFinal(err error) bool { return errors.As(err, new(*handler.FinalError)) }

// expand replaces variables in a handler by the properties of the problem's node. An unset property may be
// set later, so that error is not final.
func expand(spec *model.HandlerSpec, values model.PropertyValues) (*model.HandlerSpec, error) {
	out, err := spec.Expand(values)
	if errors.As(err, new(*model.TemplateError)) {
		return nil, &handler.FinalError{Err: fmt.Errorf("handler: %w", err)}
	} else if err != nil {
		return nil, fmt.Errorf("handler: %w", err)
	}
	return out, nil
}

// opened returns the notification with which the same handler learnt of the problem; nil: it did not.
func (d *deliverer) opened(ctx context.Context, one history.Delivery) (*handler.Notification, error) {
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
