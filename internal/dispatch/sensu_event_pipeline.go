package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipes"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/wire"
)

// eventPipeline passes the events of checks through the Sensu pipelines that the checks name. It has its own queue,
// goroutine and positions in the journal, so that slow JavaScript delays nothing else. An event that passes a
// workflow becomes a delivery, which one transaction writes together with the positions.
type eventPipeline struct {
	consumer
	r        *Dispatcher
	parallel int // number of evaluations at the same time

	reached map[model.Partition]history.ChangePosition // place of the last evaluated event; owned by the goroutine of run
	moved   map[model.Partition]bool                   // partitions whose place in reached is not recorded yet

	mu   sync.Mutex
	last map[nodeAndCheck]PipelineDecisions
}

// nodeAndCheck is the pair of node and check that identifies an event.
type nodeAndCheck struct {
	node  model.NodeID
	check model.CheckID
}

// PipelineDecisions has the decision of each Sensu pipeline to pass or drop a check's latest event. It also has
// the time of the event's result.
type PipelineDecisions struct {
	At   time.Time // time of the receipt of the event's result
	List []pipes.Decision
}

// pipelineBatch is the most events in one batch: the batch is evaluated, then its deliveries are recorded.
const pipelineBatch = 500

// newEventPipeline returns the consumer that evaluates events by pipelines.
func newEventPipeline(r *Dispatcher) *eventPipeline {
	s := &eventPipeline{r: r, parallel: max(1, runtime.GOMAXPROCS(0)/2), reached: map[model.Partition]history.ChangePosition{}, moved: map[model.Partition]bool{}, last: map[nodeAndCheck]PipelineDecisions{}}
	s.consumer = consumer{opts: &r.opts, metrics: r.metrics, backlog: newTransitionQueue("pipelines", r.opts.Batches.Capacity, r.opts.Queues), batch: pipelineBatch,
		recorder: s, name: "pipelines", replays: r.replays, yields: true}
	return s
}

// load reads the journal positions of the last evaluated events, so that no event is evaluated twice.
func (s *eventPipeline) load(ctx context.Context, shared func(journal.Position) journal.Position) error {
	places, err := s.opts.Store.PipelinePositions(ctx)
	if err != nil {
		return err
	}
	for p, place := range places {
		place = place.Translate(shared)
		s.reached[p], s.backlog.before[p] = place, place
	}
	return nil
}

// run evaluates the pipelines of the events in the queue until ctx ends. Events that still wait then are derived from the
// journal again after the next start.
func (s *eventPipeline) run(ctx context.Context) {
	defer s.start(ctx)()
	for s.backlog.waitForBatch(ctx, 1, false) == nil {
		if _, err := s.processBatch(ctx); err != nil {
			return
		}
	}
}

// sendDueMessages does nothing, because evaluated events need no later work. Pipelines have no due messages to send.
func (s *eventPipeline) sendDueMessages(context.Context) error { return nil }

// persist runs the filters of Sensu pipelines on events, and records a message for each event that passes. A workflow
// consists of filters, a mutator and a handler. It returns only the context's error.
func (s *eventPipeline) persist(ctx context.Context, ts []event.Transition) error {
	began := s.opts.Now()
	made := make([][]history.Delivery, len(ts))
	var evaluations errgroup.Group
	evaluations.SetLimit(s.parallel)
	for i := range ts {
		if ctx.Err() == nil && !s.reached[ts[i].Partition].Includes(ts[i].At, ts[i].Index) {
			evaluations.Go(func() error {
				made[i] = s.evaluate(ctx, &ts[i], began)
				return nil
			})
		}
	}
	if _ = evaluations.Wait(); ctx.Err() != nil {
		return ctx.Err() // an expression that was stopped has no verdict
	}
	var b history.Batch
	for i := range ts {
		t := &ts[i]
		if s.reached[t.Partition].Includes(t.At, t.Index) {
			continue
		}
		s.reached[t.Partition], s.moved[t.Partition] = history.ChangePosition{At: t.At, Index: t.Index}, true
		if s.r.router.mayHaveBeenSent(time.Unix(0, t.Received)) {
			for k := range made[i] {
				made[i][k].State, made[i][k].Ended, made[i][k].LastError = history.Withheld, began, history.ReasonUnknown
			}
		}
		b.Deliveries = append(b.Deliveries, made[i]...)
	}
	s.metrics.pipelineEvents.Add(float64(len(ts)))
	s.metrics.pipelineSeconds.Observe(s.opts.Now().Sub(began).Seconds())
	if len(b.Deliveries) == 0 {
		return nil
	}
	b.PipelinePlaces = map[model.Partition]history.ChangePosition{}
	for p := range s.moved {
		b.PipelinePlaces[p] = s.reached[p]
	}
	s.r.deliver.outbox.prepare(b.Deliveries)
	if err := s.retry(ctx, "cannot store deliveries of pipelines in history", len(b.Deliveries), func() error { return s.opts.Store.Record(ctx, b) }); err != nil {
		return err
	}
	clear(s.moved)
	s.metrics.pipelinePassed.Add(float64(len(b.Deliveries)))
	s.r.send(ctx, b.Deliveries)
	return nil
}

// evaluate evaluates the Sensu pipelines of an event's check, and returns the resulting messages. It returns
// one message for each workflow whose filters pass the event.
func (s *eventPipeline) evaluate(ctx context.Context, t *event.Transition, now time.Time) (list []history.Delivery) {
	definition := definition(s.opts.Names, t)
	if definition == nil || t.Observation == nil {
		return nil
	}
	ns, ok := s.opts.Names.NamespaceName(definition.Namespace)
	switch {
	case t.Registered:
		definition = lifecycleCheck("registration")
		ns, _, ok = s.opts.Names.NodeName(t.Node)
		definition.Pipelines = s.pipelinesOf(ns + "/registration")
	case t.Lifecycle():
		definition = lifecycleCheck("deregistration")
		ns, _, ok = strings.Cut(t.Deregistered.Deregistered, "/")
		definition.Pipelines = s.pipelinesOf(strings.Split(t.Deregistered.Handlers, ",")...)
	}
	if t.Source == model.CheckSource(model.MetricsCheck) { // results without a check name their pipelines themselves
		x, _ := wire.DecodeExtra(t.Observation.Extra)
		of := *definition
		of.Pipelines, definition = x.Pipelines, &of
		ns, _, ok = s.opts.Names.NodeName(t.Node)
	}
	if len(definition.Pipelines) == 0 || !ok {
		return nil
	}
	subject := s.newEvent(t, definition, now)
	end, crashed := s.r.deliver.suspects.start("event " + subject.id)
	defer end()
	subject.Unfiltered = crashed
	verdicts := s.opts.Pipelines.Table.Decide(ctx, ns, definition.Pipelines, &subject.Event, now)
	if ctx.Err() != nil {
		return nil
	}
	for i := range verdicts {
		v := &verdicts[i]
		if v.Failed != nil {
			s.metrics.pipelineFailed.Add(float64(len(v.Failed)))
		}
		if v.Pass && v.Mutator() == model.MutatorOnlyOutput && t.Source.Check() == model.MetricsCheck {
			v.Pass, v.Reason = false, "the event has no check, whose output the mutator "+model.MutatorOnlyOutput+" could pass on"
		}
		if !v.Pass {
			continue
		}
		d, err := subject.delivery(v, now)
		if err != nil {
			s.opts.Logger.Error("cannot pass an event to its pipelines", "pipeline", v.Name(), "err", err)
			continue
		}
		if crashed != nil && d.State == "" {
			d.State, d.Ended, d.LastError = history.Dead, now, v.Reason
		}
		list = append(list, d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.last) >= maxVerdicts {
		clear(s.last) // the next result of each event brings new verdicts
	}
	of, at := nodeAndCheck{t.Node, t.Source.Check()}, time.Unix(0, t.Received).UTC()
	if !at.Before(s.last[of].At) { // several evaluations of one event may run at the same time
		s.last[of] = PipelineDecisions{at, verdicts}
	}
	return list
}

// lifecycleCheck returns the placeholder check for Sensu's event about a node's registration or deregistration.
func lifecycleCheck(name string) *model.CheckDefinition {
	return &model.CheckDefinition{Definition: model.Definition{Name: name}, Interval: time.Second}
}

// pipelinesOf returns, for each handler that expects events in Sensu's form, the existing pipeline made for the
// handler. Each handler is written NAMESPACE/NAME.
func (s *eventPipeline) pipelinesOf(handlers ...string) (list []string) {
	for _, ref := range handlers {
		ns, name, _ := strings.Cut(ref, "/")
		if s.opts.Pipelines.Table.HasPipeline(route.Name{Namespace: ns, Name: model.SensuPipeline(name)}) {
			list = append(list, ns+"/"+model.SensuPipeline(name))
		}
	}
	return list
}

// maxVerdicts is the most events whose verdicts are kept, more than a fleet has events with pipelines.
const maxVerdicts = 1 << 17

// PipelineDecisions returns whether each Sensu pipeline passed or dropped the last event of a check. If the server has
// made none since its start, ok is false.
func (r *Dispatcher) PipelineDecisions(node model.NodeID, check model.CheckID) (v PipelineDecisions, ok bool) {
	if r.pipeline == nil {
		return v, false
	}
	r.pipeline.mu.Lock()
	defer r.pipeline.mu.Unlock()
	v, ok = r.pipeline.last[nodeAndCheck{node, check}]
	return v, ok
}

// delivery returns the outbox message by which a pipeline's workflow sends the event to its handler. It is a
// row of the outbox, the table of messages to send.
func (s *pipelineEvent) delivery(v *pipes.Decision, now time.Time) (history.Delivery, error) {
	body, err := json.Marshal(s.sensu())
	if err != nil {
		return history.Delivery{}, fmt.Errorf("encode an event for Sensu's pipelines: %w", err)
	}
	note := s.notification()
	note.Event, note.Pipeline, note.Mutator = body, v.Name(), v.Mutator()
	payload, err := note.Encode()
	if err != nil {
		return history.Delivery{}, err
	}
	d := history.Delivery{
		Key:     fmt.Sprintf("%s/%s/%s", s.id, v.Pipeline, v.Workflow.Name),
		Problem: note.Problem, NodeID: s.event.NodeID, Namespace: s.event.Namespace, Node: s.event.Node, Handler: history.HandlerRef(v.Handler()), Kind: handler.Event, Payload: payload, Created: now,
	}
	if s.shadow {
		d.State, d.Ended = history.Shadow, now
	}
	return d, nil
}

// pipelineEvent is an event after one check result, in the form for filters and mutators of Sensu pipelines.
type pipelineEvent struct {
	pipes.Event
	names  Names
	event  model.Event
	sensu  func() map[string]any // the event in Sensu's form, as handlers get it
	id     string                // id of the event after this result; a replay gives the same id
	labels map[string]string
	shadow bool
}

// newEvent converts an event change to the form that Sensu pipelines read. Its node and check get their present
// names.
func (s *eventPipeline) newEvent(t *event.Transition, definition *model.CheckDefinition, now time.Time) *pipelineEvent {
	st := &t.Observation.State
	namespace, node, check := namesOf(s.opts.Names, t)
	of := t.Source.Check()
	if t.Lifecycle() {
		check, of = definition.Name, 0
	}
	if t.Deregistered != nil {
		namespace, node, _ = strings.Cut(t.Deregistered.Deregistered, "/")
	}
	x, _ := wire.DecodeExtra(t.Observation.Extra) // the session validated the encoded bytes; malformed ones count as empty
	output := st.Output
	if x.Sensu != nil {
		output = x.Sensu.AgentOutput(output)
	}
	out := &pipelineEvent{
		names: s.opts.Names, id: uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "muster:%d/%d/%d/%d", t.At.Log, t.At.Number, t.Partition, t.Index)).String(),
		labels: s.opts.Names.NodeLabels(t.Node), shadow: s.opts.Routing.Shadow != nil && s.opts.Routing.Shadow(namespace),
	}
	out.event = model.Event{
		Namespace: namespace, Node: node, NodeID: t.Node, Check: check, CheckID: of, Status: st.Status, Severity: st.Severity, Output: output,
		Executed: time.Unix(0, st.Executed).UTC(), Received: time.Unix(0, st.Received).UTC(), Duration: model.Duration(st.Duration), History: event.Statuses[model.Status](&st.StatusHistory),
		Occurrences: st.Occurrences, Watermark: st.Watermark, State: "passing", Change: st.Change, Expired: st.Expired, Problem: st.Problem,
		Hooks: x.Hooks, Values: x.Values,
	}
	switch {
	case st.Flapping:
		out.event.State = "flapping"
	case t.Status != model.OK: // the last event of a deregistered node keeps its state, as in Sensu
		out.event.State = "failing"
	}
	if st.LastOK != 0 {
		out.event.LastOK = time.Unix(0, st.LastOK).UTC()
	}
	if st.Changed != 0 {
		out.event.Changed = time.Unix(0, st.Changed).UTC()
	}
	h := out.event.History
	out.Incident = st.Status != model.OK
	out.Resolution = len(h) > 1 && h[len(h)-2] != model.OK && !out.Incident
	out.Metrics = len(x.Values) > 0
	silenced := sync.OnceValue(func() []string { return s.silenced(t, out.Resolution, now) })
	out.Silenced = func() bool { return len(silenced()) > 0 }
	subject := sync.OnceValue(func() *filter.ConversionInput {
		of := s.newSensuParts(t, definition, &x)
		of.Event, of.ID, of.Silenced = &out.event, out.id, silenced()
		return of
	})
	out.sensu = sync.OnceValue(func() map[string]any { return filter.SensuEvent(subject()) })
	out.Shape = sync.OnceValue(func() map[string]any { return filter.ForExpressions(subject(), out.sensu()) })
	return out
}

// newSensuParts collects the node, check and result of an event, as input for conversion to Sensu's JSON. These
// are its entity, its check, and the run of the check.
func (s *eventPipeline) newSensuParts(t *event.Transition, definition *model.CheckDefinition, x *wire.Extra) *filter.ConversionInput {
	of := &filter.ConversionInput{
		Entity: filter.Entity{Labels: map[string]string{}, Groups: s.opts.Names.NodeGroups(t.Node)}, Check: filter.Check{CheckDefinition: definition},
		Lifecycle: t.Lifecycle(), Sequence: t.Observation.Results, FlappingBegan: t.Observation.FlappingBegan, FlappingEnded: t.Observation.FlappingEnded,
	}
	var kept directory.FilterContext
	if s.opts.Pipelines.FilterContext != nil {
		kept = s.opts.Pipelines.FilterContext(t.Node, cmp.Or(t.Observation.RanBy, t.Node), t.Source.Check())
	}
	if n := kept.Node; n != nil {
		of.Entity = filter.Entity{
			Reported: n.Entity, Name: n.SensuName(), Labels: n.LabelsWithoutFacts(), Annotations: n.Annotations, Groups: of.Entity.Groups, Facts: n.Facts.Map(), Proxy: n.Proxy,
		}
	}
	if t.Deregistered != nil {
		of.Entity = filter.Entity{Labels: map[string]string{}, Reported: []byte(t.Deregistered.Entity)}
	}
	if u := kept.Check; u != nil {
		of.Check.Labels, of.Check.Annotations, of.Check.Groups, of.Check.Passive = u.Labels, u.Annotations, kept.Groups, u.Passive
		if model.CleanName(u.DisplayName) == u.Name.Name {
			of.Check.DisplayName = u.DisplayName
		}
	}
	if kept.Runner != nil && !of.Lifecycle {
		of.ProcessedBy, of.Runner = cmp.Or(kept.Runner.SensuName(), kept.Runner.Name.Name), kept.Runner.Entity
	}
	for _, run := range t.Observation.Runs {
		of.Runs = append(of.Runs, filter.Run{Executed: run.Executed, Status: run.ExitCode})
	}
	if run := x.Sensu; run != nil {
		of.Sequence = run.Sequence
		if run.Issued > 0 {
			of.Issued = time.Unix(int64(run.Issued), 0)
		}
	}
	return of
}

// silenced returns the names of the silences and maintenance windows that suppress messages about the event
// now. A silence with untilResolved does not hold the resolution, which ends the silence, as in Sensu.
func (s *eventPipeline) silenced(t *event.Transition, resolution bool, now time.Time) (names []string) {
	m := route.NewProblem(s.opts.Names, t.Node, t.Source, t.Status, t.Severity, nil)
	for _, h := range s.opts.Routing.Table.Holds(m, nil, now) {
		if !resolution || !h.UntilResolved {
			names = append(names, h.By.Name)
		}
	}
	return names
}

// notification returns the event in the form of a notification, for handlers such as mail that notify people.
func (s *pipelineEvent) notification() *handler.Notification {
	e := &s.event
	n := &handler.Notification{
		Kind: handler.Opened, Problem: eventKey(e.NodeID, e.CheckID), Node: e.Node, Labels: s.labels, Space: e.Namespace,
		Status: e.Status.String(), Worst: e.Status.String(), Severity: e.Severity.String(), Output: e.Output, Opened: e.Changed, Executed: e.Executed,
		Expired: e.Expired, Hooks: e.Hooks,
	}
	n.SetSource(model.CheckSource(e.CheckID), e.Check)
	addCheckTexts(n, s.names, n.Source.Source)
	if e.Problem != nil {
		n.Opened, n.Worst, n.Severity = e.Problem.Opened.UTC(), e.Problem.Status.String(), e.Problem.Severity.String()
	}
	if e.Status == model.OK {
		n.Kind, n.Closed = handler.Closed, e.Received
	}
	return n
}

// eventKey returns a text that identifies the event of a node and check. Messages of pipelines have the text in place
// of a problem id. By this id they stay in order, and services keep one alert per event.
func eventKey(node model.NodeID, check model.CheckID) string {
	return fmt.Sprintf("event-%d-%d", node, check)
}

// nodeOfEventKey returns the node in a key that eventKey has made from a node and a check.
func nodeOfEventKey(key string) (node model.NodeID, ok bool) {
	var check uint32
	_, err := fmt.Sscanf(key, "event-%d-%d", &node, &check)
	return node, err == nil
}
