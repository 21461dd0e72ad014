package kind

import (
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// Group returns the kind of named sets of nodes.
func Group() Kind {
	return Define(func() *model.GroupSpec { return &model.GroupSpec{} }, Definition[*model.GroupSpec]{
		KindInfo: model.KindInfo{Name: "Group", Plural: "groups", Short: "gr", Namespaced: true},
		Related:  GroupMembers,
		LandsAs:  "has",
		Example: `kind: Group
metadata: {name: web}
spec:
  where: node.labels.role == "web"
`,
		Validate: func(v *Validator, r *model.Resource, s *model.GroupSpec) { validateGroup(v, r.Metadata.Name, s) },
		Cycle:    Cycle{"contains itself", "remove one of them from the spec.groups of the group before it"},
		References: func(refs *References, s *model.GroupSpec) {
			refs.Mention("Group", "spec.groups", s.Groups...)
			refs.chain(0)
			refs.Mention("Node", "spec.nodes", s.Nodes...)
		},
		Columns: []Column[*model.GroupSpec]{
			nodesColumn[*model.GroupSpec](), checksColumn[*model.GroupSpec]("CHECKS"),
			{"MEMBERS", 60, func(_ View, s *model.GroupSpec) string { return members(s) }},
		},
		Details: func(view View, s *model.GroupSpec) []Detail {
			return []Detail{{"members", members(s)}, {"checks", "targeted by " + model.CountNoun(view.State.Checks, "check")}}
		},
		Effect: func(_ *model.Resource, _ *model.GroupSpec, l Placement, _ bool) (note, warning string) {
			if l.Nodes == 0 {
				return "has no member", "no node belongs to it. List nodes: muster get nodes; the groups of one: muster why NODE"
			}
			return "has " + l.nodes(), ""
		},
	})
}

// members summarizes the rules of a group.
func members(s *model.GroupSpec) string {
	var from []string
	if len(s.Nodes) > 0 {
		from = append(from, model.CountNoun(len(s.Nodes), "node")+" listed")
	}
	if len(s.Groups) > 0 {
		from = append(from, "groups "+strings.Join(s.Groups, ","))
	}
	switch s.Where {
	case "":
	case "true":
		from = append(from, "every node")
	default:
		from = append(from, "where "+s.Where)
	}
	if s.SelfJoin {
		from = append(from, "agents that ask for it")
	}
	return dash(strings.Join(from, "; "))
}

func validateGroup(v *Validator, name string, s *model.GroupSpec) {
	v.Names("spec.nodes", s.Nodes, v.NodeName)
	v.Names("spec.groups", s.Groups, v.SharedName)
	if slices.Contains(s.Groups, name) || slices.Contains(s.Groups, v.namespace+"/"+name) {
		v.Flaw("spec.groups", "", "a group cannot be in itself")
	}
	v.where("spec.where", s.Where, func(c *where.Condition) error {
		if s.Trusted {
			return c.Trusted()
		}
		if c.ReadsGroups() {
			return model.Errorf(model.Invalid, "the condition of a group cannot read node.groups").WithHint("list the other groups under groups:")
		}
		return nil
	})
	if s.Trusted && s.SelfJoin {
		v.Flaw("spec.selfJoin", "leave it out, or make another group for agents that put themselves in", "a trusted group takes in no machine because that says so")
	}
	validateProperties(v, "spec.properties", s.Properties)
}
