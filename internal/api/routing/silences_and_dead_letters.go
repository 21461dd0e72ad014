// Package routing answers about the way from a problem to people: handlers (test, dead letters,
// replay), deliveries of a problem, silences, and the route test.
//
// Start reading at Register.
package routing

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/notification"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/dispatch"
	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

const silencesPath = "/api/v1/silences"

// postSilence creates a silence, and returns how many nodes and problems the silence covers. Operators may create
// silences, though they may not apply other resources.
func (s *routingRequest) postSilence(ctx context.Context, in *struct{ Body v1.SilenceRequest }) (*op.Body[v1.Silenced], error) {
	b := &in.Body
	decoded, err := s.Kinds.DecodeSpec("Silence", b.Spec)
	if err != nil {
		return nil, err
	}
	spec := decoded.(*model.SilenceSpec)
	if err := s.RequireNamespace(ctx, b.Namespace); err != nil {
		return nil, err
	}
	if !spec.Until.IsZero() && !spec.Until.After(s.Now()) {
		return nil, model.Errorf(model.Invalid, "invalid end of the silence: until %s is in the past", spec.Until.UTC().Format("2006-01-02 15:04 MST")).WithHint("the end of a silence must be in the future")
	}
	nodes, all, first, err := notification.CountMatchingNodes(s.View, b.Namespace, &spec.Selector)
	if err != nil {
		return nil, err
	}
	if most := cmp.Or(b.MaxAffected, max(50, all/5)); nodes > most && !b.Yes && !b.DryRun {
		return nil, model.Errorf(model.Guarded, "the silence would cover %d nodes (%s); more than %d need --yes", nodes, firstNodesText(first, nodes), most).
			WithHint("list the nodes: --dry-run; then repeat the command with --yes or --max-affected %d", nodes)
	}
	holds, err := s.countCoveredProblems(ctx, b.Namespace, &spec.Selector)
	if err != nil {
		return nil, err
	}
	name, err := s.createSilence(ctx, b, spec)
	if !b.DryRun {
		s.InForce(ctx)
	}
	return op.Answer(v1.Silenced{Namespace: b.Namespace, Name: name, Nodes: nodes, First: first, Holds: holds, Until: spec.Until.Time, DryRun: b.DryRun}), err
}

// firstNodesText formats the first few names of nodes, and the number of the other nodes, for a message. An
// example is "web01, web02 and 5 more".
func firstNodesText(first []string, all int) string {
	text := strings.Join(first, ", ")
	if more := all - len(first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// maxSilencesOfOneName is the greatest number of silences whose generated names differ only in a number: names
// contain the second.
const maxSilencesOfOneName = 100

// createSilence creates a silence under the requested name, or under a generated unused one.
func (s *routingRequest) createSilence(ctx context.Context, b *v1.SilenceRequest, spec *model.SilenceSpec) (string, error) {
	made := silenceNamePrefix(spec) + "-" + s.Now().UTC().Format("20060102-150405")
	for i := 1; ; i++ {
		name := cmp.Or(b.Name, made)
		if i > 1 {
			name = fmt.Sprintf("%s-%d", name, i)
		}
		key := intent.Key{Kind: "Silence", Namespace: b.Namespace, Name: name}
		_, err := s.Intent.Apply(ctx, access.AuthorOf(ctx, spec.Reason), []model.Resource{{Kind: "Silence", Metadata: model.Metadata{Namespace: b.Namespace, Name: name}, Spec: spec}},
			intent.ApplyOptions{DryRun: b.DryRun, Yes: true, Expect: map[intent.Key]int64{key: 0}})
		switch {
		case err == nil:
			return name, nil
		case model.ClassOf(err) != model.Stale && model.ClassOf(err) != model.Conflict:
			return "", err
		case b.Name != "":
			return "", model.Errorf(model.Conflict, "silence %s already exists", name).WithHint("see the silence: muster describe silence %s; without a name, the new silence gets a generated name", name)
		case i == maxSilencesOfOneName:
			return "", err
		}
	}
}

// silenceNamePrefix returns the start of a generated silence name, such as the name of the only matching node.
func silenceNamePrefix(spec *model.SilenceSpec) string {
	var parts []string
	if t := spec.Targets; t != nil && len(t.Nodes)+len(t.Groups) == 1 {
		parts = append(append(parts, t.Nodes...), t.Groups...)
	}
	if len(spec.Checks) == 1 {
		parts = append(parts, spec.Checks[0])
	}
	name := model.CleanName(strings.Join(parts, "-"))
	return cmp.Or(name[:min(len(name), 200)], "silence")
}

// countCoveredProblems counts the open problems that the selector of a new silence matches.
func (s *routingRequest) countCoveredProblems(ctx context.Context, namespace string, selector *model.Selector) (n int, err error) {
	picks, err := route.MatchFunc(namespace, selector)
	if err != nil {
		return 0, err
	}
	err = notification.EachProblem(ctx, s.View, func(m *route.Problem) {
		if picks(m) {
			n++
		}
	})
	return n, err
}

// endSilence ends a silence now, before its planned end.
func (s *routingRequest) endSilence(ctx context.Context, in *struct {
	op.NamedPath
	Body v1.Action
}) (*op.Body[v1.Silenced], error) {
	key := intent.Key{Kind: "Silence", Namespace: in.Namespace, Name: in.Name}
	r, err := s.Intent.Get(ctx, key)
	if err != nil {
		return nil, s.ExplainNotFound(ctx, err, key)
	}
	held := notification.NewHoldCounter(s.View)
	out := v1.Silenced{Namespace: in.Namespace, Name: in.Name}
	if spec, ok := r.Spec.(*model.SilenceSpec); ok && notification.SilenceActive(spec, s.Now()) {
		out.Holds = held.Count(route.Name{Namespace: in.Namespace, Name: in.Name})
	}
	if _, err := s.Intent.Delete(ctx, access.AuthorOf(ctx, cmp.Or(in.Body.Note, "ended")), []intent.Key{key}, intent.ApplyOptions{Yes: true}); err != nil {
		return nil, s.ExplainNotFound(ctx, err, key)
	}
	s.InForce(ctx)
	return op.Answer(out), nil
}

// Handlers sends test notifications, notifications about older open problems, and failed notifications (dead
// letters) once more. Type *dispatch.Dispatcher implements it.
type Handlers interface {
	SendTestMessage(ctx context.Context, handler history.HandlerRef, spec *model.HandlerSpec, by string, node model.NodeID) (dispatch.HandlerTest, error)
	NotifyOpen(ctx context.Context, problem, by string) (taken []dispatch.AffectedProblems, late bool)
	ReplayDeadLetters(ctx context.Context, handler history.HandlerRef, q history.ReplayQuery) (history.ReplayCounts, error)
}

// Options has the parts of the server that the operations on handlers, silences and routes use.
type Options struct {
	Handlers Handlers
	// InForce waits until the server uses all stored resources, so that an answer about a silence describes what comes
	// after it.
	InForce func(context.Context)
}

// routingRequest handles an HTTP request about handlers, deliveries, silences or route tests. Its methods are the
// operations of the API.
type routingRequest struct {
	op.Request
	Options
}

// Register adds the API operations about handlers, deliveries, silences and route tests to the server.
func Register(r *op.Routes, o Options) {
	at := op.NewOperationSet(r, func(q op.Request) *routingRequest { return &routingRequest{q, o} })
	op.Handle(at, op.Get("listDeliveries", "/api/v1/problems/{id}/deliveries", "problems", "List the notifications of a problem"), access.NeedOn(access.Read, "problem"), (*routingRequest).listDeliveries)
	const one = "/api/v1/handlers/{namespace}/{name}"
	op.Handle(at, op.Post("testHandler", one+"/test", "handlers", "Send a test message now; returns request and answer", model.NotFound), access.NeedOn(access.Operate, "Handler"), (*routingRequest).testHandler)
	op.Handle(at, op.Get("listDeadLetters", one+"/dead", "handlers", "List dead letters, newest first", model.NotFound), access.NeedOn(access.Read, "Handler"), (*routingRequest).listDeadLetters)
	op.Handle(at, op.Post("replayHandler", one+"/replay", "handlers", "Send dead letters again", model.NotFound, model.Limited), access.NeedOn(access.Operate, "Handler"), (*routingRequest).replayDeadLetters)
	op.Handle(at, op.AddChangeErrors(op.Post("silence", silencesPath, "silences", "Silence the notifications of some problems for a time", model.NotFound)), access.NeedOn(access.Operate, "Silence"), (*routingRequest).postSilence)
	op.Handle(at, op.AddChangeErrors(op.Post("endSilence", silencesPath+"/{namespace}/{name}/end", "silences", "End a silence; open problems that it holds are sent", model.NotFound)), access.NeedOn(access.Operate, "Silence"), (*routingRequest).endSilence)
	op.Handle(at, op.Post("notifyEvent", "/api/v1/events/{namespace}/{node}/{check}/notify", "events",
		"Notify the handlers of an open problem that its routes name and that were not notified"), access.NeedOn(access.Operate, "event"), (*routingRequest).notifyEvent)
	op.Handle(at, op.Get("testRoute", "/api/v1/routetest/{namespace}/{node}/{check}", "routes", "Predict the notifications of a problem: handlers, times and holds"), access.NeedOn(access.Read, "Route"), (*routingRequest).predictRoutes)
}

// declaredHandler returns the handler with the given name. A deleted handler with dead letters has a nil spec.
func (s *routingRequest) declaredHandler(ctx context.Context, in op.NamedPath) (history.HandlerRef, *model.HandlerSpec, error) {
	key := intent.Key{Kind: "Handler", Namespace: in.Namespace, Name: in.Name}
	r, err := s.Intent.Get(ctx, key)
	if err != nil {
		return history.HandlerRef{}, nil, s.ExplainNotFound(ctx, err, key)
	}
	return history.HandlerRef{Namespace: in.Namespace, Name: in.Name}, r.Spec.(*model.HandlerSpec), nil
}

// testHandler sends a test notification to one handler.
func (s *routingRequest) testHandler(ctx context.Context, in *struct {
	op.NamedPath
	Body v1.HandlerTest
}) (*op.Body[v1.HandlerTestResult], error) {
	ref, spec, err := s.declaredHandler(ctx, in.NamedPath)
	if err != nil {
		return nil, err
	}
	var node model.NodeID
	if in.Body.Node != "" {
		namespace, name := model.SplitRef(in.Namespace, in.Body.Node)
		var ok bool
		if node, ok = s.Directory.NodeByName(namespace, name); !ok {
			return nil, s.NodeNotFoundError(ctx, namespace, name)
		}
	}
	if err := s.RecordAction(ctx, fmt.Sprintf("a test of handler %s/%s", ref.Namespace, ref.Name)); err != nil {
		return nil, err
	}
	t, err := s.Handlers.SendTestMessage(ctx, ref, spec, access.CallerOf(ctx).User, node)
	if err != nil {
		return nil, err
	}
	out := v1.HandlerTestResult{Outcome: "taken", Sent: t.Sent, Answer: t.Answer, Seconds: t.Duration.Seconds()}
	if t.Err != nil {
		out.Outcome, out.Error = "retried", t.Err.Error()
		if t.Final {
			out.Outcome = "final"
		}
	}
	return op.Answer(out), nil
}

// listDeadLetters returns a page of a handler's dead letters (notifications that were given up)
func (s *routingRequest) listDeadLetters(ctx context.Context, in *struct {
	op.NamedPath
	list.Where
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After string `query:"after" maxLength:"1024" doc:"The field next of the page before."`
}) (*op.Body[v1.DeliveryList], error) {
	filter, err := list.NewRowFilter(ctx, s.View, in.Where)
	if err != nil {
		return nil, err
	}
	found := false
	items, next, err := list.ReadPage(s.View, list.PagedRows[history.Delivery]{
		Limit: in.Limit, After: in.After, Filter: filter,
		Read: func(behind list.Cursor, size int) ([]history.Delivery, error) {
			dead, err := s.History.DeadLetters(ctx, history.HandlerRef{Namespace: in.Namespace, Name: in.Name}, behind.Number, size)
			found = found || len(dead) > 0
			return dead, err
		},
		Cursor: func(d *history.Delivery) list.Cursor { return list.Cursor{Number: d.ID} },
	}, func(d *history.Delivery) (model.NodeID, v1.Delivery) {
		one := showDelivery(d)
		if n, err := handler.Decode(d.Payload); err == nil {
			one.Summary = n.Summary
		}
		return 0, one
	})
	if err == nil && !found {
		_, _, err = s.declaredHandler(ctx, in.NamedPath)
	}
	return op.Answer(v1.DeliveryList{Items: items, Next: next}), err
}

// replayDeadLetters sends a handler's dead letters (notifications that were given up) again
func (s *routingRequest) replayDeadLetters(ctx context.Context, in *struct {
	op.NamedPath
	Body v1.HandlerReplay
}) (*op.Body[v1.HandlerReplayed], error) {
	ref, _, err := s.declaredHandler(ctx, in.NamedPath)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("a replay of dead letters of handler %s/%s", ref.Namespace, ref.Name)
	if in.Body.Message != "" {
		what += ": " + in.Body.Message
	}
	if err := s.RecordAction(ctx, what); err != nil {
		return nil, err
	}
	done, err := s.Handlers.ReplayDeadLetters(ctx, ref, history.ReplayQuery{IDs: in.Body.IDs, Ended: in.Body.Ended, Limit: cmp.Or(in.Body.Limit, 1000)})
	return op.Answer(v1.HandlerReplayed{Sent: done.Revived, SkippedClosed: done.SkippedClosed, More: done.More}), err
}

// listDeliveries returns the deliveries (notifications to single handlers) about a problem
func (s *routingRequest) listDeliveries(ctx context.Context, in *struct {
	ID string `path:"id" maxLength:"253"`
	list.Where
}) (*op.Body[v1.DeliveryList], error) {
	deliveries, err := s.History.Deliveries(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	items := make([]v1.Delivery, len(deliveries))
	for i := range deliveries {
		items[i] = showDelivery(&deliveries[i])
	}
	if items, err = list.FilterRows(ctx, s.View, in.Where, items); err != nil {
		return nil, err
	}
	return op.Answer(v1.DeliveryList{Items: items}), nil
}

// showDelivery converts a delivery (one notification to one handler) to the API type Delivery
func showDelivery(d *history.Delivery) v1.Delivery {
	return v1.Delivery{
		ID: d.ID, Problem: d.Problem, Namespace: d.Handler.Namespace, Handler: d.Handler.Name, Kind: d.Kind,
		State: string(d.State), Attempts: d.Attempts, Created: d.Created, NextAt: d.NextAt, LastError: d.LastError, Ended: d.Ended, Replayed: d.Replayed,
	}
}

// notifyEvent notifies handlers of an open problem that opened before its route existed.
func (s *routingRequest) notifyEvent(ctx context.Context, in *struct {
	events.Path
	Body v1.Action
}) (*op.Body[v1.RoutingEffect], error) {
	st, err := events.FindEvent(ctx, s.View, in.Path)
	if err != nil {
		return nil, err
	}
	if st.Problem == nil {
		return nil, model.Errorf(model.Conflict, "event %s/%s has status %s and no open problem", in.Node, in.Check, st.Status)
	}
	if err := s.RecordAction(ctx, strings.TrimSuffix("a notification of "+in.Namespace+"/"+in.Node+"/"+in.Check+": "+in.Body.Note, ": ")); err != nil {
		return nil, err
	}
	taken, late := s.Handlers.NotifyOpen(ctx, st.Problem.ID, access.CallerOf(ctx).User)
	return op.Answer(v1.RoutingEffect{AffectedProblems: notification.ShowAffectedProblems(s.View, taken), TakenLate: late}), nil
}
