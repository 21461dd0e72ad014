// Package rollouts answers about roll-outs: how far changes of directives have reached their nodes, and the actions of people on
// them. The package has no goroutines and no locks; start reading at Register.
package rollouts

import (
	"cmp"
	"context"
	"slices"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/rollout"
)

// Options has the server parts that the operations on roll-outs use.
type Options struct {
	Driver  *rollout.Driver
	InForce func(context.Context) // waits until the planner has compiled a change
}

// rolloutRequest handles an HTTP request about roll-outs. Its methods are the operations of the API.
type rolloutRequest struct {
	op.Request
	Options
}

const path = "/api/v1/rollouts"

// Register adds the API operations about roll-outs to the server.
func Register(r *op.Routes, o Options) {
	at := op.NewOperationSet(r, func(q op.Request) *rolloutRequest { return &rolloutRequest{q, o} })
	op.Handle(at, op.Get("listRollouts", path, "rollouts", "List the last roll-out of each directive that has had one, those under way first", model.NotFound),
		access.NeedOn(access.Read, "rollout"), (*rolloutRequest).listRollouts)
	op.Handle(at, op.Get("getRollout", path+"/{namespace}/{name}", "rollouts", "Show the last roll-out of a directive: steps, progress and failures", model.NotFound),
		access.NeedOn(access.Read, "rollout"), (*rolloutRequest).getRollout)
	op.Handle(at, op.Get("listReviewRequests", requestsPath, "rollouts", "List the changes that await the approval of another person, the oldest first", model.NotFound),
		access.NeedOn(access.Read, "rollout"), (*rolloutRequest).listChangeRequests)
	op.Handle(at, op.Get("getReviewRequest", requestsPath+"/{id}", "rollouts", "Show a change that awaits the approval of another person, with its differences", model.NotFound),
		access.NeedOn(access.Read, "rollout"), (*rolloutRequest).getChangeRequest)
	for _, v := range []struct {
		verb    rollout.Action
		need    access.Verb
		summary string
	}{
		{rollout.Approve, access.Change, "Approve a requested roll-out of another person; it begins"},
		{rollout.Start, access.Change, "Continue a paused or stopped roll-out; nodes that have failed count no more"},
		{rollout.Pause, access.Operate, "Begin no further step; failures still stop the roll-out"},
		{rollout.Stop, access.Operate, "Freeze a roll-out: each node keeps the version that it has"},
		{rollout.Undo, access.Change, "Give all nodes the version before the roll-out, and the directive and its technique the text before it"},
	} {
		need := access.NeedOn(v.need, "rollout")
		operation := op.AddChangeErrors(op.Post(string(v.verb)+"Rollout", path+"/{namespace}/{name}/"+string(v.verb), "rollouts", v.summary, model.NotFound))
		op.Handle(at, operation, need, func(s *rolloutRequest, ctx context.Context, in *actionInput) (*op.Body[v1.Rollout], error) {
			return s.runAction(ctx, v.verb, need, in)
		})
	}
}

// actionInput has the path and body of a request to act on a roll-out, such as to pause.
type actionInput struct {
	op.NamedPath
	Body v1.RolloutAction
}

// listRollouts returns the roll-outs of the policy directives that the caller may see.
func (s *rolloutRequest) listRollouts(ctx context.Context, in *struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Of this namespace; empty: of all."`
	list.Where
}) (*op.Body[v1.RolloutList], error) {
	if err := s.RequireNamespace(ctx, in.Namespace); err != nil {
		return nil, err
	}
	stored, err := s.Driver.List(ctx)
	if err != nil {
		return nil, err
	}
	caller, out := access.CallerOf(ctx), v1.RolloutList{Items: []v1.Rollout{}}
	for i := range stored {
		if shown, ok := s.showRollout(&stored[i].Rollout); ok && caller.May(access.Read, shown.Namespace) && (in.Namespace == "" || in.Namespace == shown.Namespace) {
			out.Items = append(out.Items, shown)
		}
	}
	ended := func(r *v1.Rollout) int {
		if r.State == string(model.RolloutDone) || r.State == string(model.RolloutUndone) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(out.Items, func(a, b v1.Rollout) int { return cmp.Or(ended(&a)-ended(&b), b.StartedAt.Compare(a.StartedAt)) })
	out.Items, err = list.FilterRows(ctx, s.View, in.Where, out.Items)
	return op.Answer(out), err
}

// findDirective returns the key and the id of a policy directive that the caller may see.
func (s *rolloutRequest) findDirective(ctx context.Context, in op.NamedPath) (key intent.Key, id model.UnitID, err error) {
	key = intent.Key{Kind: directory.DirectiveKind, Namespace: in.Namespace, Name: in.Name}
	r, err := s.Intent.Get(ctx, key)
	if err != nil {
		return key, 0, s.ExplainNotFound(ctx, err, key)
	}
	return key, model.UnitID(r.Status.ID), nil
}

// getRollout returns the roll-out of one policy directive.
func (s *rolloutRequest) getRollout(ctx context.Context, in *op.NamedPath) (*op.Body[v1.Rollout], error) {
	key, id, err := s.findDirective(ctx, *in)
	if err != nil {
		return nil, err
	}
	found, err := s.newRolloutAnswer(ctx, key, id)
	if err == nil {
		s.addFirstNodes(ctx, id, &found.Body)
	}
	return found, err
}

// maxFirstNodes is the most names of nodes in the answer about one roll-out.
const maxFirstNodes = 10

// addFirstNodes adds to the API answer about a roll-out the first names of its nodes, in sorted order. It adds
// the differences of the two versions if the caller may change the directive.
func (s *rolloutRequest) addFirstNodes(ctx context.Context, id model.UnitID, r *v1.Rollout) {
	for _, node := range s.Directory.UnitNodes(id) {
		if namespace, name, ok := s.Directory.NodeName(node); ok {
			if namespace != r.Namespace {
				name = namespace + "/" + name
			}
			r.First = append(r.First, name)
		}
	}
	slices.Sort(r.First)
	r.First = r.First[:min(len(r.First), maxFirstNodes)]
	unit := s.Directory.SourceUnit(model.DirectiveSource(id))
	if unit != nil && unit.Rollout != nil && unit.Rollout.UnderWay() && access.MayChange(ctx, r.Namespace) {
		r.Differences = plan.Differences(unit.Rollout.Old, unit.Rollout.New)
	}
}

// newRolloutAnswer returns the roll-out of a policy directive as an API answer.
func (s *rolloutRequest) newRolloutAnswer(ctx context.Context, key intent.Key, id model.UnitID) (*op.Body[v1.Rollout], error) {
	r, err := s.Driver.Find(ctx, id, key.Name)
	if err != nil {
		return nil, err
	}
	shown, ok := s.showRollout(&r.Rollout)
	if !ok {
		return nil, model.Errorf(model.NotFound, "%s does not exist", key)
	}
	return op.Answer(shown), nil
}

// runAction carries out the caller's action on the roll-out of a policy directive, such as approve or pause.
func (s *rolloutRequest) runAction(ctx context.Context, verb rollout.Action, need access.Need, in *actionInput) (*op.Body[v1.Rollout], error) {
	key, id, err := s.findDirective(ctx, in.NamedPath)
	if err != nil {
		return nil, err
	}
	caller := access.CallerOf(ctx)
	by := rollout.Person{
		Actor: access.AuthorOf(ctx, in.Body.Message),
		May:   func(namespace string) error { return caller.AllowIn(need, namespace) },
	}
	switch {
	case in.Body.To != 0 && verb != rollout.Undo:
		return nil, model.Errorf(model.Invalid, "field to: only the action undo accepts a revision").WithHint("leave it out")
	case in.Body.To != 0:
		err = s.Driver.RestoreRevision(ctx, by, key, in.Body.To)
	default:
		err = s.Driver.Perform(ctx, by, verb, key, id)
	}
	if err != nil {
		return nil, err
	}
	s.InForce(ctx)
	found, err := s.newRolloutAnswer(ctx, key, id)
	if verb == rollout.Undo && model.ClassOf(err) == model.NotFound { // the restored declaration has no steps
		return op.Answer(v1.Rollout{Namespace: key.Namespace, Directive: key.Name, State: string(model.RolloutUndone), Reason: "the declaration is that of before the change, without steps", Steps: []v1.RolloutStep{}}), nil
	}
	return found, err
}

// maxFailures is the most failures in an answer.
const maxFailures = 50

// showRollout converts a roll-out to its API type. If the caller may not see the directive, or the planner has not compiled
// it, ok is false. Every caller sees directives of the namespace shared, but their roll-outs name nodes of all namespaces.
func (s *rolloutRequest) showRollout(r *model.Rollout) (out v1.Rollout, ok bool) {
	unit := s.Directory.SourceUnit(model.DirectiveSource(r.Unit))
	if unit == nil || r.State == model.RolloutNone {
		return out, false
	}
	out = v1.Rollout{
		Namespace: unit.Namespace, Directive: unit.Name.Name, State: string(r.State), Reason: r.Reason, By: r.By, Approver: r.Approver, StartedAt: r.StartedAt, Base: r.Base,
		Wait: cmp.Or(r.Spec.Wait, model.DefaultRolloutWait).String(), MaxFailed: cmp.Or(r.Spec.MaxFailed, model.DefaultRolloutMaxFailed),
	}
	for i, step := range r.AllSteps() {
		shown := v1.RolloutStep{Step: step}
		if i < len(r.Steps) {
			shown.StartedAt, shown.Nodes = r.Steps[i].StartedAt, r.Steps[i].Nodes
		}
		out.Steps = append(out.Steps, shown)
	}
	if compiled, fleet := s.Driver.Fleet(r); compiled != nil {
		p := rollout.ProgressOf(r, fleet)
		out.Nodes, out.New, out.Reported, out.Unreported, out.Excused, out.Failed = p.Nodes, p.New, p.Reported, p.Unreported, p.Excused, len(p.Failed)
		for _, f := range p.Failed[:min(len(p.Failed), maxFailures)] {
			out.Failures = append(out.Failures, v1.RolloutFailure{Node: f.Node, Reason: f.Reason})
		}
	}
	return out, true
}
