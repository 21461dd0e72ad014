package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/where"
)

func (s *server) stateRoutes() {
	handle(s, withErrors(operation("listNodeStates", http.MethodGet, "/api/v1/nodestates", "nodes", "Machines as the server sees them, worst first"), model.NotFound), access.On(access.Read, "Node"), (*server).nodeStates)
}

// stateOf is what the server knows of a resource beside what was declared.
func (s *server) stateOf(r *model.Resource, held *holdCounter) v1.State {
	key := intent.KeyOf(r)
	l := s.Directory.Placement(key)
	out := v1.State{Nodes: l.Nodes, Checks: l.Checks}
	out.Note, _ = s.Kinds.Effect(r, l, false)
	if k, _ := s.Kinds.Of(key.Kind); k.Users {
		out.UsedBy = l.UsedBy("")
	}
	if key.Kind == "Check" && r.Status != nil {
		c := s.Events.CountsOf(model.CheckID(r.Status.ID))
		by := byStatus(c.ByStatus)
		out.Events, out.Problems = &by, c.Problems
	}
	s.routingState(&out, r, held)
	if key.Kind == "Namespace" && s.Limits != nil {
		out.Limits = s.Limits(key.Name)
	}
	if key.Kind == "Handler" && s.Stream != nil {
		if stream, ok := s.Stream(route.Name{Namespace: key.Namespace, Name: key.Name}); ok {
			out.Stream = &stream
		}
	}
	return out
}

func byStatus(n [4]uint64) v1.ByStatus {
	return v1.ByStatus{OK: n[model.OK], Warning: n[model.Warning], Critical: n[model.Critical], Unknown: n[model.Unknown]}
}

// nodeStates looks at every node that matches: what is worst comes first, so that no
// page can be told before all are seen. It costs some microseconds for each node.
func (s *server) nodeStates(ctx context.Context, in *struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Empty: of all."`
	Name      string `query:"name" maxLength:"253" doc:"Only the node of this name."`
	Group     string `query:"group" maxLength:"253" doc:"Only members of this group."`
	Selector  string `query:"selector" maxLength:"4096" doc:"Labels: env=prod,tier!=db"`
	Where     string `query:"where" maxLength:"4096" doc:"CEL over node.name, node.labels, node.facts and node.groups."`
	Limit     int    `query:"limit" minimum:"1" maximum:"100000" default:"100"`
}) (*body[v1.NodeStateList], error) {
	if in.Namespace != "" {
		if _, ok := s.Directory.NamespaceByName(in.Namespace); !ok {
			return nil, s.noNamespace(ctx, in.Namespace)
		}
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
			return nil, s.noNode(ctx, in.Namespace, in.Name)
		}
		ids = []model.NodeID{id}
	case in.Selector != "" || in.Group != "":
		ids = s.Directory.NodesMatching(in.Namespace, selector)
	default:
		ids = s.Directory.Nodes(in.Namespace)
	}
	if in.Group != "" {
		if ids, err = s.membersAmong(ctx, ids, in.Namespace, in.Group); err != nil {
			return nil, err
		}
	}
	if in.Where != "" {
		c, err := where.Compile(in.Where)
		if err != nil {
			return nil, err
		}
		match := s.matcher(c)
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
	return &body[v1.NodeStateList]{out}, nil
}

// membersAmong leaves the members of a group.
func (s *server) membersAmong(ctx context.Context, ids []model.NodeID, namespace, group string) ([]model.NodeID, error) {
	key := intent.Key{Kind: "Group", Namespace: cmp.Or(namespace, model.DefaultNamespaceName), Name: group}
	if ns, name, ok := strings.Cut(group, "/"); ok {
		key.Namespace, key.Name = ns, name
	}
	members := s.Directory.GroupMembers(key.Namespace, key.Name) // ascending
	if len(members) == 0 {
		if _, err := s.Intent.Get(ctx, key); err != nil {
			return nil, s.notThere(ctx, err, key)
		}
	}
	return slices.DeleteFunc(ids, func(id model.NodeID) bool {
		_, ok := slices.BinarySearch(members, id)
		return !ok
	}), nil
}

func (s *server) nodeState(id model.NodeID, sum *event.Summary, withChecks bool) v1.NodeState {
	facts := s.Directory.NodeFacts(id)
	out := v1.NodeState{
		ID: id, Groups: s.Directory.NodeGroups(id), Labels: s.Directory.NodeLabels(id), Agent: facts["agentVersion"],
		OS: osOf(facts), Events: byStatus(sum.ByStatus), Problems: sum.Problems, Severity: sum.Severity, SeverityName: sum.Severity.String(),
		Silent: sum.Silent, Stopped: sum.Stopped, Heard: moment(sum.Heard), Connected: s.Connected != nil && s.Connected(id),
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

// osOf is what people call a machine's system: debian 12, else linux; with its processor.
func osOf(facts map[string]string) string {
	name := cmp.Or(facts["distribution"], facts["os"])
	for _, more := range []string{facts["distributionVersion"], facts["arch"]} {
		if more != "" && name != "" {
			name += " " + more
		}
	}
	return name
}
