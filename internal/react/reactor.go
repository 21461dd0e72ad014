package react

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/store/history"
)

// Names (the planner) gives what a transition's ids are called now, and what is told to whom.
type Names interface {
	// NodeName is not ok for a node that is gone.
	NodeName(id model.NodeID) (namespace, name string, ok bool)
	NodeLabels(id model.NodeID) map[string]string
	// NodeProperties are for the variables of a handler.
	NodeProperties(id model.NodeID) model.PropertyValues
	CheckName(id model.CheckID) (namespace, name string, ok bool)
	NamespaceName(id model.NamespaceID) (name string, ok bool)
	// NamespaceHandlers are told of what names nobody on the namespace's nodes.
	NamespaceHandlers(namespace string) []string
	Handler(namespace, name string) (*model.HandlerSpec, bool)
	Chunk(id model.ChunkID) *model.Chunk
}

// Options of a Reactor.
type Options struct {
	Store history.Store
	Names Names
	// Rederive makes the transitions of one partition again: those of every commit
	// after from (earlier ones do no harm) up to the journal's head, which it returns.
	Rederive func(ctx context.Context, p model.Partition, from journal.Position, fn func([]event.Transition) error) (journal.Position, error)

	Capacity  int           // transitions that may wait; default 131072
	BatchSize int           // transitions in one transaction; default 2000
	Gather    time.Duration // between transactions, unless a batch is full; default none
	Retention time.Duration // of history; default 90 days
	Retry     Retry

	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Queues     *queue.Registry

	again time.Duration // first wait after the store failed; default 100 ms
}

// Reactor turns transitions into history, problems and messages.
type Reactor struct {
	opts    Options
	backlog *backlog
	places  map[model.Partition]history.Place // recorded; Run's goroutine only
	metrics *metrics
	deliver *deliverer
}

// New makes a reactor; Load before the view is restored, Emit from the view.
func New(o Options) *Reactor {
	if o.Capacity <= 0 {
		o.Capacity = 131072
	}
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
	o.Retry = o.Retry.withDefaults()
	m := newMetrics(o.Registerer)
	return &Reactor{
		opts: o, backlog: newBacklog(o.Capacity, o.Queues), metrics: m,
		places: map[model.Partition]history.Place{}, deliver: newDeliverer(o, m),
	}
}

// Load reads how far history goes, so that a replay is not recorded twice. shared
// finds in the journal's present life what history recorded in an earlier one (see
// journal.Log.Shared); nil: there was none.
func (r *Reactor) Load(ctx context.Context, shared func(journal.Position) journal.Position) error {
	places, err := r.opts.Store.Places(ctx)
	if err != nil {
		return err
	}
	for p, place := range places {
		at := place.At
		if shared != nil {
			at = shared(place.At)
		}
		if at.Number < place.At.Number {
			place.Index = math.MaxUint32 // history went beyond: all of that commit is recorded
		}
		place.At = at
		r.places[p], r.backlog.before[p] = place, place
	}
	return nil
}

// Emit takes transitions from the view's workers; it copies them and never blocks.
func (r *Reactor) Emit(ts []event.Transition) { r.metrics.repeated.Add(float64(r.backlog.add(ts))) }

// Recorded waits until everything emitted up to and including commit at is in the
// history store: only then may a snapshot at that position be used, and the journal
// be cut below it.
func (r *Reactor) Recorded(ctx context.Context, at journal.Position) error {
	for {
		oldest, _, waits, moved := r.backlog.oldest()
		if !waits || oldest.Number > at.Number {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Behind is how long ago the oldest change was received that history does not hold
// yet; zero when nothing waits.
func (r *Reactor) Behind() time.Duration {
	_, since, waits, _ := r.backlog.oldest()
	if !waits {
		return 0
	}
	return max(0, r.opts.Now().Sub(time.Unix(0, since)))
}

// Run records and delivers until ctx ends. What waits then is made again from the
// journal at the next start.
func (r *Reactor) Run(ctx context.Context) error {
	ended := make(chan error, 2)
	go func() { ended <- r.deliver.run(ctx) }()
	go func() { ended <- r.deliver.clean(ctx) }()
	err := r.run(ctx)
	return errors.Join(ignoreCanceled(err), ignoreCanceled(<-ended), ignoreCanceled(<-ended))
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (r *Reactor) run(ctx context.Context) error {
	var last time.Time // when the last batch was taken
	for {
		if err := r.gather(ctx, last); err != nil {
			return err
		}
		last = time.Now()
		if ts := r.backlog.take(r.opts.BatchSize); len(ts) > 0 {
			if err := r.persist(ctx, ts); err != nil {
				return err
			}
			r.backlog.recorded(ts)
			continue
		}
		if p, from, _, ok := r.backlog.lag(); ok {
			from.Number-- // what was dropped first may stand anywhere within its commit
			if err := r.rederive(ctx, p, from); err != nil {
				return err
			}
		}
	}
}

// gather waits for something to record. The first change after a silence is recorded
// at once; while changes keep coming they share transactions, each of which costs an
// fsync and a few pages, whatever it holds.
func (r *Reactor) gather(ctx context.Context, last time.Time) error {
	if err := r.backlog.wait(ctx, 1); err != nil {
		return err
	}
	rest := r.opts.Gather - time.Since(last)
	if rest <= 0 {
		return nil
	}
	gathering, cancel := context.WithTimeout(ctx, rest)
	defer cancel()
	_ = r.backlog.wait(gathering, r.opts.BatchSize)
	return ctx.Err()
}

// persist records a batch, again and again until the store takes it.
func (r *Reactor) persist(ctx context.Context, ts []event.Transition) error {
	for attempt := 0; ; attempt++ {
		began := r.opts.Now()
		batch, err := r.batch(ctx, ts)
		if err == nil {
			err = r.opts.Store.Record(ctx, batch)
		}
		if err == nil {
			for p, place := range batch.Places {
				r.places[p] = place
			}
			r.metrics.recorded.Add(float64(len(ts)))
			r.metrics.recordSeconds.Observe(r.opts.Now().Sub(began).Seconds())
			if len(batch.Deliveries) > 0 {
				r.deliver.signal()
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.metrics.recordFailed.Inc()
		wait := backoff(attempt, r.opts.again, 10*time.Second)
		r.opts.Logger.Warn("history store does not take a batch; trying again", "transitions", len(ts), "wait", wait, "err", err)
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// rederive makes again what a full backlog dropped, one partition at a time.
func (r *Reactor) rederive(ctx context.Context, p model.Partition, from journal.Position) error {
	if r.opts.Rederive == nil {
		panic("BUG: react: transitions were dropped and nothing can make them again")
	}
	r.metrics.rederived.Inc()
	for attempt := 0; ; attempt++ {
		upTo, err := r.opts.Rederive(ctx, p, from, func(ts []event.Transition) error {
			for len(ts) > 0 {
				n := min(len(ts), r.opts.BatchSize)
				if err := r.persist(ctx, ts[:n]); err != nil {
					return err
				}
				ts = ts[n:]
			}
			return nil
		})
		if err == nil && r.backlog.caughtUp(p, upTo) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.opts.Logger.Error("making transitions again from the journal failed; trying again", "partition", p, "err", err)
			if err := sleep(ctx, backoff(attempt, 10*r.opts.again, time.Minute)); err != nil {
				return err
			}
		}
	}
}

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
		case event.StatusChanged, event.ResultsLost, event.LateResult:
			b.Entries = append(b.Entries, r.entry(t))
		case event.ProblemOpened:
			p := r.problem(t)
			b.Opened = append(b.Opened, p)
			refs := r.handlers(t)
			told[p.ID] = refs
			if err := r.tell(&b, t, p, "opened", refs); err != nil {
				return b, err
			}
		case event.ProblemClosed:
			p, err := r.closing(ctx, t)
			if err != nil {
				return b, err
			}
			b.Closed = append(b.Closed, p)
			if err := r.tell(&b, t, p, "closed", told[p.ID]); err != nil {
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

func (r *Reactor) entry(t *event.Transition) history.Entry {
	kind := history.StatusChanged
	switch t.Kind {
	case event.ResultsLost:
		kind = history.ResultsLost
	case event.LateResult:
		kind = history.LateResult
	}
	namespace, node, check := r.names(t)
	return history.Entry{
		At: time.Unix(0, t.Received), Executed: time.Unix(0, t.Executed), Kind: kind,
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
		b.Deliveries = append(b.Deliveries, history.Delivery{
			Key: p.ID + "/" + kind + "/" + ref.Namespace + "/" + ref.Name, Problem: p.ID, Handler: ref,
			Kind: kind, Payload: payload, Created: r.opts.Now(),
		})
	}
	return nil
}

// backoff is exponential with full jitter above half of it.
func backoff(attempt int, first, most time.Duration) time.Duration {
	d := min(first<<min(attempt, 20), most)
	if d <= 0 {
		d = most
	}
	return d/2 + rand.N(d/2+1)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
