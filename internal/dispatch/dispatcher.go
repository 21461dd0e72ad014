package dispatch

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// Dispatcher writes event changes to the history database as entries and problems, and notifies handlers of
// problems. Fields marked "Run's" belong to the goroutine of Run: no other goroutine uses them after Run was
// called.
type Dispatcher struct {
	consumer // records history and problems
	opts     Options
	deliver  *deliverer
	pipeline *eventPipeline // nil: the server has no pipelines

	router         *router                                    // Run's
	places         map[model.Partition]history.ChangePosition // Run's: place in the journal up to which transitions are recorded
	pendingEnds    []SilenceEnd                               // Run's: silences whose deletion failed, to be deleted at endRetry
	endRetry       time.Time                                  // Run's
	lastClock      time.Time                                  // Run's: time of the last clockStep
	reconciliation *reconciliation                            // Run's; nil: history lacks no problem
	changes        routingChanges
	receivers      uint64 // Run's: state of the routing by which open problems were routed last; zero: not since the start
}

// New returns a dispatcher that starts its work in Run. Call LoadPositions before the event view is restored; the view then
// calls Emit.
func New(o Options) *Dispatcher {
	o = o.withDefaults()
	r := &Dispatcher{opts: o, places: map[model.Partition]history.ChangePosition{}, router: newRouter(o), changes: routingChanges{requests: make(chan *rerouteRequest, 1)}}
	m := newMetrics(o.Registerer, r.Lag, func() history.Usage { return o.Store.CurrentUsage() })
	r.deliver = newDeliverer(&r.opts, m)
	r.consumer = consumer{opts: &r.opts, metrics: m, backlog: newTransitionQueue("reactions", o.Batches.Capacity, o.Queues), batch: o.Batches.Size,
		recorder: r, name: "history", replays: &replayLimiter{admitted: make(chan struct{}, 1)}}
	if o.Pipelines.Table != nil {
		r.pipeline = newEventPipeline(r)
	}
	return r
}

// Load reads the recorded journal positions and the unsent messages from the database at the server's start.
func (r *Dispatcher) Load(ctx context.Context, shared func(journal.Position) journal.Position) error {
	return errors.Join(r.LoadPositions(ctx, shared), r.LoadOutbox(ctx, time.Time{}))
}

// LoadOutbox reads the unsent messages, and the open problems' progress on their routes, from the database. Call it
// before Compare. unknownUntil is the time up to which history does not know the messages to handlers
// (history.Store.RecordIncarnation): earlier messages are recorded and not sent.
func (r *Dispatcher) LoadOutbox(ctx context.Context, unknownUntil time.Time) error {
	r.router.unknownUntil = unknownUntil
	if err := r.deliver.outbox.load(ctx, r.opts.Store); err != nil {
		return err
	}
	return r.router.load(ctx)
}

// LoadPositions reads the journal position of the last recorded event change in each partition (share of the
// nodes). A replay of the journal then records no change twice. shared converts a position of a journal that
// was replaced into the last position that both journals have (see journal.Log.CommonPosition); nil: no journal
// was replaced.
func (r *Dispatcher) LoadPositions(ctx context.Context, shared func(journal.Position) journal.Position) error {
	places, err := r.opts.Store.Positions(ctx)
	if err != nil {
		return err
	}
	for p, place := range places {
		place = place.Translate(shared)
		r.places[p], r.backlog.before[p] = place, place
	}
	if r.pipeline != nil {
		return r.pipeline.load(ctx, shared)
	}
	return nil
}

// consumers returns the consumers of the queues, which record event changes and evaluate pipelines. One is for
// history, and a second for pipelines if the server has pipelines.
func (r *Dispatcher) consumers() []*consumer {
	if r.pipeline != nil {
		return []*consumer{&r.consumer, &r.pipeline.consumer}
	}
	return []*consumer{&r.consumer}
}

// Emit copies event changes (transitions) into the queues for the history database and for Sensu pipelines. The
// workers that keep event states call it. It blocks only if a queue's policy is block.
func (r *Dispatcher) Emit(ts []event.Transition) {
	for _, l := range r.consumers() {
		r.metrics.repeated.Add(float64(l.backlog.add(ts)))
	}
}

// ErrFarBehind reports that history is derived from the journal again, and that the replay is far from the awaited
// position.
var ErrFarBehind = errors.New("history lags far behind: the server reads its transitions from the journal again")

// WaitRecorded waits until the history database has all event changes up to a commit of the journal. Only then
// may the server keep a snapshot at that commit, and cut the journal below it. It returns ErrFarBehind if the
// replay gives a snapshot sooner.
func (r *Dispatcher) WaitRecorded(ctx context.Context, at journal.Position) error {
	for _, l := range r.consumers() {
		if err := l.awaitRecorded(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

// Consumers returns the journal positions after which the journal must keep entries for history or pipelines.
// The journal then deletes no commit whose transitions are not recorded.
func (r *Dispatcher) Consumers() (list []journal.Consumer) {
	for _, l := range r.consumers() {
		if oldest, _, waits, _ := l.backlog.oldestUnrecorded(); waits && oldest.Number > 0 {
			oldest.Number--
			list = append(list, journal.Consumer{Name: l.name, At: oldest})
		}
	}
	return list
}

// Run records event changes (transitions) and sends messages until ctx ends. Transitions that still wait then are
// derived from the journal again after the next start.
func (r *Dispatcher) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { r.deliver.run(ctx) })
	running.Go(func() { r.deliver.removeOldHistory(ctx) })
	if r.pipeline != nil {
		running.Go(func() { r.pipeline.run(ctx) })
	}
	defer r.start(ctx)()
	if err := r.run(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// run records batches of event changes, and sends due messages until ctx ends.
func (r *Dispatcher) run(ctx context.Context) error {
	r.router.changed = r.opts.Routing.Table.ChangeChannel()
	r.router.reevaluateAll(r.now()) // silences may have ended while the server was down
	var last time.Time              // start of the last batch
	for {
		if err := r.reconcile(ctx); err != nil {
			return err
		}
		if err := r.awaitWork(ctx, last); err != nil {
			return err
		}
		began := time.Now()
		worked, err := r.processBatch(ctx)
		if err != nil {
			return err
		}
		if worked {
			last = began
		}
		if err := r.sendDueMessages(ctx); err != nil {
			return err
		}
	}
}

// awaitWork waits for event changes, the time of the next message or a change of routes. It waits at most maxIdle.
func (r *Dispatcher) awaitWork(ctx context.Context, last time.Time) error {
	next := r.router.nextDue()
	if len(r.pendingEnds) > 0 && (next.IsZero() || r.endRetry.Before(next)) {
		next = r.endRetry
	}
	wait := maxIdle
	if !next.IsZero() {
		wait = min(next.Sub(r.now()), wait)
	}
	if r.receivers != r.opts.Routing.Table.ReceiversVersion() { // see routeAfterChange
		wait = min(wait, 100*time.Millisecond)
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	changed := r.router.changed
	go func() {
		select {
		case <-changed:
			cancel()
		case <-waiting.Done():
		}
	}()
	if err := r.gatherBatch(waiting, last); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

// maxIdle is the longest time between two looks at the clock.
const maxIdle = 20 * time.Second

// gatherBatch waits for enough event changes to fill one transaction, or until the longest waiting time is
// over. The first transition after a pause is recorded at once. The next ones wait for more: at most for
// Gather, or for GatherOpened if a problem opened.
func (r *Dispatcher) gatherBatch(ctx context.Context, last time.Time) error {
	if err := r.backlog.waitForBatch(ctx, 1, false); err != nil {
		return err
	}
	o := &r.opts.Batches
	until := func(pause time.Duration, opened bool) {
		gathering, cancel := context.WithDeadline(ctx, last.Add(pause))
		defer cancel()
		_ = r.backlog.waitForBatch(gathering, o.Size, opened)
	}
	until(o.Gather, true)
	until(cmp.Or(o.GatherOpened, o.Gather), false)
	return ctx.Err()
}

// sendDueMessages sends messages that are due. If routes or silences changed, it decides again whether waiting
// messages may be sent.
func (r *Dispatcher) sendDueMessages(ctx context.Context) error {
	o := newDeliveryBatch(r.router, r.now())
	if len(r.pendingEnds) > 0 && !o.now.Before(r.endRetry) {
		r.endSilences(ctx, nil)
	}
	if by := r.clockStep(); by > 0 {
		r.opts.Logger.Warn("the clock was set back; the server moves due times of messages back by the same time", "by", by)
		r.router.shiftTimes(o, by)
	}
	select {
	case <-r.router.changed:
		r.router.changed = r.opts.Routing.Table.ChangeChannel()
		r.router.reevaluateAll(o.now)
	default:
	}
	finish := r.routeAfterChange(o)
	if err := r.router.notifyDue(o); err != nil {
		r.opts.Logger.Error("cannot compose a message", "err", err)
	}
	if !o.empty() {
		var b history.Batch
		o.addRowsTo(&b)
		if err := r.record(ctx, b, 0); err != nil {
			return err
		}
	}
	finish()
	return nil
}

// now returns the present time without its monotonic part, because stored times must survive a restart. Due
// times have to survive a restart.
func (r *Dispatcher) now() time.Time { return r.opts.Now().Round(0) }

// clockStep returns how far the system clock was set back since the last call. A jump of 5 s or less counts as none.
func (r *Dispatcher) clockStep() time.Duration {
	now, last := r.opts.Now(), r.lastClock
	if r.lastClock = now; last.IsZero() {
		return 0
	}
	if by := now.Sub(last) - now.Round(0).Sub(last.Round(0)); by > 5*time.Second {
		return by
	}
	return 0
}

// persist writes event changes to the database in one transaction. The messages and escalations (progress of problems
// on routes) that follow are in the same transaction.
func (r *Dispatcher) persist(ctx context.Context, ts []event.Transition) error {
	var all recordedBatch
	if err := r.retry(ctx, "cannot read history", len(ts), func() (err error) {
		all, err = r.composeBatch(ctx, ts)
		return err
	}); err != nil {
		return err
	}
	return r.routeAndRecord(ctx, all, len(ts))
}

// routeAndRecord decides which handlers to notify of a batch's problem changes, then writes the batch to the
// database.
func (r *Dispatcher) routeAndRecord(ctx context.Context, all recordedBatch, transitions int) error {
	if at := all.nodesSilentSince(); len(at) > 0 && r.opts.Routing.NodesSilent != nil {
		r.opts.Routing.NodesSilent(at)
	}
	o := newDeliveryBatch(r.router, r.now())
	for i := range all.changes {
		t := &all.changes[i]
		switch unknown := r.router.mayHaveBeenSent(time.Unix(0, t.Received)); {
		case unknown && t.Kind == event.ProblemOpened:
			t.unnotified = cmp.Or(t.unnotified, history.ReasonUnknown)
		case unknown && t.Kind != event.ProblemClosed:
			continue
		}
		if t.unnotified != "" {
			o.recordUnnotified(t)
			if t.Kind == event.ProblemOpened {
				o.holdUnnotified(t)
				continue
			}
			r.metrics.unopened.Inc()
			r.opts.Logger.Error("a problem closed without an opening in history: no handler was notified", "problem", t.problem.ID,
				"namespace", t.problem.Namespace, "node", t.problem.Node, "source", t.problem.SourceName, "opened", t.problem.Opened)
		}
		if err := r.router.applyProblemChange(o, t); err != nil {
			r.opts.Logger.Error("cannot compose a message", "err", err)
		}
	}
	o.addRowsTo(&all.Batch)
	// Silences end before the closings are recorded that end them: after a crash in between, the replay brings the
	// closings again.
	r.endSilences(ctx, r.router.endedSilences(all.changes))
	return r.record(ctx, all.Batch, transitions)
}

// record writes a batch of event changes to history, and tries again until the write succeeds.
func (r *Dispatcher) record(ctx context.Context, b history.Batch, transitions int) error {
	r.deliver.outbox.prepare(b.Deliveries)
	began := r.opts.Now()
	if err := r.retry(ctx, "cannot store a batch in history", transitions, func() error { return r.opts.Store.Record(ctx, b) }); err != nil {
		return err
	}
	for p, place := range b.Places {
		r.places[p] = place
	}
	r.metrics.recorded.Add(float64(transitions))
	r.metrics.recordSeconds.Observe(r.opts.Now().Sub(began).Seconds())
	r.send(ctx, b.Deliveries)
	return nil
}

// send records in the journal that messages are stored, then starts their delivery to the handlers.
func (r *Dispatcher) send(ctx context.Context, list []history.Delivery) {
	if len(list) == 0 {
		return
	}
	if r.opts.MarkRecorded != nil {
		r.opts.MarkRecorded(ctx)
	}
	r.deliver.countEnqueued(list)
}
