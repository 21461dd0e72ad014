package plan

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// motdTechnique returns a technique with one component (checked part), which writes its parameter into the file
// /etc/motd.
func motdTechnique(name string) *model.TechniqueSpec {
	return &model.TechniqueSpec{
		Parameters: []model.Parameter{{Name: "text"}},
		Methods:    []model.Method{{Component: name, FileContent: &model.FileContentMethod{Path: "/etc/motd", Content: "{{ .params.text }}\n"}}},
	}
}

// motdDirective returns a directive of the technique motd with a given text.
func motdDirective(text string) *model.DirectiveSpec {
	return &model.DirectiveSpec{Technique: "motd", Parameters: map[string]model.ParameterValue{"text": model.TextValue(text)}}
}

// directiveOn returns the compiled directive in a node's assignment. It returns nil if the assignment does not have
// the directive.
func (h *testPlanner) directiveOn(node, name string) *model.DirectiveDefinition {
	for _, c := range h.p.directory.AssignmentOf(h.id(node)).Definitions {
		if d := c.AsDirective(); d != nil && d.Name == name {
			return d
		}
	}
	return nil
}

// nodesWithDirective returns the names of the nodes to which a directive is assigned.
func (h *testPlanner) nodesWithDirective(name string, nodes ...string) string {
	return strings.Join(slices.DeleteFunc(nodes, func(n string) bool { return h.directiveOn(n, name) == nil }), " ")
}

// TestPoliciesSelectNodesOfDirectives declares policies, and expects their directives on exactly the selected nodes.
func TestPoliciesSelectNodesOfDirectives(t *testing.T) {
	h := newTestPlanner(t)
	h.node("web01", nil, "web")
	h.node("web02", nil, "web", "lab")
	h.node("db01", map[string]string{"tier": "db"})
	nodes := []string{"web01", "web02", "db01"}
	h.apply("Technique", "default", "motd", nil, motdTechnique("message"))
	h.apply("Directive", "default", "hello", nil, motdDirective("{{ .props.greeting | default \"hello\" }}"))
	expect := func(step, want string) {
		t.Helper()
		if got := h.nodesWithDirective("hello", slices.Clone(nodes)...); got != want {
			t.Errorf("%s: it is on %q, want %q", step, got, want)
		}
	}
	expect("no policy", "")
	web := &model.PolicySpec{Directives: []string{"hello"}, Targets: &model.Targets{Groups: []string{"web"}, Except: &model.Targets{Groups: []string{"lab"}}}}
	h.apply("Policy", "default", "web", nil, web)
	expect("one policy", "web01")
	lab := &model.PolicySpec{Directives: []string{"hello"}, Targets: &model.Targets{Nodes: []string{"web02"}, Where: `node.labels.tier == "db"`}, Alert: &model.PolicyAlert{Route: "night"}}
	h.apply("Policy", "default", "lab", nil, lab)
	expect("two policies: an exception of one excludes nothing of the other", "web01 web02 db01")
	if d := h.directiveOn("db01", "hello"); d.Route != "default/night" || d.Mode != "" || d.Components[0].Name != "message" || d.Technique != "default/motd" {
		t.Errorf("compiled %+v", d)
	}
	if err := h.preview("Policy", "web", &model.PolicySpec{Directives: []string{"hello"}, Alert: &model.PolicyAlert{Route: "day"}}); err == nil || !strings.Contains(err.Error(), "policies default/lab and default/web") {
		t.Errorf("two routes of one directive: %v", err)
	}
	if err := h.preview("Directive", "hello", &model.DirectiveSpec{Technique: "motd"}); err == nil || !strings.Contains(err.Error(), "parameter text has no value") {
		t.Errorf("a missing parameter: %v", err)
	}
	if err := h.preview("Technique", "motd", &model.TechniqueSpec{Methods: motdTechnique("x").Methods}); err == nil || !strings.Contains(err.Error(), `no parameter "text"`) {
		t.Errorf("a technique without the parameter that a directive gives: %v", err)
	}
	h.apply("Technique", "default", "motd", nil, motdTechnique("greeting"))
	if d := h.directiveOn("web01", "hello"); d.Components[0].Name != "greeting" {
		t.Error("the technique changed and its directive did not")
	}
	id := h.directiveOn("db01", "hello").Unit
	if e, ok := h.p.Inspector().ExplainCheck(h.id("db01"), id); !ok || !e.Lands || len(e.Steps) != 2 || !strings.HasPrefix(e.Steps[0].Text, "policy lab is assigned") || e.Steps[1].Lands {
		t.Errorf("explanation %+v", e)
	}
	h.apply("Node", "default", "db01", nil, &model.NodeSpec{})
	expect("the label is gone", "web01 web02")
	h.forgotten = nil
	h.apply("Policy", "default", "lab", nil, nil)
	expect("one policy was deleted", "web01")
	if len(h.forgotten) != 1 || h.forgotten[0].Mark.Check != id || h.forgotten[0].Node != h.id("web02") {
		t.Errorf("forgotten: %+v", h.forgotten)
	}
	web.Disabled = true
	h.apply("Policy", "default", "web", nil, web)
	expect("the policy is disabled", "")
}

// TestMusterAgentsDoNotRunRudderDirectives declares directives for Rudder agents, and expects a compiled kind that Muster
// agents never run. Muster's agents never request this kind. One without the id, and an id for a technique of Muster's
// agents, are errors.
func TestMusterAgentsDoNotRunRudderDirectives(t *testing.T) {
	h := newTestPlanner(t)
	h.node("web01", nil, "web")
	h.apply("Technique", "default", "theirs", nil, &model.TechniqueSpec{Methods: []model.Method{{Component: "a", Rudder: &model.RudderMethod{ID: "m1"}}}})
	h.apply("Technique", "default", "motd", nil, motdTechnique("message"))
	h.apply("Policy", "default", "web", nil, &model.PolicySpec{Directives: []string{"good", "lost", "odd"}, Targets: &model.Targets{Groups: []string{"web"}}})
	odd := motdDirective("hello")
	odd.Rudder = "d1"
	h.apply("Directive", "default", "good", nil, &model.DirectiveSpec{Technique: "theirs", Rudder: "d1"})
	h.apply("Directive", "default", "lost", nil, &model.DirectiveSpec{Technique: "theirs"})
	h.apply("Directive", "default", "odd", nil, odd)
	d := h.directiveOn("web01", "good")
	if d == nil || d.Kind != model.DefinitionExpectation || d.Rudder != "d1" || d.Mode != model.ModeAudit || string(d.Components[0].Arguments) != `{"id":"m1"}` {
		t.Errorf("compiled %+v", d)
	}
	if h.directiveOn("web01", "lost") != nil || h.directiveOn("web01", "odd") != nil {
		t.Error("a directive with an error is assigned")
	}
}

// TestOneDirectivePerTechniqueRuns assigns several directives of one technique to a node, and expects only one to run.
// It is the one with the smallest priority, else with the first policy name, else with the first directive name.
func TestOneDirectivePerTechniqueRuns(t *testing.T) {
	h := newTestPlanner(t)
	h.node("n1", nil, "web")
	h.node("n2", nil, "web", "db")
	nodes := []string{"n1", "n2"}
	technique := motdTechnique("message")
	h.apply("Technique", "default", "motd", nil, technique)
	put := func(name string, priority int) {
		d := motdDirective(name)
		d.Priority = &priority
		h.apply("Directive", "default", name, nil, d)
	}
	policy := func(name, group string, directives ...string) {
		h.apply("Policy", "default", name, nil, &model.PolicySpec{Directives: directives, Targets: &model.Targets{Groups: []string{group}}})
	}
	expect := func(step string, want ...string) {
		t.Helper()
		for i, name := range []string{"a", "b", "c"} {
			if got := h.nodesWithDirective(name, slices.Clone(nodes)...); got != want[i] {
				t.Errorf("%s: directive %s is on %q, want %q", step, name, got, want[i])
			}
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		put(name, 5)
	}
	policy("p1", "web", "b")
	policy("p2", "web", "a")
	policy("p3", "db", "c")
	expect("by the name of the policy", "", "n1 n2", "")
	put("c", 0)
	expect("by priority, on the node that has it", "", "n1", "n2")
	id, _ := h.p.directory.UnitByName(directory.DirectiveKind, "default", "b")
	e, _ := h.p.Inspector().ExplainCheck(h.id("n2"), id)
	if want := "directive b is overridden on this node: directive c of the same technique runs, for its priority is 0, before 5"; e.Lands || e.Text != want {
		t.Errorf("explanation %+v", e)
	}
	if l := h.p.Inspector().Placement(intent.Key{Kind: "Directive", Namespace: "default", Name: "b"}); l.Nodes != 1 || l.OverriddenBy["c"] != 1 {
		t.Errorf("placement %+v", l)
	}
	if list := directory.Overridden(h.p.directory, h.id("n2")); len(list) != 2 || h.p.directory.RunsUnit(h.id("n2"), list[1].Unit) {
		t.Errorf("overridden %+v", list)
	}
	h.forgotten = nil
	policy("p0", "db", "a")
	expect("the first policy of a comes first", "n1", "", "n2")
	if len(h.forgotten) != 1 || h.forgotten[0].Mark.Check != id || h.forgotten[0].Node != h.id("n1") {
		t.Errorf("forgotten: %+v", h.forgotten)
	}
	h.apply("Policy", "default", "p3", nil, nil)
	expect("the winner left", "n1 n2", "", "")
	policy("p2", "web", "c")
	policy("p0", "nowhere", "a")
	put("c", 5)
	expect("a left", "", "n1 n2", "")
	technique.MultiInstance = true
	h.apply("Technique", "default", "motd", nil, technique)
	expect("all run", "", "n1 n2", "n1 n2")
	technique.MultiInstance = false
	h.apply("Technique", "default", "motd", nil, technique)
	policy("p1", "web", "b", "c")
	expect("by the name of the directive", "", "n1 n2", "")
	h.apply("Directive", "default", "b", nil, nil)
	expect("the winner was deleted", "", "", "n1 n2")
}

// TestModesOfNamespaceNodeAndDirective sets the modes audit and enforce at several places, and expects the same result
// as Rudder. A mode is audit or enforce. The order is a fixed mode of the namespace, audit of the node, then the modes
// of the directive, of the node and of the namespace. A change gives the nodes a new assignment, and no new
// definition.
func TestModesOfNamespaceNodeAndDirective(t *testing.T) {
	h := newTestPlanner(t)
	h.apply("Technique", "default", "motd", nil, motdTechnique("message"))
	h.apply("Directive", "default", "hello", nil, motdDirective("hello"))
	h.apply("Policy", "default", "all", nil, &model.PolicySpec{Directives: []string{"hello"}, Targets: &model.Targets{Groups: []string{"all"}}})
	audit, enforce, none := model.ModeAudit, model.ModeEnforce, ""
	h.node("n1", nil, "all")
	definition := h.directiveOn("n1", "hello").ID
	for _, c := range []struct {
		namespace string
		fixed     bool
		node      string
		want      map[string]string // by the mode of the directive
		fixedBy   string
	}{
		{none, false, none, map[string]string{none: audit, audit: audit, enforce: enforce}, ""},
		{enforce, false, none, map[string]string{none: enforce, audit: audit, enforce: enforce}, ""},
		{enforce, false, audit, map[string]string{none: audit, audit: audit, enforce: audit}, "the node"},
		{audit, false, enforce, map[string]string{none: enforce, audit: audit, enforce: enforce}, ""},
		{none, true, enforce, map[string]string{none: audit, audit: audit, enforce: audit}, "namespace default"},
		{enforce, true, audit, map[string]string{none: enforce, audit: enforce, enforce: enforce}, "namespace default"},
	} {
		h.apply("Namespace", "", "default", nil, &model.NamespaceSpec{PolicyMode: &model.NamespacePolicyMode{Mode: c.namespace, Fixed: c.fixed}})
		h.apply("Node", "default", "n1", nil, &model.NodeSpec{Groups: []string{"all"}, PolicyMode: c.node})
		mode := directory.NodeMode(h.p.directory, h.id("n1"))
		if mode.Fixed != c.fixedBy {
			t.Errorf("%+v: fixed by %q", c, mode.Fixed)
		}
		for of, want := range c.want {
			if mode.Enforces(of) != (want == enforce) {
				t.Errorf("%+v: a directive with mode %q enforces: %v", c, of, mode.Enforces(of))
			}
		}
	}
	h.changed = nil
	h.apply("Namespace", "", "default", nil, &model.NamespaceSpec{PolicyMode: &model.NamespacePolicyMode{Mode: enforce}})
	if len(h.changed) != 1 || h.directiveOn("n1", "hello").ID != definition {
		t.Errorf("assignments of %v changed, definition %d and %d", h.changed, definition, h.directiveOn("n1", "hello").ID)
	}
	broken := model.NodePolicyModeOf(func(string) ([]byte, string, bool) { return []byte("{"), "", true })
	if broken.Enforces(enforce) {
		t.Error("a mode that cannot be read enforces")
	}
}

// TestIncrementalPoliciesEqualFullPlan applies random changes of policies, and expects the same fleet as a planner
// that starts anew. The changes are of policies, directives, techniques and nodes.
func TestIncrementalPoliciesEqualFullPlan(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newTestPlanner(t)
		h.apply("Technique", "default", "motd", nil, motdTechnique("message"))
		name := func(kind string) string { return fmt.Sprintf("%s%d", kind, rapid.IntRange(0, 2).Draw(rt, kind)) }
		for i := range 3 {
			h.apply("Directive", "default", fmt.Sprintf("d%d", i), nil, motdDirective("a"))
		}
		var batch []intent.Write
		put := func(kind, name string, labels map[string]string, spec model.Spec) {
			w := intent.Write{Key: intent.Key{Kind: kind, Namespace: "default", Name: name}, Expect: -1}
			if kind == "Namespace" {
				w.Namespace = ""
			}
			if spec != nil {
				w.Body = encodeSpec(t, kind, w.Namespace, name, labels, spec)
			}
			batch = slices.DeleteFunc(batch, func(o intent.Write) bool { return o.Key == w.Key })
			batch = append(batch, w)
		}
		for range rapid.IntRange(1, 20).Draw(rt, "changes") {
			switch rapid.IntRange(0, 9).Draw(rt, "kind") {
			case 7:
				group := &model.GroupSpec{Trusted: rapid.Bool().Draw(rt, "trusted"), Nodes: []string{name("n")}}
				if rapid.Bool().Draw(rt, "condition") {
					group.Where = `node.labels.tier == "` + name("tier") + `"`
				}
				put("Group", name("g"), nil, group)
			case 6:
				put("Waiver", name("waiver"), nil, &model.WaiverSpec{Directive: name("d"), Targets: &model.Targets{Groups: []string{name("g")}, Nodes: []string{name("n")}}})
			case 8, 9:
				if w, ok := h.randomRolloutStep(rt); ok {
					batch = append(slices.DeleteFunc(batch, func(o intent.Write) bool { return o.Key == w.Key }), w)
				}
			case 5:
				mode := rapid.SampledFrom([]string{"", "audit", "enforce"}).Draw(rt, "namespace mode")
				put("Namespace", "default", nil, &model.NamespaceSpec{PolicyMode: &model.NamespacePolicyMode{Mode: mode, Fixed: rapid.Bool().Draw(rt, "fixed")}})
			case 0:
				technique := motdTechnique(name("component"))
				technique.MultiInstance = rapid.IntRange(0, 3).Draw(rt, "multi-instance") == 0
				put("Technique", "motd", nil, technique)
			case 1:
				d := motdDirective(name("text") + " {{ .props." + name("p") + " | default 1 }}")
				d.Disabled = rapid.IntRange(0, 3).Draw(rt, "disabled") == 0
				priority := rapid.IntRange(4, 6).Draw(rt, "priority")
				d.Priority, d.Mode = &priority, rapid.SampledFrom([]string{"", "audit", "enforce"}).Draw(rt, "mode")
				d.Trusted = rapid.SampledFrom([]string{"", "", "facts"}).Draw(rt, "trusted facts")
				if rapid.Bool().Draw(rt, "rollout") {
					d.Rollout = &model.RolloutSpec{Steps: []string{name("g"), "50%"}, Approve: rapid.Bool().Draw(rt, "approve")}
				}
				put("Directive", name("d"), nil, d)
			case 2:
				put("Node", name("n"), map[string]string{"tier": name("tier")}, &model.NodeSpec{
					Groups: []string{name("g")}, PolicyMode: rapid.SampledFrom([]string{"", "audit", "enforce"}).Draw(rt, "node mode"),
					State: rapid.SampledFrom([]string{"", "", model.StateIgnored}).Draw(rt, "node state"),
				})
			case 3:
				key := intent.Key{Kind: "Policy", Namespace: "default", Name: name("policy")}
				if _, known := h.rows[key]; known {
					put(key.Kind, key.Name, nil, nil)
				}
			default:
				put("Policy", name("policy"), nil, &model.PolicySpec{
					Directives: []string{name("d"), "d0"}, Disabled: rapid.IntRange(0, 5).Draw(rt, "disabled") == 0,
					Targets: &model.Targets{Groups: []string{name("g")}, Where: `node.labels.tier == "` + name("tier") + `"`, Except: &model.Targets{Nodes: []string{name("n")}}},
				})
			}
			if rapid.Bool().Draw(rt, "more") {
				continue // several changes are one pass
			}
			h.commitDirectives(rt, batch)
			batch = nil
		}
		h.commitDirectives(rt, batch)
		incremental := h.snapshotWithoutGenerations()
		h.start()
		if full := h.snapshotWithoutGenerations(); !reflect.DeepEqual(incremental, full) {
			rt.Fatalf("incremental %+v\nfull        %+v", incremental, full)
		}
	})
}

// directivesByNode returns the names of the directives on each node.
func (h *testPlanner) directivesByNode() map[placement]string {
	out := map[placement]string{}
	for _, id := range h.p.directory.Nodes("") {
		for _, unit := range h.p.directory.NodeUnits(id) {
			if u := h.p.directory.SourceUnit(model.DirectiveSource(unit)); u != nil && u.Kind == directory.DirectiveKind {
				out[placement{id, unit}] = u.Name.Name
			}
		}
	}
	return out
}

// commitDirectives previews and commits changes of directives, and lets the planner apply all changes at once. It
// expects that the preview changes nothing and counts the nodes right, and that nothing of a directive is forgotten on
// a node that keeps it.
func (h *testPlanner) commitDirectives(rt *rapid.T, writes []intent.Write) {
	if len(writes) == 0 {
		return
	}
	before := h.snapshot()
	resources := slices.DeleteFunc(slices.Clone(writes), func(w intent.Write) bool { return w.Kind == intent.RolloutKind })
	impact, err := h.p.Preview(rt.Context(), resources, true)
	if err != nil {
		rt.Fatal(err)
	}
	held, existing := h.directivesByNode(), h.p.directory.Nodes("")
	if after := h.snapshot(); !reflect.DeepEqual(before, after) {
		rt.Fatalf("the preview changed\n%+v\nto\n%+v", before, after)
	}
	h.forgotten = nil
	h.write(writes...)
	if err := h.p.CatchUp(rt.Context()); err != nil {
		rt.Fatal(err)
	}
	gained, lost := map[string]int{}, map[string]int{}
	now := h.directivesByNode()
	for at, name := range now {
		if held[at] == "" && slices.Contains(existing, at.node) {
			gained[name]++
		}
	}
	for at, name := range held {
		if now[at] == "" {
			lost[name]++
		}
	}
	for _, u := range impact.Units {
		if u.Key.Kind != directory.DirectiveKind {
			continue
		}
		if gained[u.Key.Name] != u.Gets || lost[u.Key.Name] != u.Loses {
			rt.Fatalf("the preview has %+v; %d nodes got it, %d lost it", u, gained[u.Key.Name], lost[u.Key.Name])
		}
		delete(gained, u.Key.Name)
		delete(lost, u.Key.Name)
	}
	if len(gained)+len(lost) > 0 {
		rt.Fatalf("the preview left out %v and %v", gained, lost)
	}
	for _, f := range h.forgotten {
		if f.Node != 0 && h.p.directory.RunsUnit(f.Node, f.Mark.Check) {
			rt.Fatalf("forgotten on a node that keeps it: %+v", f)
		}
	}
}

// TestDifferencesHaveDurations compares definitions with different durations, and expects differences in
// readable form, such as 1m30s.
func TestDifferencesHaveDurations(t *testing.T) {
	directive := func(interval, heartbeat time.Duration) *model.Definition {
		return (&model.DirectiveDefinition{Interval: interval, Heartbeat: heartbeat, Timeout: time.Minute}).ToDefinition()
	}
	check := func(timeout time.Duration) *model.Definition {
		return (&model.CheckDefinition{Interval: time.Minute, Timeout: timeout}).ToDefinition()
	}
	for want, got := range map[string][]string{
		"heartbeat: none → 1h; interval: 5m → 1m30s": Differences(directive(5*time.Minute, 0), directive(90*time.Second, time.Hour)),
		"timeout: 10s → 500ms":                       Differences(check(10*time.Second), check(500*time.Millisecond)),
	} {
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%s, want %s", text, want)
		}
	}
}
