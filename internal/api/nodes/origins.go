package nodes

import (
	"context"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/plan"
)

// Reasons converts explanations of the planner to links.
func Reasons(list []plan.Explanation) (out []v1.Link) {
	for _, w := range list {
		out = append(out, v1.Link{Holds: w.Lands, Text: w.Text, Under: Reasons(w.Under)})
	}
	return out
}

// origins explains where labels, groups and properties of a node come from; nil for the server's
// own node, which has no declaration.
func (s *request) origins(ctx context.Context, id model.NodeID, n *v1.NodeState) (*v1.NodeOrigins, error) {
	r, err := s.Intent.Get(ctx, intent.Key{Kind: "Node", Namespace: n.Namespace, Name: n.Name})
	if model.ClassOf(err) == model.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := &v1.NodeOrigins{
		Groups: Reasons(s.Directory.ExplainGroups(id)), Properties: []v1.PropertyValue{},
		Labels: labelOrigins(plan.LabelOrigins(r.Metadata, r.Spec.(*model.NodeSpec))),
	}
	for _, c := range s.Directory.JoinRequests(id) {
		out.Asked = append(out.Asked, v1.GroupAsked{Group: c.Group, Accepted: c.Accepted, Why: c.Reason})
	}
	for _, p := range s.Directory.PropertyOrigins(id) {
		value := v1.PropertyValue{Name: p.Name, Value: p.Value, Conflict: p.Conflict}
		for _, o := range p.From {
			value.From = append(value.From, v1.PropertyOrigin{Level: o.Level, From: o.From, Value: o.Value, Effect: o.Effect})
		}
		out.Properties = append(out.Properties, value)
	}
	out.Limits = nodeLimits(s.Limits(n.Namespace), n, s.Events.Summaries([]model.NodeID{id})[0].CountedStates())
	return out, nil
}

func labelOrigins(list []plan.LabelOrigin) []v1.LabelOrigin {
	out := make([]v1.LabelOrigin, 0, len(list))
	for _, l := range list {
		o := v1.LabelOrigin{Name: l.Name, Value: l.Value, Owner: l.Owner}
		for _, h := range l.Hides {
			o.Hides = append(o.Hides, v1.LabelOrigin{Name: h.Name, Value: h.Value, Owner: h.Owner})
		}
		out = append(out, o)
	}
	return out
}

// nodeLimits returns the limits of a namespace that hold for each node, with the use of this node.
func nodeLimits(of []v1.LimitUse, n *v1.NodeState, states uint64) (out []v1.LimitUse) {
	for _, l := range of {
		use := v1.LimitUse{Name: l.Name, Limit: l.Limit}
		switch l.Name {
		case "statesPerNode":
			use.Used = &states
		case "labels", "outputBytes", "nodeResultsPerSec", "passivePerNode":
		default:
			continue
		}
		if l.Node == n.Name {
			use.Met, use.Last, use.Node, use.Reason = l.Met, l.Last, l.Node, l.Reason
		}
		out = append(out, use)
	}
	return out
}
