// Package events answers about events: list, watch, actions on one and on many. The package
// also converts event states to events of the API (ShowEvent), and parameters to event queries (BuildQuery).
//
// Goroutines: those of watches and of bulk actions, which end with their request. One lock: skippedEvents.mu.
//
// Start reading at Register.
package events

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/notification"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/wire"
)

// registerEvents registers the API operations on single events and on the list of events
func registerEvents(at eventOperations) {
	const one = "/api/v1/events/{namespace}/{node}/{check}"
	op.Handle(at, op.Get("listEvents", "/api/v1/events", "events", "List events, worst first", model.NotFound), access.NeedOn(access.Read, "event"), (*eventRequest).listEvents)
	registerWatch(at)
	op.Handle(at, op.Get("getEvent", one, "events", "Get one"), access.NeedOn(access.Read, "event"), (*eventRequest).getEvent)
	op.Handle(at, op.Post("resolveEvent", one+"/resolve", "events", "Resolve an event: OK until its next result"), access.NeedOn(access.Operate, "event"), (*eventRequest).resolveEvent)
	op.Handle(at, op.Post("acknowledgeEvent", one+"/acknowledge", "events", "Acknowledge the open problem of an event"), access.NeedOn(access.Operate, "event"), (*eventRequest).acknowledgeEvent)
	op.Handle(at, op.Post("unacknowledgeEvent", one+"/unacknowledge", "events", "Remove the acknowledgement of an open problem"), access.NeedOn(access.Operate, "event"), (*eventRequest).unacknowledgeEvent)
	op.Handle(at, op.Delete("deleteEvent", one, "events", "Delete an event; the next result creates it again"), access.NeedOn(access.Change, "event"), (*eventRequest).deleteEvent)
}

// listEventsInput has the filter, the limit and the page token of a list of events.
type listEventsInput struct {
	Filter
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After string `query:"after" maxLength:"1024" doc:"The field next of the page before."`
}

// listEvents returns a page of the events that match a filter, worst first.
func (s *eventRequest) listEvents(ctx context.Context, in *listEventsInput) (*op.Body[v1.EventList], error) {
	q, err := BuildQuery(ctx, s.View, &in.Filter)
	if err != nil {
		return nil, err
	}
	q.Limit, q.After = in.Limit, in.After
	page, err := s.Events.List(ctx, q)
	if err != nil {
		return nil, err
	}
	out := v1.EventList{Items: ShowEvents(s.View, page.States), Next: page.Next, Partial: page.Partial}
	counts, err := s.CountEvents(ctx, in.Namespace)
	if err != nil {
		return nil, err
	}
	out.Total, out.Wrong = counts.States, counts.NotOK()
	if in.After == "" && in.Namespace != "" {
		out.OtherNamespaces = CountEventsByNamespace(s.View, in.Namespace)
	}
	switch {
	case in.After == "" && page.Next == "":
		out.Match = uint64(len(page.States))
	case in.Node != "" || in.Check != "" || in.Group != "" || in.Selector != "" || in.Where != "" || in.Problem && len(q.Statuses) > 0:
		// The number of matching events is left out: counting would need a second search.
	case in.Problem:
		out.Match = counts.Problems
	case len(q.Statuses) > 0:
		slices.Sort(q.Statuses)
		for _, status := range slices.Compact(q.Statuses) {
			out.Match += counts.ByStatus[status&3]
		}
	default:
		out.Match = counts.States
	}
	return op.Answer(out), nil
}

// getEvent returns one event, with any errors of the pipelines that processed its last result.
func (s *eventRequest) getEvent(ctx context.Context, in *Path) (*op.Body[v1.Event], error) {
	st, err := FindEvent(ctx, s.View, *in)
	if err != nil {
		return nil, err
	}
	e := ShowEvent(s.View, &st)
	e.Notes, e.Definition = listPipelineErrors(s.View, st.Node, st.Check), s.View.Definition(st.Source())
	return op.Answer(e), nil
}

// resolveEvent sets the status of an event to OK at a person's request.
func (s *eventRequest) resolveEvent(ctx context.Context, in *struct {
	Path
	Body v1.Action
}) (*op.NoParameters, error) {
	st, err := FindEvent(ctx, s.View, in.Path)
	if err != nil {
		return nil, err
	}
	return nil, s.recordAction(ctx, &st, wire.Action{Verb: "resolve", Note: in.Body.Note})
}

// acknowledgeEvent acknowledges the open problem of an event, optionally with an end time.
func (s *eventRequest) acknowledgeEvent(ctx context.Context, in *struct {
	Path
	Body v1.Acknowledgement
}) (*op.NoParameters, error) {
	st, err := s.findFailingEvent(ctx, in.Path)
	if err != nil {
		return nil, err
	}
	action := wire.Action{Verb: "acknowledge", Note: in.Body.Note}
	if until := in.Body.Until; !until.IsZero() {
		if !until.After(s.Now()) {
			return nil, model.Errorf(model.Invalid, "invalid end time: until %s is in the past", until.Format(time.RFC3339))
		}
		action.Until = uint64(until.UnixMilli())
	}
	if err := s.recordAction(ctx, &st, action); err != nil {
		return nil, err
	}
	if !s.isAcknowledged(st.Node, st.Source(), "") {
		return nil, model.Errorf(model.Conflict, "the problem of event %s/%s is not acknowledged: %s", in.Node, in.Check, closedConcurrentlyReason).WithHint("muster get event %s/%s", in.Node, in.Check)
	}
	return nil, nil
}

// closedConcurrentlyReason is the reason where a result closed the problem while the acknowledgement was
// written, before or after it: an acknowledgement ends with its problem.
const closedConcurrentlyReason = "the problem closed at the same time"

// isAcknowledged reports whether somebody has acknowledged the open problem of an event. Where problem is not empty,
// the open problem must have this id.
func (s *eventRequest) isAcknowledged(node model.NodeID, source model.Source, problem string) bool {
	st, ok := s.Events.Get(node, source)
	return ok && st.Problem != nil && st.Problem.Ack != nil && (problem == "" || problem == st.Problem.ID)
}

// unacknowledgeEvent removes the acknowledgement of an event's problem.
func (s *eventRequest) unacknowledgeEvent(ctx context.Context, in *struct {
	Path
	Body v1.Action
}) (*op.NoParameters, error) {
	st, err := s.findFailingEvent(ctx, in.Path)
	if err != nil {
		return nil, err
	}
	if st.Problem.Ack == nil {
		return nil, model.Errorf(model.Conflict, "the problem of event %s/%s is not acknowledged", in.Node, in.Check)
	}
	return nil, s.recordAction(ctx, &st, wire.Action{Verb: "unacknowledge", Note: in.Body.Note})
}

// findFailingEvent returns the requested event, or an error if the event has no open problem. An event without
// an open problem is an error.
func (s *eventRequest) findFailingEvent(ctx context.Context, in Path) (event.State, error) {
	st, err := FindEvent(ctx, s.View, in)
	if err == nil && st.Problem == nil {
		err = model.Errorf(model.Conflict, "event %s/%s has status %s and no open problem", in.Node, in.Check, st.Status)
	}
	return st, err
}

// deleteEvent deletes an event.
func (s *eventRequest) deleteEvent(ctx context.Context, in *struct {
	Path
	Note string `query:"note" maxLength:"1000"`
}) (*op.NoParameters, error) {
	st, err := FindEvent(ctx, s.View, in.Path)
	if err != nil {
		return nil, err
	}
	return nil, s.recordAction(ctx, &st, wire.Action{Verb: "delete", Note: in.Note})
}

// recordAction writes the caller's action on an event to the journal, and waits until the action is durable.
func (s *eventRequest) recordAction(ctx context.Context, st *event.State, a wire.Action) error {
	a.Check, a.Instance, a.By = st.Check, st.Instance, access.CallerOf(ctx).User
	return s.Actions.Act(ctx, st.Node, a)
}

// Actions writes people's actions on events, such as acknowledgements, to the journal. Act returns once the action is
// durable and applied to the event view.
type Actions interface {
	Act(ctx context.Context, node model.NodeID, action wire.Action) error
}

// Options has the parts of the server that the operations on events use.
type Options struct {
	Actions Actions
}

// eventRequest handles an HTTP request about events. Its methods are the operations of the API.
type eventRequest struct {
	op.Request
	Options
	watches     *op.Quota[string] // shares of watches, by user
	matches     *op.Quota[string] // evaluations of conditions of watches, by user
	openWatches prometheus.Gauge  // watches
}

// eventOperations is the set of operations about events.
type eventOperations = op.OperationSet[*eventRequest]

// Register adds the API operations about events to the server.
func Register(r *op.Routes, o Options) {
	watches, open := op.NewUserQuota(r.Queues, "watches"), prometheus.NewGauge(prometheus.GaugeOpts{Name: "muster_api_watches", Help: "Number of open watches."})
	r.Metrics.Register(open)
	matches := op.NewQuota[string](1, 0)
	at := op.NewOperationSet(r, func(q op.Request) *eventRequest { return &eventRequest{q, o, watches, matches, open} })
	registerEvents(at)
	registerBulk(at)
}

// ShowEvents converts in-memory events to the API type Event
func ShowEvents(v *view.View, states []event.State) []v1.Event {
	out := make([]v1.Event, len(states))
	for i := range states {
		out[i] = ShowEvent(v, &states[i])
	}
	return out
}

// ShowEvent converts an in-memory event to the API type Event, with names in place of ids
func ShowEvent(v *view.View, st *event.State) v1.Event {
	e := v1.Event{History: unpackStatusHistory(st), Names: v1.NamesOf(st.Status, st.Severity), Event: model.Event{
		NodeID: st.Node, CheckID: st.Check, Status: st.Status, Severity: st.Severity, Output: st.Output,
		Executed: view.TimeOfNanoseconds(st.Executed), Received: view.TimeOfNanoseconds(st.Received), Duration: model.Duration(st.Duration),
		Occurrences: st.Occurrences, Watermark: st.Watermark, State: sensuStateWord(st), Change: st.Change, LastOK: view.TimeOfNanoseconds(st.LastOK), Changed: view.TimeOfNanoseconds(st.Changed),
		StateChanges: st.StateChanges, Results: st.Results, Lost: st.Lost, Stream: model.StreamID(st.Stream), Number: st.Number, Order: st.Order,
		Expired: st.Expired, Hooks: st.Extra.Hooks, Values: st.Extra.Values,
	}}
	name := ShowEventNames(v, st)
	e.Namespace, e.Node, e.Check = name.Namespace, name.Node, name.Check
	if st.RanBy != 0 {
		e.RanBy = v.RelativeName(e.Namespace, st.RanBy)
	}
	if st.Problem != nil {
		_, source, _ := v.Directory.SourceName(st.Source())
		e.Problem = ShowProblem(v, *st.Problem, source)
	}
	return e
}

// ShowEventNames returns an API event that has only namespace, node name and check name, and no state.
func ShowEventNames(v *view.View, st *event.State) (e v1.Event) {
	var ok bool
	if e.Namespace, e.Node, ok = v.Directory.NodeName(st.Node); !ok { // the node is being deleted
		e.Node = "#" + strconv.FormatUint(uint64(st.Node), 10)
		e.Namespace, _ = v.Directory.NamespaceName(st.Namespace)
	}
	e.Check = v.SourceTitle(st.Source())
	return e
}

// sensuStateWord returns Sensu's word for the state of an event, such as passing, failing or flapping.
func sensuStateWord(st *event.State) string {
	switch {
	case st.Flapping:
		return "flapping"
	case st.Status != model.OK:
		return "failing"
	}
	return "passing"
}

// ShowProblem converts an open problem to the API type OpenProblem. source is the name of the problem source.
func ShowProblem(v *view.View, p model.Problem, source string) *v1.OpenProblem {
	return &v1.OpenProblem{Problem: p, Names: v1.NamesOf(p.Status, p.Severity), Source: ShowSource(p.Source, source), Holds: notification.ActiveHolds(v, &p)}
}

// unpackStatusHistory decodes the last statuses of an event, oldest first. They are packed into the bits of a number.
func unpackStatusHistory(st *event.State) []int {
	n := min(int(st.HistoryLen), model.HistoryDepth)
	out := make([]int, n)
	for i := range n {
		out[n-1-i] = int(st.History >> (2 * i) & 3)
	}
	return out
}

// listPipelineErrors returns the errors of pipeline filter expressions for the last result of an event.
func listPipelineErrors(v *view.View, node model.NodeID, check model.CheckID) (notes []string) {
	verdicts, _ := v.Verdicts(node, check)
	for i := range verdicts.List {
		one := &verdicts.List[i]
		for _, failed := range one.Failed {
			notes = append(notes, fmt.Sprintf("pipeline %s, %s", one.Name(), failed))
		}
	}
	return notes
}

// ShowSourceByID converts the source of a problem to the API type Source, and looks up its name.
func ShowSourceByID(v *view.View, s model.Source) v1.Source {
	_, name, _ := v.Directory.SourceName(s)
	return ShowSource(s, name)
}

// ShowSource converts a problem's source (a check or trigger) with a given name to the API type Source.
func ShowSource(s model.Source, name string) v1.Source {
	return v1.Source{Kind: s.Kind.String(), Name: name, ID: s.ID, Instance: s.Instance}
}
