package react

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/guard"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipes"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

// Names (the planner) gives what a transition's ids are called now, and what is told to whom.
type Names interface {
	route.Directory
	// NodeProperties are for the variables of a handler.
	NodeProperties(id model.NodeID) model.PropertyValues
	NamespaceName(id model.NamespaceID) (name string, ok bool)
	// NamespaceHandlers are told of what names nobody on the namespace's nodes.
	NamespaceHandlers(namespace string) []string
	Handler(namespace, name string) (*model.HandlerSpec, bool)
	CheckChunk(id model.ChunkID) *model.CheckChunk
	// Keepalive is the definition of a node's own event, with whom the node names.
	Keepalive(node model.NodeID) *model.CheckChunk
}

// definition returns the check's definition that judged a transition, with its handlers, route and pipelines
// of now; nil: none is known any more, or another kind of source judged.
func definition(names Names, t *event.Transition) *model.CheckChunk {
	switch {
	case t.Source.Kind != model.SourceCheck:
		return nil
	case t.Source.Check() == model.KeepaliveCheck:
		return names.Keepalive(t.Node)
	}
	return names.CheckChunk(t.Chunk)
}

// Options are the surroundings of a Reactor. They are more than 25: each room that the reactor reads is passed as one
// interface or function, and each bound is a setting.
type Options struct {
	Store history.Store
	Names Names
	// Routing finds routes and holds; nil: only the handlers of checks and namespaces. Present returns the state
	// of a source now; nil: none, so that a message leaves at once or never.
	Routing Routing
	Present func(node model.NodeID, source model.Source) (Presence, bool)
	// EndSilences deletes silences that end with their first problem, but none that was made after it closed; nil: they
	// stay.
	EndSilences func(ctx context.Context, ends []SilenceEnd) error
	// Rederive starts to derive transitions again from the journal, after the queue overflowed.
	Rederive func() (Replay, error)
	// Secret returns the value of a Secret that a handler names; nil: there are none.
	Secret func(ctx context.Context, namespace, name string) (string, error)
	// Assets gives the command of a handler or mutator its assets; see handler.Options.
	Assets func(ctx context.Context, names []string) (list []model.AssetDir, done func(), err error)
	// Journal measures how far history is behind; nil: unknown.
	Journal Journal

	// NodesSilent gets the times at which nodes fell silent, before their problems are routed; late where history was
	// behind. MassOutage returns the hold of keepalive problems while most of the fleet is silent; nil: never.
	NodesSilent func(at []time.Time)
	MassOutage  func(now time.Time) *route.Hold
	// Dependencies lists the checks on which the problems of a source on a node depend, see plan.Planner; nil: none.
	Dependencies func(node model.NodeID, source model.Source) []route.Dependency
	// Shadow reports whether messages of a namespace's nodes are recorded but not sent; nil: never.
	Shadow func(namespace string) bool
	// Pipelines are those kept from Sensu, and Kept the further fields that their expressions read; nil: none.
	Pipelines *pipes.Table
	Kept      func(node model.NodeID, check model.CheckID) directory.FilterContext
	// Beat gets the output of each synthetic result that was delivered; nil: dropped.
	Beat func(output string)

	Capacity     int64         // bytes of transitions that may wait; default that of the queue reactions
	BatchSize    int           // transitions in one transaction; default 2000
	Gather       time.Duration // between transactions, unless a batch is full; default none
	GatherOpened time.Duration // the same where a problem opened, of which people want to hear; default Gather
	Retention    time.Duration // of history; default 90 days
	Retry        Retry
	Guard        *guard.Guard // of handlers' commands; nil: they outlive a kill -9
	// ProblemLink is where messages say that a problem is shown: see handler.Options.
	ProblemLink string

	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Queues     *queue.Registry

	retryFirst   time.Duration // first wait after the store failed; default 100 ms
	shutdownWait time.Duration // what is under way when the server stops may take; default 5 s
}

// Replay makes transitions again (*rederive.Pass): at least all those that history has not
// recorded, in order per partition. See there.
type Replay interface {
	// At is up to where it has come: at the beginning, where history lacks nothing before.
	At() journal.Position
	// Read goes on to the journal's head of now. fn hears of every commit; ts is used again.
	Read(ctx context.Context, fn func(at journal.Position, received int64, ts []event.Transition) error) (journal.Position, error)
	Close()
}

// Journal (*journal.Log) is what history follows.
type Journal interface {
	Head() journal.Position
	SizeAfter(p journal.Position) int64
}

// Reactor turns transitions into history, problems and messages.
type Reactor struct {
	consumer
	opts     Options
	places   map[model.Partition]history.Place // recorded; Run's goroutine only
	metrics  *metrics
	deliver  *deliverer
	pipeline *eventPipeline // what pipelines see; nil: there are none
	router   *router        // Run's goroutine only
	// pendingEnds are silences that could not be taken away yet, and when that is tried again.
	pendingEnds    []SilenceEnd
	endRetry       time.Time
	lastClock      time.Time       // when goOn was there last; Run's goroutine only
	aliveUntil     time.Time       // until when history was there before it was loaded
	aliveRecorded  time.Time       // when that was noted last; Run's goroutine only
	reconciliation *reconciliation // Run's goroutine only, once it runs; nil: history misses nothing
}

// New makes a reactor; Load before the view is restored, Emit from the view.
func New(o Options) *Reactor {
	if o.BatchSize <= 0 {
		o.BatchSize = 2000
	}
	if o.Retention <= 0 {
		o.Retention = 90 * 24 * time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.retryFirst <= 0 {
		o.retryFirst = 100 * time.Millisecond
	}
	if o.shutdownWait <= 0 {
		o.shutdownWait = 5 * time.Second
	}
	if o.Routing == nil {
		o.Routing = route.NewTable()
	}
	if o.Present == nil {
		o.Present = func(model.NodeID, model.Source) (Presence, bool) { return Presence{}, false }
	}
	o.Retry = o.Retry.withDefaults()
	m := newMetrics(o.Registerer)
	r := &Reactor{
		opts: o, metrics: m,
		places: map[model.Partition]history.Place{}, deliver: newDeliverer(o, m),
		router: newRouter(o),
	}
	r.consumer = consumer{opts: &r.opts, metrics: m, backlog: newBacklog("reactions", o.Capacity, o.Queues), batch: o.BatchSize,
		persist: r.persist, afterBatch: r.afterBatch, subject: "history", passes: &passes{turn: make(chan struct{}, 1)}}
	if o.Pipelines != nil {
		r.pipeline = newEventPipeline(r)
	}
	r.showBehind(o.Registerer)
	return r
}

// Load reads how far history goes, so that a replay is not recorded twice. shared
// finds in the journal's present life what history recorded in an earlier one (see
// journal.Log.Shared); nil: there was none.
func (r *Reactor) Load(ctx context.Context, shared func(journal.Position) journal.Position) error {
	places, err := r.opts.Store.Places(ctx)
	if err != nil {
		return err
	}
	if r.aliveUntil, err = r.opts.Store.AliveUntil(ctx); err != nil {
		return err
	}
	if err := r.deliver.load(ctx); err != nil {
		return err
	}
	if err := r.router.load(ctx); err != nil {
		return err
	}
	for p, place := range places {
		place = place.Of(shared)
		r.places[p], r.backlog.before[p] = place, place
	}
	if r.pipeline != nil {
		return r.pipeline.load(ctx, shared)
	}
	return nil
}

// Emit takes transitions from the view's workers; it copies them, and blocks only if
// the policy of the queue says so.
func (r *Reactor) Emit(ts []event.Transition) {
	r.metrics.repeated.Add(float64(r.backlog.add(ts)))
	if r.pipeline != nil {
		r.metrics.repeated.Add(float64(r.pipeline.backlog.add(ts)))
	}
}

// ErrFarBehind: changes are made again from the journal, and have not come near a position.
var ErrFarBehind = errors.New("history is far behind: its changes are made again from the journal")

// Recorded waits until everything emitted up to and including commit at is in the
// history store: only then may a snapshot at that position be used, and the journal
// be cut below it. ErrFarBehind: a snapshot of the replay is there before.
func (r *Reactor) Recorded(ctx context.Context, at journal.Position) error {
	if err := r.consumer.recorded(ctx, at); err != nil || r.pipeline == nil {
		return err
	}
	return r.pipeline.recorded(ctx, at)
}

func (r *consumer) recorded(ctx context.Context, at journal.Position) error {
	for {
		oldest, _, waits, moved := r.backlog.oldest()
		if !waits || oldest.Number > at.Number {
			return nil
		}
		if r.backlog.beyondPass(at) {
			return ErrFarBehind
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Waiting returns the number of transitions in memory that history has not recorded.
func (r *Reactor) Waiting() int { return r.backlog.depth() }

// Fullness returns the occupied share of the queue of reactions: from 0 to 1, and beyond where one transition
// is larger than the queue. Always zero with the policy rederive, where a full queue blocks nobody.
func (r *Reactor) Fullness() float64 { return r.backlog.fullness() }

// Behind returns the age of the oldest transition that history has not recorded; zero: none waits.
func (r *Reactor) Behind() time.Duration { return r.Lag().Age }

// behind returns the age of the oldest waiting transition.
func (r *consumer) behind(now time.Time) time.Duration {
	if _, since, waits, _ := r.backlog.oldest(); waits {
		return max(0, now.Sub(time.Unix(0, since)))
	}
	return 0
}

// Lag describes how far history is behind the journal.
type Lag struct {
	Changes int           // that wait in memory
	Age     time.Duration // since the oldest change was received that history does not hold
	Commits uint64        // of the journal, from that one on
	Bytes   int64         // of the journal, about
	Again   bool          // the queue overflowed: changes are made again from the journal
}

// Lag returns how far history is behind the journal now.
func (r *Reactor) Lag() Lag {
	oldest, since, waits, _ := r.backlog.oldest()
	l := Lag{Changes: r.backlog.depth(), Again: r.backlog.lagging()}
	if !waits {
		return l
	}
	l.Age = max(0, r.opts.Now().Sub(time.Unix(0, since)))
	if j := r.opts.Journal; j != nil {
		oldest.Number--
		if head := j.Head(); head.Number > oldest.Number {
			l.Commits, l.Bytes = head.Number-oldest.Number, j.SizeAfter(oldest)
		}
	}
	return l
}

// Run records and delivers until ctx ends. What waits then is made again from the
// journal at the next start.
func (r *Reactor) Run(ctx context.Context) error {
	ended := make(chan error, 2)
	go func() { ended <- r.deliver.run(ctx) }()
	go func() { ended <- r.deliver.clean(ctx) }()
	r.backlog.setRunning(true)
	defer context.AfterFunc(ctx, func() { r.backlog.setRunning(false) })()
	var seen sync.WaitGroup
	if r.pipeline != nil {
		seen.Go(func() { r.pipeline.run(ctx) })
	}
	err := r.run(ctx)
	r.backlog.setRunning(false)
	seen.Wait()
	return errors.Join(ignoreCanceled(err), ignoreCanceled(<-ended), ignoreCanceled(<-ended))
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (r *Reactor) run(ctx context.Context) error {
	r.router.changed = r.opts.Routing.Changed()
	r.router.reevaluateAll(r.now()) // what is held: silences may have gone meanwhile
	var last time.Time              // when the last batch was taken
	for {
		if err := r.reconcile(ctx); err != nil {
			return err
		}
		r.recordAlive(ctx)
		if err := r.await(ctx, last); err != nil {
			return err
		}
		if ts := r.backlog.take(r.opts.BatchSize); len(ts) > 0 {
			last = time.Now()
			if err := r.persist(ctx, ts); err != nil {
				return err
			}
			r.backlog.recorded(ts)
		} else if r.backlog.lagging() {
			last = time.Now()
			if err := r.rederive(ctx); err != nil {
				return err
			}
		}
		if err := r.afterBatch(ctx); err != nil {
			return err
		}
	}
}

// await waits for transitions, for a due message, or for a change of routing; at most aliveInterval, for the
// clock may have been set and the machine may have slept.
func (r *Reactor) await(ctx context.Context, last time.Time) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	next := r.router.nextDue()
	if len(r.pendingEnds) > 0 && (next.IsZero() || r.endRetry.Before(next)) {
		next = r.endRetry
	}
	wait := aliveInterval
	if !next.IsZero() {
		wait = min(next.Sub(r.now()), wait)
	}
	timer := time.AfterFunc(wait, cancel)
	defer timer.Stop()
	changed := r.router.changed
	go func() {
		select {
		case <-changed:
			cancel()
		case <-waiting.Done():
		}
	}()
	if err := r.gather(waiting, last); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

// afterBatch sends due messages, and evaluates held ones again where routing changed.
func (r *Reactor) afterBatch(ctx context.Context) error {
	o := newDeliveryBatch(r.router, r.now())
	if len(r.pendingEnds) > 0 && !o.now.Before(r.endRetry) {
		r.endSilences(ctx, nil)
	}
	if by := r.clockStep(); by > 0 {
		r.opts.Logger.Warn("the clock was set back; what is to be told later is told as much earlier", "by", by)
		r.router.shiftTimes(o, by)
	}
	select {
	case <-r.router.changed:
		r.router.changed = r.opts.Routing.Changed()
		r.router.reevaluateAll(o.now)
	default:
	}
	if err := r.router.notifyDue(o); err != nil {
		r.opts.Logger.Error("a message could not be made", "err", err)
	}
	if o.empty() {
		return nil
	}
	var b history.Batch
	o.addTo(&b)
	return r.record(ctx, b, 0)
}

// now returns the wall clock's time, without its monotonic part: due times survive a restart.
func (r *Reactor) now() time.Time { return r.opts.Now().Round(0) }

// clockStep returns how far the wall clock was set back since the last call, if more than 5 s.
func (r *Reactor) clockStep() time.Duration {
	now, last := r.opts.Now(), r.lastClock
	if r.lastClock = now; last.IsZero() {
		return 0
	}
	if by := now.Sub(last) - now.Round(0).Sub(last.Round(0)); by > 5*time.Second {
		return by
	}
	return 0
}

// gather waits for a batch. After a pause the first transition is recorded at once; the next ones wait for
// more, for Gather at most, and GatherOpened where a problem opened.
func (r *Reactor) gather(ctx context.Context, last time.Time) error {
	if err := r.backlog.wait(ctx, 1, false); err != nil {
		return err
	}
	until := func(pause time.Duration, opened bool) {
		gathering, cancel := context.WithDeadline(ctx, last.Add(pause))
		defer cancel()
		_ = r.backlog.wait(gathering, r.opts.BatchSize, opened)
	}
	until(r.opts.Gather, true)
	until(cmp.Or(r.opts.GatherOpened, r.opts.Gather), false)
	return ctx.Err()
}

// persist records transitions, with the escalations and deliveries that follow from them.
func (r *Reactor) persist(ctx context.Context, ts []event.Transition) error {
	var all recordedBatch
	if err := r.retry(ctx, "history cannot be read", len(ts), func() (err error) {
		all, err = r.batch(ctx, ts)
		return err
	}); err != nil {
		return err
	}
	return r.write(ctx, all, len(ts))
}

// write records a batch, with the escalations and deliveries that follow from it.
func (r *Reactor) write(ctx context.Context, all recordedBatch, transitions int) error {
	if at := all.silentSince(); len(at) > 0 && r.opts.NodesSilent != nil {
		r.opts.NodesSilent(at) // before any of them is told
	}
	o := newDeliveryBatch(r.router, r.now())
	for i := range all.changes {
		if err := r.router.apply(o, &all.changes[i]); err != nil {
			r.opts.Logger.Error("a message could not be made", "err", err)
		}
	}
	for i := range all.missingOpenings {
		t := &all.missingOpenings[i]
		r.metrics.unopened.Inc()
		r.opts.Logger.Error("a problem closed whose opening never came to history: nobody was told of it", "problem", t.problem.ID,
			"namespace", t.problem.Namespace, "node", t.problem.Node, "source", t.problem.SourceName, "opened", t.problem.Opened)
		o.recordUnopened(t, "its opening was not recorded")
	}
	for i := range all.predating {
		o.recordUnopened(&all.predating[i], "history was begun or restored after it opened, and does not know who was told")
	}
	o.addTo(&all.Batch)
	// Before what made them end is recorded: after a crash in between it comes again.
	r.endSilences(ctx, r.router.endedSilences(all.changes))
	return r.record(ctx, all.Batch, transitions)
}

// record writes a batch, again and again until the store takes it.
func (r *Reactor) record(ctx context.Context, b history.Batch, transitions int) error {
	r.deliver.bounded(b.Deliveries)
	began := r.opts.Now()
	if err := r.retry(ctx, "history store does not take a batch", transitions, func() error { return r.opts.Store.Record(ctx, b) }); err != nil {
		return err
	}
	for p, place := range b.Places {
		r.places[p] = place
	}
	r.metrics.recorded.Add(float64(transitions))
	r.metrics.recordSeconds.Observe(r.opts.Now().Sub(began).Seconds())
	if len(b.Deliveries) > 0 {
		r.deliver.enqueued(b.Deliveries)
	}
	return nil
}

// retry repeats a step with back-off until it succeeds. The error is that of ctx.
func (r *consumer) retry(ctx context.Context, trouble string, transitions int, do func() error) error {
	for attempt := 0; ; attempt++ {
		err := do()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.metrics.recordFailed.Inc()
		wait := backoff(attempt, r.opts.retryFirst, 10*time.Second)
		r.opts.Logger.Warn(trouble+"; trying again", "transitions", transitions, "wait", wait, "err", err)
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// batchBytes bounds one transaction, whatever the outputs.
const batchBytes = 4 << 20

// batchLength returns how many of the first transitions fit one batch, at least one.
func batchLength(ts []event.Transition, most int) int {
	bytes := int64(0)
	for i := range ts {
		if bytes += cost(&ts[i]); i > 0 && (bytes > batchBytes || i == most) {
			return i
		}
	}
	return len(ts)
}
