package plan

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// TestEnforcementNeedsAnOperator assigns an enforcing directive, and expects changes only on nodes that an operator
// has chosen. The ways are groups, names, conditions and facts. It enforces where an operator chose the node, and only
// audits where values of the machine decide; each step changes one resource, so edits reach the node.
func TestEnforcementNeedsAnOperator(t *testing.T) {
	h := newTestPlanner(t)
	directive := &model.DirectiveSpec{Technique: "motd", Parameters: map[string]model.ParameterValue{"text": model.TextValue("a")}, Mode: model.ModeEnforce}
	targets := &model.Targets{}
	node := &model.NodeSpec{Facts: map[string]string{"os": "linux"}, AgentLabels: map[string]string{"tier": "web"}}
	group := func(name string, spec *model.GroupSpec) func() {
		return func() { h.apply("Group", "default", name, nil, spec) }
	}
	policy := func(edit func()) func() {
		return func() {
			edit()
			h.apply("Policy", "default", "p", nil, &model.PolicySpec{Directives: []string{"d"}, Targets: targets})
		}
	}
	h.apply("Node", "default", "n", nil, node)
	h.apply("Group", "default", "all", nil, &model.GroupSpec{Where: "true"})
	h.apply("Group", "default", "linux", nil, &model.GroupSpec{Where: `node.facts.os == "linux"`})
	h.apply("Technique", "default", "motd", nil, motdTechnique("message"))
	h.apply("Directive", "default", "d", nil, directive)
	for _, c := range []struct {
		step   string
		edit   func()
		source string // of a node where it only audits
	}{
		{"a list of nodes", policy(func() { targets.Nodes = []string{"n"} }), ""},
		{"the group of all", policy(func() { targets.Nodes, targets.Groups = nil, []string{"all"} }), ""},
		{"a group over facts", policy(func() { targets.Groups = []string{"linux"} }), "group linux"},
		{"the group lists the node, too", group("linux", &model.GroupSpec{Where: `node.facts.os == "linux"`, Nodes: []string{"n"}}), ""},
		{"a condition over labels", group("linux", &model.GroupSpec{Where: `node.labels.tier == "web"`}), "group linux"},
		{"a group within", func() {
			h.apply("Group", "default", "inner", nil, &model.GroupSpec{Nodes: []string{"n"}})
			h.apply("Group", "default", "linux", nil, &model.GroupSpec{Groups: []string{"inner"}})
		}, ""},
		{"its members choose it", group("inner", &model.GroupSpec{Where: `node.facts.os == "linux"`}), "group linux"},
		{"a condition of the policy", policy(func() { targets.Groups, targets.Where = nil, `node.facts.os == "linux"` }), "the condition of policy p"},
		{"a list beside the condition", policy(func() { targets.Nodes = []string{"n"} }), ""},
		{"an exception over facts", policy(func() { targets.Except = &model.Targets{Where: `node.facts.os == "plan9"`} }), "the exception of policy p"},
		{"an exception of a group over facts", policy(func() { targets.Except = &model.Targets{Groups: []string{"lab"}} }), ""},
		{"the group has a condition", group("lab", &model.GroupSpec{Where: `node.facts.os == "plan9"`}), "the exception of policy p"},
		{"the group is trusted", group("lab", &model.GroupSpec{Trusted: true}), ""},
		{"the agent asks for its group", func() {
			targets = &model.Targets{Groups: []string{"open"}}
			node.AgentGroups = []string{"open"}
			h.apply("Group", "default", "open", nil, &model.GroupSpec{SelfJoin: true})
			h.apply("Node", "default", "n", nil, node)
			h.apply("Policy", "default", "p", nil, &model.PolicySpec{Directives: []string{"d"}, Targets: targets})
		}, "group open"},
		{"an operator put it there", func() { node.Groups = []string{"open"}; h.apply("Node", "default", "n", nil, node) }, ""},
		{"no operator any more", func() { node.Groups = nil; h.apply("Node", "default", "n", nil, node) }, "group open"},
		{"a trusted directive", func() { directive.Trusted = "facts"; h.apply("Directive", "default", "d", nil, directive) }, ""},
		{"no trust any more", func() { directive.Trusted = ""; h.apply("Directive", "default", "d", nil, directive) }, "group open"},
	} {
		c.edit()
		d, mode := h.directiveOn("n", "d"), directory.NodeMode(h.p.directory, h.id("n"))
		if d == nil {
			t.Fatalf("%s: the directive is not on the node", c.step)
		}
		l := h.p.Inspector().Placement(intent.Key{Kind: "Directive", Namespace: "default", Name: "d"})
		why, _ := h.p.Inspector().ExplainCheck(h.id("n"), d.Unit)
		if audits := c.source != ""; mode.EnforcesDirective(d) == audits || len(l.AuditOnly) > 0 != audits || strings.Contains(flattenExplanation(why), "only audits") != audits {
			t.Errorf("%s: mode %+v, placement %v, why %s", c.step, mode, l.AuditOnly, flattenExplanation(why))
		}
		if c.source != "" && l.AuditOnly[c.source] != 1 {
			t.Errorf("%s: only audited by %v, want %s", c.step, l.AuditOnly, c.source)
		}
	}
	h.apply("Directive", "default", "d", nil, &model.DirectiveSpec{Technique: "motd", Parameters: map[string]model.ParameterValue{"text": model.TextValue("a")}, Mode: model.ModeAudit})
	if mode := directory.NodeMode(h.p.directory, h.id("n")); len(mode.Audit) != 0 {
		t.Errorf("a directive that audits: %+v", mode)
	}
	h.apply("Namespace", "", "default", nil, &model.NamespaceSpec{PolicyMode: &model.NamespacePolicyMode{Mode: model.ModeEnforce, Fixed: true}})
	if d, mode := h.directiveOn("n", "d"), directory.NodeMode(h.p.directory, h.id("n")); mode.EnforcesDirective(d) {
		t.Errorf("a namespace that enforces everything: %+v", mode)
	}
	key := intent.Key{Kind: "Policy", Namespace: "default", Name: "p"}
	impact, err := h.p.Preview(t.Context(), []intent.Write{{Key: key, Body: encodeSpec(t, key.Kind, key.Namespace, key.Name, nil, &model.PolicySpec{
		Directives: []string{"d"}, Targets: &model.Targets{Groups: []string{"linux"}}})}}, false)
	if want := "directive d only audits on 1 node that group linux selects: machines can bring themselves in"; err != nil || len(impact.Placements[0].Warnings) != 1 || !strings.HasPrefix(impact.Placements[0].Warnings[0], want) {
		t.Errorf("preview of the policy: %v %q", err, impact.Placements[0].Warnings)
	}
}
