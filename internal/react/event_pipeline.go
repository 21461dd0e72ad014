package react

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipes"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/wire"
)

// eventPipeline evaluates events by the pipelines of their checks. It has its own queue, goroutine and
// positions in the journal, so slow JavaScript delays nothing else. An event that passes a workflow becomes a
// delivery, in one transaction with the positions.
type eventPipeline struct {
	consumer
	r      *Reactor
	atOnce int // evaluations

	reached map[model.Partition]history.Place // Run's goroutine only
	moved   map[model.Partition]bool          // of them, not yet recorded

	mu   sync.Mutex
	last map[eventRef]Verdicts
}

type eventRef struct {
	node  model.NodeID
	check model.CheckID
}

// Verdicts holds the last verdicts of pipelines on an event.
type Verdicts struct {
	At   time.Time // of the event
	List []pipes.Verdict
}

// pipelineBatch bounds the events that are evaluated before those that pass are recorded.
const pipelineBatch = 500

func newEventPipeline(r *Reactor) *eventPipeline {
	s := &eventPipeline{r: r, atOnce: max(1, runtime.GOMAXPROCS(0)/2), reached: map[model.Partition]history.Place{}, moved: map[model.Partition]bool{}, last: map[eventRef]Verdicts{}}
	s.consumer = consumer{opts: &r.opts, metrics: r.metrics, backlog: newBacklog("pipelines", r.opts.Capacity, r.opts.Queues), batch: pipelineBatch,
		persist: s.persist, afterBatch: func(context.Context) error { return nil }, subject: "what pipelines see", passes: r.passes, yields: true}
	return s
}

// load reads how far pipelines came, so that what they passed on does not pass again.
func (s *eventPipeline) load(ctx context.Context, shared func(journal.Position) journal.Position) error {
	places, err := s.opts.Store.PipelinePlaces(ctx)
	if err != nil {
		return err
	}
	for p, place := range places {
		place = place.Of(shared)
		s.reached[p], s.backlog.before[p] = place, place
	}
	return nil
}

// run shows events until ctx ends. What waits then is made again from the journal at the next
// start.
func (s *eventPipeline) run(ctx context.Context) {
	s.backlog.setRunning(true)
	defer s.backlog.setRunning(false)
	defer context.AfterFunc(ctx, func() { s.backlog.setRunning(false) })()
	for s.backlog.wait(ctx, 1, false) == nil {
		if ts := s.backlog.take(s.batch); len(ts) > 0 {
			if s.persist(ctx, ts) != nil {
				return
			}
			s.backlog.recorded(ts)
		} else if s.backlog.lagging() && s.rederive(ctx) != nil {
			return
		}
	}
}

// persist shows events to pipelines, and records what passes. The error is that of ctx.
func (s *eventPipeline) persist(ctx context.Context, ts []event.Transition) error {
	began := s.opts.Now()
	made := make([][]history.Delivery, len(ts))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(s.atOnce, len(ts)) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(ts) {
					return
				}
				if !s.reached[ts[i].Partition].Reached(ts[i].At, ts[i].Index) {
					made[i] = s.evaluate(ctx, &ts[i], began)
				}
			}
		})
	}
	if wg.Wait(); ctx.Err() != nil {
		return ctx.Err() // an expression that was stopped says nothing
	}
	var b history.Batch
	for i := range ts {
		t := &ts[i]
		if s.reached[t.Partition].Reached(t.At, t.Index) {
			continue
		}
		s.reached[t.Partition], s.moved[t.Partition] = history.Place{At: t.At, Index: t.Index}, true
		b.Deliveries = append(b.Deliveries, made[i]...)
	}
	s.metrics.seen.Add(float64(len(ts)))
	s.metrics.seeSeconds.Observe(s.opts.Now().Sub(began).Seconds())
	if len(b.Deliveries) == 0 {
		return nil
	}
	b.PipelinePlaces = map[model.Partition]history.Place{}
	for p := range s.moved {
		b.PipelinePlaces[p] = s.reached[p]
	}
	s.r.deliver.bounded(b.Deliveries)
	if err := s.retry(ctx, "history store does not take what passed pipelines", len(b.Deliveries), func() error { return s.opts.Store.Record(ctx, b) }); err != nil {
		return err
	}
	clear(s.moved)
	s.metrics.passed.Add(float64(len(b.Deliveries)))
	s.r.deliver.enqueued(b.Deliveries)
	return nil
}

// evaluate asks the workflows of one event's check, and returns a delivery for each that passes.
func (s *eventPipeline) evaluate(ctx context.Context, t *event.Transition, now time.Time) (list []history.Delivery) {
	chunk := definition(s.opts.Names, t)
	if chunk == nil || t.Observation == nil {
		return nil
	}
	ns, ok := s.opts.Names.NamespaceName(chunk.Namespace)
	if t.Source == model.CheckSource(model.MetricsCheck) { // each of its results says who is to see it
		x, _ := wire.DecodeExtra(t.Observation.Extra)
		of := *chunk
		of.Pipelines, chunk = x.Pipelines, &of
		ns, _, ok = s.opts.Names.NodeName(t.Node)
	}
	if len(chunk.Pipelines) == 0 || !ok {
		return nil
	}
	seen := s.newEvent(t, chunk, now)
	verdicts := s.opts.Pipelines.Judge(ctx, ns, chunk.Pipelines, &seen.Event, now)
	if ctx.Err() != nil {
		return nil
	}
	for i := range verdicts {
		v := &verdicts[i]
		if v.Failed != nil {
			s.metrics.failed.Add(float64(len(v.Failed)))
		}
		if !v.Pass {
			continue
		}
		d, err := seen.delivery(v, now)
		if err != nil {
			s.opts.Logger.Error("an event could not be passed on", "pipeline", v.Name(), "err", err)
			continue
		}
		list = append(list, d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.last) >= maxVerdicts {
		clear(s.last) // those of events that are there come again with their next result
	}
	of, at := eventRef{t.Node, t.Source.Check()}, time.Unix(0, t.Received).UTC()
	if !at.Before(s.last[of].At) { // several are shown at the same time
		s.last[of] = Verdicts{at, verdicts}
	}
	return list
}

// maxVerdicts bounds what is remembered; far more than there are events with pipelines.
const maxVerdicts = 1 << 17

// Verdicts returns the last verdicts of pipelines on an event; not ok: none since the start.
func (r *Reactor) Verdicts(node model.NodeID, check model.CheckID) (v Verdicts, ok bool) {
	if r.pipeline == nil {
		return v, false
	}
	r.pipeline.mu.Lock()
	defer r.pipeline.mu.Unlock()
	v, ok = r.pipeline.last[eventRef{node, check}]
	return v, ok
}

// delivery returns the message of an event to the handler of a workflow.
func (s *pipelineEvent) delivery(v *pipes.Verdict, now time.Time) (history.Delivery, error) {
	body, err := json.Marshal(s.Shape())
	if err != nil {
		return history.Delivery{}, fmt.Errorf("encode an event: %w", err)
	}
	note := s.note()
	note.Event, note.Pipeline, note.Mutator = body, v.Name(), v.Mutator()
	payload, err := note.Encode()
	if err != nil {
		return history.Delivery{}, err
	}
	d := history.Delivery{
		Key:     fmt.Sprintf("%s/%s/%s", s.id, v.Pipeline, v.Workflow.Name),
		Problem: note.Problem, Handler: history.HandlerRef(v.Handler()), Kind: handler.Event, Payload: payload, Created: now,
	}
	if s.shadow {
		d.State, d.Ended = history.Shadow, now
	}
	return d, nil
}
