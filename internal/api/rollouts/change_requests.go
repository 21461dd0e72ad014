package rollouts

import (
	"context"
	"slices"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

const requestsPath = "/api/v1/review-requests"

// listChangeRequests returns the changes that await the approval of another person. They are changes on nodes with review, and
// requested roll-outs.
func (s *rolloutRequest) listChangeRequests(ctx context.Context, in *struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Changes of this namespace; empty: of all."`
	list.Where
}) (*op.Body[v1.ReviewRequestList], error) {
	if err := s.RequireNamespace(ctx, in.Namespace); err != nil {
		return nil, err
	}
	stored, err := s.visibleChangeRequests(ctx)
	if err != nil {
		return nil, err
	}
	out := v1.ReviewRequestList{Items: []v1.ReviewRequest{}}
	for i := range stored {
		if q := &stored[i]; in.Namespace == "" || slices.Contains(q.Namespaces, in.Namespace) {
			out.Items = append(out.Items, showChangeRequest(q, false))
		}
	}
	rollouts, err := s.Driver.List(ctx)
	if err != nil {
		return nil, err
	}
	caller := access.CallerOf(ctx)
	for i := range rollouts {
		shown, ok := s.showRollout(&rollouts[i].Rollout)
		if !ok || !caller.May(access.Read, shown.Namespace) || shown.State != string(model.RolloutRequested) || in.Namespace != "" && in.Namespace != shown.Namespace {
			continue
		}
		out.Items = append(out.Items, v1.ReviewRequest{
			By: shown.By, At: shown.StartedAt, Command: intent.AddNamespaceFlag("muster rollout approve "+shown.Directive, shown.Namespace), NodeCount: shown.Nodes, Count: 1,
			Changes: []v1.ReviewedChange{{Kind: directory.DirectiveKind, Namespace: shown.Namespace, Name: shown.Directive, Op: string(intent.OpUpdated)}},
		})
	}
	slices.SortStableFunc(out.Items, func(a, b v1.ReviewRequest) int { return a.At.Compare(b.At) })
	out.Items, err = list.FilterRows(ctx, s.View, in.Where, out.Items)
	return op.Answer(out), err
}

// getChangeRequest returns one change that awaits approval, with the differences of its resources.
func (s *rolloutRequest) getChangeRequest(ctx context.Context, in *op.IDPath) (*op.Body[v1.ReviewRequest], error) {
	stored, err := s.visibleChangeRequests(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(stored, func(q intent.ChangeRequest) bool { return q.ID == in.ID }); i >= 0 {
		return op.Answer(showChangeRequest(&stored[i], true)), nil
	}
	return nil, model.Errorf(model.NotFound, "no change that awaits approval has the id %s", in.ID).
		WithHint("list the requests: muster rollout requests. A request ends when another person carries it out, and after a week")
}

// visibleChangeRequests returns changes that await approval, if the caller may read every namespace with a
// changed resource.
func (s *rolloutRequest) visibleChangeRequests(ctx context.Context) ([]intent.ChangeRequest, error) {
	stored, err := s.Driver.ApprovalRequests(ctx)
	caller := access.CallerOf(ctx)
	return slices.DeleteFunc(stored, func(q intent.ChangeRequest) bool {
		return len(q.Namespaces) == 0 && !caller.MayEverywhere(access.Read) || slices.ContainsFunc(q.Namespaces, func(namespace string) bool { return !caller.May(access.Read, namespace) })
	}), err
}

// showChangeRequest converts a change that awaits approval to the API type ReviewRequest.
func showChangeRequest(q *intent.ChangeRequest, differences bool) v1.ReviewRequest {
	out := v1.ReviewRequest{
		ID: q.ID, By: q.User, Message: q.Message, At: q.At, Until: q.ExpiresAt(), Command: q.Command, NodeCount: q.Count, Nodes: q.Nodes, Count: q.Writes,
		Changes: []v1.ReviewedChange{},
	}
	for _, c := range q.Changes {
		shown := v1.ReviewedChange{Kind: c.Key.Kind, Namespace: c.Key.Namespace, Name: c.Key.Name, Op: string(c.Op)}
		if differences {
			shown.Diff = c.Diff
		}
		out.Changes = append(out.Changes, shown)
	}
	return out
}
