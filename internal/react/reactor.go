package react

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/guard"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipes"
	"github.com/muster-fleet/muster/internal/plan"
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
	Chunk(id model.ChunkID) *model.Chunk
	// Keepalive is the definition of a node's own event, with whom the node names.
	Keepalive(node model.NodeID) *model.Chunk
}

// definition returns the check's definition that judged a transition, with its handlers, route and pipelines
// of now; nil: none is known any more, or another kind of source judged.
func definition(names Names, t *event.Transition) *model.Chunk {
	switch {
	case t.Source.Kind != model.SourceCheck:
		return nil
	case t.Source.Check() == model.KeepaliveCheck:
		return names.Keepalive(t.Node)
	}
	return names.Chunk(t.Chunk)
}

// Options of a Reactor.
type Options struct {
	Store history.Store
	Names Names
	// Routing says who is told; nil: those whom checks and namespaces name. Present is what
	// the view shows now; nil: nothing, so that all is told at once or never.
	Routing Routing
	Present func(node model.NodeID, source model.Source) (Presence, bool)
	// EndSilences takes away silences that end with the first problem which they silence, but none
	// that was made after that closed; nil: they stay.
	EndSilences func(ctx context.Context, ends []SilenceEnd) error
	// Rederive begins to make transitions again from the journal, after the queue overflowed.
	Rederive func() (Replay, error)
	// Secret is the value of a Secret that a handler names; nil: there are none.
	Secret func(ctx context.Context, namespace, name string) (string, error)
	// Assets gives the command of a handler or mutator what it names; see handler.Options.
	Assets func(ctx context.Context, names []string) (list []model.AssetDir, done func(), err error)
	// Journal says how far history is behind; nil: nobody can tell.
	Journal Journal

	// Silent hears when nodes fell silent, which is long ago where history was behind. Many says, while it is most of the
	// fleet rather than its nodes that is wrong, why and until when their messages wait; nil: it
	// is never so.
	Silent func(at []time.Time)
	Many   func(now time.Time) *route.Hold
	// Masters lists the dependencies of a source on a node, see plan.Planner; nil: nothing.
	Masters func(node model.NodeID, source model.Source) []route.Master
	// Shadow says that nothing is sent of problems on a namespace's nodes; nil: of all it is.
	Shadow func(namespace string) bool
	// Pipelines are those kept from Sensu, and Kept what their expressions see of a node and a
	// check besides; nil: there are none, and what they would see is passed over.
	Pipelines *pipes.Table
	Kept      func(node model.NodeID, check model.CheckID) plan.Kept
	// Beat hears of each synthetic result that was delivered, by its output; nil: nobody does.
	Beat func(output string)

	Capacity  int64         // bytes of transitions that may wait; default that of the queue reactions
	BatchSize int           // transitions in one transaction; default 2000
	Gather    time.Duration // between transactions, unless a batch is full; default none
	Hurry     time.Duration // the same where a problem opened, of which people want to hear; default Gather
	Retention time.Duration // of history; default 90 days
	Retry     Retry
	Guard     *guard.Guard // of handlers' commands; nil: they outlive a kill -9
	// ProblemLink is where messages say that a problem is shown: see handler.Options.
	ProblemLink string

	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Queues     *queue.Registry

	again  time.Duration // first wait after the store failed; default 100 ms
	windUp time.Duration // what is under way when the server stops may take; default 5 s
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
	lane
	opts    Options
	places  map[model.Partition]history.Place // recorded; Run's goroutine only
	metrics *metrics
	deliver *deliverer
	sights  *sights // what pipelines see; nil: there are none
	router  *router // Run's goroutine only
	// ending are silences that could not be taken away yet, and when that is tried again.
	ending   []SilenceEnd
	endAgain time.Time
	clock    time.Time // when goOn was there last; Run's goroutine only
	attended time.Time // until when history was there before it was loaded
	noted    time.Time // when that was noted last; Run's goroutine only
	missed   *missed   // Run's goroutine only, once it runs; nil: history misses nothing
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
	if o.again <= 0 {
		o.again = 100 * time.Millisecond
	}
	if o.windUp <= 0 {
		o.windUp = 5 * time.Second
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
	r.lane = lane{opts: &r.opts, metrics: m, backlog: newBacklog("reactions", o.Capacity, o.Queues), batch: o.BatchSize,
		persist: r.persist, goOn: r.goOn, what: "history", passes: &passes{turn: make(chan struct{}, 1)}}
	if o.Pipelines != nil {
		r.sights = newSights(r)
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
	if r.attended, err = r.opts.Store.Attended(ctx); err != nil {
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
	if r.sights != nil {
		return r.sights.load(ctx, shared)
	}
	return nil
}

// Emit takes transitions from the view's workers; it copies them, and blocks only if
// the policy of the queue says so.
func (r *Reactor) Emit(ts []event.Transition) {
	r.metrics.repeated.Add(float64(r.backlog.add(ts)))
	if r.sights != nil {
		r.metrics.repeated.Add(float64(r.sights.backlog.add(ts)))
	}
}

// ErrFarBehind: changes are made again from the journal, and have not come near a position.
var ErrFarBehind = errors.New("history is far behind: its changes are made again from the journal")

// Recorded waits until everything emitted up to and including commit at is in the
// history store: only then may a snapshot at that position be used, and the journal
// be cut below it. ErrFarBehind: a snapshot of the replay is there before.
func (r *Reactor) Recorded(ctx context.Context, at journal.Position) error {
	if err := r.lane.recorded(ctx, at); err != nil || r.sights == nil {
		return err
	}
	return r.sights.recorded(ctx, at)
}

func (r *lane) recorded(ctx context.Context, at journal.Position) error {
	for {
		oldest, _, waits, moved := r.backlog.oldest()
		if !waits || oldest.Number > at.Number {
			return nil
		}
		if r.backlog.ahead(at) {
			return ErrFarBehind
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Waiting is how many changes history has not recorded yet, dropped ones not counted.
func (r *Reactor) Waiting() int { return r.backlog.depth() }

// Fullness is the share of its queue that changes take which history has not recorded yet:
// from 0 to 1, and beyond where one change is larger than all of it. Always zero where a full
// queue makes nobody wait (policy rederive): rarer batches hold as many changes.
func (r *Reactor) Fullness() float64 { return r.backlog.fullness() }

// Behind is how long ago the oldest change was received that history does not hold
// yet; zero when nothing waits.
func (r *Reactor) Behind() time.Duration { return r.Lag().Age }

// behind is the age of the oldest change that waits.
func (r *lane) behind(now time.Time) time.Duration {
	if _, since, waits, _ := r.backlog.oldest(); waits {
		return max(0, now.Sub(time.Unix(0, since)))
	}
	return 0
}

// Lag is how far history is behind.
type Lag struct {
	Changes int           // that wait in memory
	Age     time.Duration // since the oldest change was received that history does not hold
	Commits uint64        // of the journal, from that one on
	Bytes   int64         // of the journal, about
	Again   bool          // the queue overflowed: changes are made again from the journal
}

// Lag is how far history is behind now.
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
	r.backlog.records(true)
	defer context.AfterFunc(ctx, func() { r.backlog.records(false) })()
	var seen sync.WaitGroup
	if r.sights != nil {
		seen.Go(func() { r.sights.run(ctx) })
	}
	err := r.run(ctx)
	r.backlog.records(false)
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
	r.router.recheck(r.now()) // what is held: silences may have gone meanwhile
	var last time.Time        // when the last batch was taken
	for {
		if err := r.makeUp(ctx); err != nil {
			return err
		}
		r.attend(ctx)
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
		if err := r.goOn(ctx); err != nil {
			return err
		}
	}
}

// await waits for something to record, for what is due to be told, and for a change of who
// is told; not for long: the clock may have been set, and the machine may have slept.
func (r *Reactor) await(ctx context.Context, last time.Time) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	next := r.router.next()
	if len(r.ending) > 0 && (next.IsZero() || r.endAgain.Before(next)) {
		next = r.endAgain
	}
	wait := attendEach
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

// goOn tells what is due, and looks again at what is held where its reasons have changed.
func (r *Reactor) goOn(ctx context.Context) error {
	o := newTelling(r.now())
	if len(r.ending) > 0 && !o.now.Before(r.endAgain) {
		r.endSilences(ctx, nil)
	}
	if by := r.setBack(); by > 0 {
		r.opts.Logger.Warn("the clock was set back; what is to be told later is told as much earlier", "by", by)
		r.router.back(o, by)
	}
	select {
	case <-r.router.changed:
		r.router.changed = r.opts.Routing.Changed()
		r.router.recheck(o.now)
	default:
	}
	if err := r.router.fire(o); err != nil {
		r.opts.Logger.Error("a message could not be made", "err", err)
	}
	if o.empty() {
		return nil
	}
	var b history.Batch
	o.into(&b)
	return r.record(ctx, b, 0)
}

// now is the wall clock's time: what is due is due by it, also after a restart.
func (r *Reactor) now() time.Time { return r.opts.Now().Round(0) }

// setBack is how far the wall clock was set back since it was asked last, if more than a
// little.
func (r *Reactor) setBack() time.Duration {
	now, last := r.opts.Now(), r.clock
	if r.clock = now; last.IsZero() {
		return 0
	}
	if by := now.Sub(last) - now.Round(0).Sub(last.Round(0)); by > 5*time.Second {
		return by
	}
	return 0
}

// gather waits for something to record. The first change after a silence is recorded
// at once; those that follow soon wait for more, an opened problem less long than others: it
// is told when it is recorded.
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
	until(cmp.Or(r.opts.Hurry, r.opts.Gather), false)
	return ctx.Err()
}

// persist records a batch, and what its problems come to on their routes.
func (r *Reactor) persist(ctx context.Context, ts []event.Transition) error {
	var all rows
	if err := r.insist(ctx, "history cannot be read", len(ts), func() (err error) {
		all, err = r.batch(ctx, ts)
		return err
	}); err != nil {
		return err
	}
	return r.write(ctx, all, len(ts))
}

// write records rows of so many transitions, with what they come to on the routes.
func (r *Reactor) write(ctx context.Context, all rows, transitions int) error {
	if at := all.silent(); len(at) > 0 && r.opts.Silent != nil {
		r.opts.Silent(at) // before any of them is told
	}
	o := newTelling(r.now())
	for i := range all.turns {
		if err := r.router.follow(o, &all.turns[i]); err != nil {
			r.opts.Logger.Error("a message could not be made", "err", err)
		}
	}
	for i := range all.unopened {
		t := &all.unopened[i]
		r.metrics.unopened.Inc()
		r.opts.Logger.Error("a problem closed whose opening never came to history: nobody was told of it", "problem", t.problem.ID,
			"namespace", t.problem.Namespace, "node", t.problem.Node, "source", t.problem.SourceName, "opened", t.problem.Opened)
		r.router.unopened(o, t, "its opening was not recorded")
	}
	for i := range all.strange {
		r.router.unopened(o, &all.strange[i], "history was begun or restored after it opened, and does not know who was told")
	}
	o.into(&all.Batch)
	// Before what made them end is recorded: after a crash in between it comes again.
	r.endSilences(ctx, r.router.resolved(all.turns))
	return r.record(ctx, all.Batch, transitions)
}

// record writes a batch, again and again until the store takes it.
func (r *Reactor) record(ctx context.Context, b history.Batch, transitions int) error {
	r.deliver.bounded(b.Deliveries)
	began := r.opts.Now()
	if err := r.insist(ctx, "history store does not take a batch", transitions, func() error { return r.opts.Store.Record(ctx, b) }); err != nil {
		return err
	}
	for p, place := range b.Places {
		r.places[p] = place
	}
	r.metrics.recorded.Add(float64(transitions))
	r.metrics.recordSeconds.Observe(r.opts.Now().Sub(began).Seconds())
	if len(b.Deliveries) > 0 {
		r.deliver.made(b.Deliveries)
	}
	return nil
}

// insist does something until it succeeds.
func (r *lane) insist(ctx context.Context, trouble string, transitions int, do func() error) error {
	for attempt := 0; ; attempt++ {
		err := do()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.metrics.recordFailed.Inc()
		wait := backoff(attempt, r.opts.again, 10*time.Second)
		r.opts.Logger.Warn(trouble+"; trying again", "transitions", transitions, "wait", wait, "err", err)
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// batchBytes bounds one transaction, whatever the outputs.
const batchBytes = 4 << 20

// some is how many of the first transitions make one batch, at least one.
func some(ts []event.Transition, most int) int {
	bytes := int64(0)
	for i := range ts {
		if bytes += cost(&ts[i]); i > 0 && (bytes > batchBytes || i == most) {
			return i
		}
	}
	return len(ts)
}
