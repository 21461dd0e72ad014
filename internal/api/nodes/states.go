package nodes

import (
	"cmp"
	"context"
	"slices"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/where"
)

func registerStates(at subject) {
	op.Handle(at, op.Get("listNodeStates", "/api/v1/nodestates", "nodes", "Machines as the server sees them, worst first", model.NotFound), access.On(access.Read, "Node"), (*request).nodeStates)
}

// nodeStates evaluates every node that matches, some microseconds each, because the worst comes
// first and so no page is known before all are.
func (s *request) nodeStates(ctx context.Context, in *struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Empty: of all."`
	Name      string `query:"name" maxLength:"253" doc:"Only the node of this name."`
	Group     string `query:"group" maxLength:"253" doc:"Only members of this group."`
	Selector  string `query:"selector" maxLength:"4096" doc:"Labels: env=prod,tier!=db"`
	Where     string `query:"where" maxLength:"4096" doc:"CEL over node.name, node.labels, node.facts and node.groups."`
	Limit     int    `query:"limit" minimum:"1" maximum:"100000" default:"100"`
}) (*op.Body[v1.NodeStateList], error) {
	if err := s.RequireNamespace(ctx, in.Namespace); err != nil {
		return nil, err
	}
	selector, err := directory.ParseSelector(in.Selector)
	if err != nil {
		return nil, err
	}
	var ids []model.NodeID
	switch {
	case in.Name != "":
		id, ok := s.Directory.NodeByName(cmp.Or(in.Namespace, model.DefaultNamespaceName), in.Name)
		if !ok {
			return nil, s.NoNode(ctx, in.Namespace, in.Name)
		}
		ids = []model.NodeID{id}
	case in.Selector != "" || in.Group != "":
		ids = s.Directory.NodesMatching(in.Namespace, selector)
	default:
		ids = s.Directory.Nodes(in.Namespace)
	}
	if in.Group != "" {
		if ids, err = s.MembersAmong(ctx, ids, in.Namespace, in.Group); err != nil {
			return nil, err
		}
	}
	if in.Where != "" {
		c, err := where.Compile(in.Where)
		if err != nil {
			return nil, err
		}
		match := list.NodeMatcher(s.View, c)
		ids = slices.DeleteFunc(ids, func(id model.NodeID) bool { return !match(id) })
	}
	out := v1.NodeStateList{Total: len(ids), Items: []v1.NodeState{}}
	if in.Namespace != "" && in.Name == "" && in.Selector == "" && in.Group == "" && in.Where == "" {
		out.Others = len(s.Directory.Nodes("")) - len(ids)
	}
	type row struct {
		id      model.NodeID
		name    string
		summary event.Summary
	}
	rows := make([]row, 0, len(ids))
	for i, summary := range s.Events.Summaries(ids) {
		namespace, name, _ := s.Directory.NodeName(ids[i])
		rows = append(rows, row{ids[i], namespace + "/" + name, summary})
		if summary.Wrong() > 0 {
			out.Wrong++
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.summary.Severity, a.summary.Severity), cmp.Compare(b.summary.Wrong(), a.summary.Wrong()), cmp.Compare(a.name, b.name))
	})
	for _, r := range rows[:min(in.Limit, len(rows))] {
		out.Items = append(out.Items, s.nodeState(r.id, &r.summary, in.Name != ""))
	}
	if in.Name != "" {
		if out.Items[0].Origins, err = s.origins(ctx, ids[0], &out.Items[0]); err != nil {
			return nil, err
		}
	}
	return op.Answer(out), nil
}

func (s *request) nodeState(id model.NodeID, sum *event.Summary, withChecks bool) v1.NodeState {
	facts := s.Directory.NodeFacts(id)
	out := v1.NodeState{
		ID: id, Groups: s.Directory.NodeGroups(id), Labels: s.Directory.NodeLabels(id), Agent: facts["agentVersion"],
		OS: osOf(facts), Events: v1.ByStatusOf(sum.ByStatus), Problems: sum.Problems, Severity: sum.Severity, SeverityName: sum.Severity.String(),
		Silent: sum.Silent, Stopped: sum.Stopped, Heard: view.Time(sum.Heard), Connected: s.Connected(id),
	}
	out.Namespace, out.Name, _ = s.Directory.NodeName(id)
	out.Proxy = s.Directory.NodeProxy(id)
	if withChecks {
		for _, check := range s.Directory.NodeUnits(id) {
			if namespace, name, ok := s.Directory.CheckName(check); ok {
				if namespace != out.Namespace {
					name = namespace + "/" + name
				}
				out.Checks = append(out.Checks, name)
			}
		}
		slices.Sort(out.Checks)
	}
	return out
}

// osOf describes a machine's system and processor: "debian 12 amd64".
func osOf(facts map[string]string) string {
	name := cmp.Or(facts["distribution"], facts["os"])
	for _, more := range []string{facts["distributionVersion"], facts["arch"]} {
		if more != "" && name != "" {
			name += " " + more
		}
	}
	return name
}
