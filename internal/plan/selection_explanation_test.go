package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// flattenExplanation converts a nested Explanation to indented lines of text
func flattenExplanation(w Explanation) string {
	text := "- "
	if w.Lands {
		text = "+ "
	}
	text += w.Text + "\n"
	for _, under := range w.Steps {
		text += "  " + strings.ReplaceAll(strings.TrimSuffix(flattenExplanation(under), "\n"), "\n", "\n  ") + "\n"
	}
	return text
}

// TestExplainCheckShowsEveryStep asks why a check runs on a node, and expects every step of the explanation. The steps
// are check, target, group and condition.
func TestExplainCheckShowsEveryStep(t *testing.T) {
	h := newTestPlanner(t)
	h.node("web01", map[string]string{"env": "prod"}, "web")
	h.node("db01", map[string]string{"env": "test"})
	h.apply("Group", "default", "prod", nil, &model.GroupSpec{Where: `node.labels.env == "prod"`})
	h.apply("Group", "default", "all", nil, &model.GroupSpec{Groups: []string{"web", "prod"}, Nodes: []string{"a", "b", "c", "d", "e", "f"}})
	h.apply("Namespace", "", "other", nil, &model.NamespaceSpec{})

	targets := &model.Targets{Groups: []string{"all", "nobody"}, Except: &model.Targets{Nodes: []string{"web01"}}}
	h.apply("Check", "default", "excepted", nil, commandCheck("true", targets))
	h.apply("Check", "default", "plain", nil, commandCheck("true", &model.Targets{Groups: []string{"all"}}))
	h.apply("Check", "default", "nowhere", nil, commandCheck("true", nil))
	h.apply("Check", "other", "theirs", nil, commandCheck("true", &model.Targets{Nodes: []string{"web01"}}))

	for _, c := range []struct{ namespace, check, node, want string }{
		{"default", "plain", "web01", `
+ check plain is assigned to this node
  + it is in group all
    + it is in group web
      + the node lists it (spec.groups): an operator put it there
    + it is in group prod
      + the condition is true: node.labels.env == "prod"`},
		{"default", "plain", "db01", `
- check plain does not name this node
  - it is not in group all
    - it is not in group web, which does not exist
    - it is not in group prod
      - the condition is false: node.labels.env == "prod"
    - the list of nodes has only other nodes: a, b, c, d, e, …
  - to run it here, add group all to spec.groups: muster edit node db01`},
		{"default", "excepted", "web01", `
- check excepted selects this node and excludes it again
  + it is in group all
    + it is in group web
      + the node lists it (spec.groups): an operator put it there
    + it is in group prod
      + the condition is true: node.labels.env == "prod"
  + except: the list of nodes has this node: web01`},
		{"default", "nowhere", "web01", `
- check nowhere is disabled or has no targets`},
		{"other", "theirs", "web01", `
- check other/theirs belongs to namespace other and runs only on nodes of that namespace`},
	} {
		id, _ := h.p.directory.CheckByName(c.namespace, c.check)
		why, ok := h.p.Inspector().ExplainCheck(h.id(c.node), id)
		if got := strings.TrimSpace(flattenExplanation(why)); !ok || got != strings.TrimSpace(c.want) {
			t.Errorf("%s on %s:\n%s\nwant\n%s", c.check, c.node, got, strings.TrimSpace(c.want))
		}
	}
	if _, ok := h.p.Inspector().ExplainCheck(9999, 1); ok {
		t.Error("a node that is not there")
	}
	var groups []string
	for _, why := range h.p.Inspector().ExplainGroups(h.id("web01")) {
		groups = append(groups, why.Text)
	}
	if got := strings.Join(groups, "; "); got != "it is in group all; it is in group prod; it is in group web" {
		t.Error(got)
	}
}

// TestPropertiesShowTheirSources lists the declared values of properties, and expects the same merged values as
// in assignments. The values go from global to node.
func TestPropertiesShowTheirSources(t *testing.T) {
	h := newTestPlanner(t)
	raw := func(s string) map[string]json.RawMessage { return map[string]json.RawMessage{"p": json.RawMessage(s)} }
	property := func(name, scope, value string) {
		h.apply("Property", "default", name, nil, &model.PropertySpec{Property: "p", Scope: scope, Value: json.RawMessage(value)})
	}
	group := func(name, value string) {
		h.apply("Group", "default", name, nil, &model.GroupSpec{Properties: raw(value)})
	}
	group("deep", `{"a": {"b": 2}}`)
	group("flat", `"x"`)
	group("same", `"x"`)
	property("everywhere", "global", `{"a": {"b": 1, "c": 1}, "d": {}}`)
	property("here", "node:one", `{"d": {"e": 1}}`)
	for name, groups := range map[string][]string{"one": {"deep"}, "two": {"flat", "deep"}, "three": {"flat", "same"}, "four": nil} {
		h.node(name, nil, groups...)
	}
	for node, want := range map[string]string{
		"one": `{"a":{"b":2,"c":1},"d":{"e":1}}
global default/everywhere partly in force
group deep in force
node default/here in force`,
		"two": `p has different values from group deep and group flat
global default/everywhere in conflict
group deep in conflict
group flat in conflict`,
		"three": `"x"
global default/everywhere overridden
group flat in force
group same in force`,
		"four": `{"a":{"b":1,"c":1},"d":{}}
global default/everywhere in force`,
	} {
		all := h.p.Inspector().PropertyOrigins(h.id(node))
		if len(all) != 1 || all[0].Name != "p" {
			t.Errorf("%s: %+v", node, all)
			continue
		}
		got := []string{string(all[0].Value) + all[0].Conflict}
		for _, o := range all[0].From {
			got = append(got, strings.Join([]string{o.Level, strings.TrimPrefix(strings.Fields(o.From)[1], "group "), o.Effect}, " "))
		}
		if text := strings.Join(got, "\n"); text != want {
			t.Errorf("%s:\n%s\nwant\n%s", node, text, want)
		}
		if value, conflict, ok := h.p.Inspector().NodeProperties(h.id(node))("p"); !ok || string(value)+conflict != got[0] {
			t.Errorf("%s: shown %s, in force %s%s", node, got[0], value, conflict)
		}
	}
}

// TestLabelsHaveOwners expects each label of a node to belong either to the server or to the agent. The label lists
// the values that it hides.
func TestLabelsHaveOwners(t *testing.T) {
	meta := model.Metadata{Labels: map[string]string{"a": "server", "b": "server"}}
	spec := &model.NodeSpec{AgentLabels: map[string]string{"b": "agent", "c": "agent"}, Facts: map[string]string{"a": "facts", "b": "facts", "c": "facts", "d": "facts"}}
	var got []string
	for _, l := range LabelOrigins(meta, spec) {
		got = append(got, fmt.Sprint(l.Name, " ", l.Value, " of ", l.Owner))
		for _, hidden := range l.Hides {
			got[len(got)-1] += " over " + hidden.Value
		}
		if EffectiveLabels(meta, spec)[l.Name] != l.Value {
			t.Errorf("%s is shown as %s", l.Name, l.Value)
		}
	}
	if want := []string{"a server of server over facts", "b server of server over agent over facts", "c agent of agent over facts", "d facts of facts"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestFaultsListResourceAndReason makes checks fail on nodes, and expects a list of the errors per node. The errors
// keep nodes from running a check. They are also counted over all nodes.
func TestFaultsListResourceAndReason(t *testing.T) {
	h := newTestPlanner(t)
	for i := range 5 {
		h.node(fmt.Sprintf("web%d", i), nil, "web")
	}
	h.node("db1", nil, "web", "db")
	h.apply("Check", "default", "disk", nil, commandCheck("check_disk -w {{ .props.disk_warn }}", &model.Targets{Groups: []string{"web"}}))
	h.apply("Check", "default", "load", nil, commandCheck(`check_load -w {{ .props.load_warn | default "5" }}`, &model.Targets{Groups: []string{"web"}}))
	text := func(namespace string) string {
		list, nodes := h.p.Inspector().Faults(namespace)
		out := fmt.Sprint(nodes, " nodes")
		for _, f := range list {
			names := make([]string, len(f.Examples))
			for i, id := range f.Examples {
				_, names[i], _ = h.p.directory.NodeName(id)
			}
			out += fmt.Sprintf("; %d %s: %s", f.Nodes, strings.Join(names, " "), f.Text)
		}
		return out
	}
	for _, want := range []string{
		`6 nodes; 6 web0 web1 web2: check disk: property "disk_warn" is not set and has no default`,
		`1 nodes; 1 db1: check disk: property "disk_warn" has no value here: disk_warn has different values from group db and group web`,
		`0 nodes`,
	} {
		if got := text(""); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		if got := text("other"); got != "0 nodes" {
			t.Error(got)
		}
		of := h.p.Inspector().NodeFaults(h.id("db1"))
		if (len(of) == 1) != strings.Contains(want, "disk_warn") {
			t.Errorf("of db1: %+v", of)
		}
		switch {
		case strings.HasPrefix(want, "6"):
			h.apply("Group", "default", "web", nil, &model.GroupSpec{Properties: map[string]json.RawMessage{"disk_warn": []byte(`"20%"`)}})
			h.apply("Group", "default", "db", nil, &model.GroupSpec{Properties: map[string]json.RawMessage{"disk_warn": []byte(`"10%"`)}})
		case strings.HasPrefix(want, "1"):
			h.apply("Property", "default", "disk_warn", nil, &model.PropertySpec{Scope: "node:db1", Value: []byte(`"5%"`)})
		}
	}
}

// FuzzResolve merges random property values, and expects the same JSON in any order of the sources.
func FuzzResolve(f *testing.F) {
	for _, v := range []string{`1`, `{"a":1}`, `{"a":{"b":2}}`, `[]`, `null`, ` {"a" : "x"} `, `{"a":1,"a":2}`, strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat(`}`, 40)} {
		f.Add(v, `{"a":2}`, `{"c":true}`)
	}
	f.Fuzz(func(t *testing.T, a, b, c string) {
		for _, v := range []string{a, b, c} {
			if !json.Valid([]byte(v)) {
				return
			}
		}
		x, y, z := source{value: json.RawMessage(a), from: "a"}, source{value: json.RawMessage(b), from: "b"}, source{value: json.RawMessage(c), from: "c"}
		for _, mode := range []model.PropertyMerge{
			{}, {Objects: model.MergeOverride}, {Lists: model.MergeAppend, Texts: model.MergePrepend}, {Lists: model.MergePrepend, Texts: model.MergeAppend},
		} {
			z.merge = mode
			one := resolve("p", [][]source{{z}, {x, y}})
			two := resolve("p", [][]source{{z}, {y, x}})
			if one.Error != two.Error || string(one.Value) != string(two.Value) {
				t.Errorf("%+v: order matters: %s %q, %s %q", mode, one.Value, one.Error, two.Value, two.Error)
			}
			if one.Error == "" && !json.Valid(one.Value) {
				t.Errorf("%+v: not JSON: %q", mode, one.Value)
			}
			if value := mergeLevels("p", [][]source{{z}, {x, y}}); one.Error == "" && valueEffect(parseTree(z, 0), value) == InConflict {
				t.Errorf("%+v: a value without a conflict is in conflict", mode)
			}
		}
	})
}
