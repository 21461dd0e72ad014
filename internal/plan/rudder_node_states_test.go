package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
)

// TestNodeStatesAsInRudder sets each lifecycle state of a node, and expects directives only in states that
// allow policies. The node's check runs in all states.
func TestNodeStatesAsInRudder(t *testing.T) {
	h := newTestPlanner(t)
	h.node("n1", nil, "all")
	h.apply("Technique", "default", "motd", nil, motdTechnique("message"))
	h.apply("Policy", "default", "all", nil, &model.PolicySpec{Directives: []string{"hello"}, Targets: &model.Targets{Groups: []string{"all"}}})
	h.apply("Check", "default", "load", nil, commandCheck("true", &model.Targets{Groups: []string{"all"}}))
	for _, c := range []struct {
		state string
		runs  bool
	}{
		{"", true}, {model.StateInitializing, true}, {model.StateEmptyPolicies, false}, {model.StateEnabled, true}, {model.StateIgnored, false}, {model.StatePreparingEOL, true},
	} {
		h.apply("Node", "default", "n1", nil, &model.NodeSpec{Groups: []string{"all"}, State: c.state})
		for _, name := range []string{"hello", ""} { // by a changed node, and by a changed directive
			h.apply("Directive", "default", "hello", nil, nil)
			h.apply("Directive", "default", "hello", nil, motdDirective(c.state+name))
			if runs := h.directiveOn("n1", "hello") != nil; runs != c.runs {
				t.Errorf("state %q: the directive runs: %v", c.state, runs)
			}
		}
		if names := strings.Join(h.checkNames("n1"), " "); !strings.Contains(names, "load") {
			t.Errorf("state %q: the node has %s", c.state, names)
		}
		id, _ := h.p.directory.UnitByName(directory.DirectiveKind, "default", "hello")
		why, _ := h.p.Inspector().ExplainCheck(h.id("n1"), id)
		if why.Lands != c.runs || !c.runs && !strings.Contains(why.Text, "no directive runs on a node of the state "+c.state) {
			t.Errorf("state %q is explained as %+v", c.state, why)
		}
	}
}

// TestPropertiesMergeAsInRudder merges property values by each mode of inheritance, and expects Rudder's result. It
// also checks the effect of each declared value.
func TestPropertiesMergeAsInRudder(t *testing.T) {
	for _, c := range []struct {
		merge               model.PropertyMerge
		global, group, node string
		want, effects       string
	}{
		{model.PropertyMerge{}, `{"a":1,"b":{"c":[1]}}`, `{"b":{"c":[2],"d":"x"}}`, `{"a":2}`, `{"a":2,"b":{"c":[2],"d":"x"}}`, "overridden, in force, in force"},
		{model.PropertyMerge{Objects: model.MergeOverride}, `{"a":1,"b":2}`, `{"b":{"c":3}}`, `{"b":{"d":4}}`, `{"b":{"d":4}}`, "overridden, overridden, in force"},
		{model.PropertyMerge{Lists: model.MergeAppend}, `[1]`, `[2,3]`, `[4]`, `[1,2,3,4]`, "partly in force, partly in force, partly in force"},
		{model.PropertyMerge{Lists: model.MergePrepend}, `[1]`, `[2,3]`, `[4]`, `[4,2,3,1]`, "partly in force, partly in force, partly in force"},
		{model.PropertyMerge{Lists: model.MergeAppend}, `[]`, ``, `[4]`, `[4]`, "partly in force, in force"},
		{model.PropertyMerge{Lists: model.MergeAppend}, `{"dns":["a"],"n":"x"}`, `{"dns":["b"]}`, `{"n":"y"}`, `{"dns":["a","b"],"n":"y"}`, "partly in force, partly in force, in force"},
		{model.PropertyMerge{Texts: model.MergeAppend}, `"-a"`, `" -b"`, `" -c"`, `"-a -b -c"`, "partly in force, partly in force, partly in force"},
		{model.PropertyMerge{Texts: model.MergePrepend}, `"-a"`, ``, `"-c "`, `"-c -a"`, "partly in force, partly in force"},
		{model.PropertyMerge{Texts: model.MergeAppend}, `["a"]`, ``, `["b"]`, `["b"]`, "overridden, in force"},
		{model.PropertyMerge{Lists: model.MergeAppend}, `["a"]`, ``, `"b"`, `"b"`, "overridden, in force"},
	} {
		h := newTestPlanner(t)
		h.node("n1", nil, "g1")
		h.apply("Property", "default", "p", nil, &model.PropertySpec{Scope: "global", Value: json.RawMessage(c.global), Merge: c.merge})
		if c.group != "" { // a mode of a narrower level does not count
			h.apply("Property", "default", "p-group", nil, &model.PropertySpec{Property: "p", Scope: "group:g1", Value: json.RawMessage(c.group), Merge: model.PropertyMerge{Texts: model.MergePrepend}})
		}
		h.apply("Node", "default", "n1", nil, &model.NodeSpec{Groups: []string{"g1"}, Properties: map[string]json.RawMessage{"p": json.RawMessage(c.node)}})
		value, conflict, ok := h.p.Inspector().NodeProperties(h.id("n1"))("p")
		if string(value) != c.want || conflict != "" || !ok {
			t.Errorf("%+v: %s %q, want %s", c, value, conflict, c.want)
		}
		var effects []string
		for _, o := range h.p.Inspector().PropertyOrigins(h.id("n1")) {
			for _, from := range o.From {
				effects = append(effects, from.Effect)
			}
		}
		if got := strings.Join(effects, ", "); got != c.effects {
			t.Errorf("%+v: effects %s, want %s", c, got, c.effects)
		}
	}
	h := newTestPlanner(t)
	h.node("n1", nil, "g1", "g2")
	h.apply("Property", "default", "p", nil, &model.PropertySpec{Scope: "global", Value: json.RawMessage(`[1]`), Merge: model.PropertyMerge{Lists: model.MergeAppend}})
	for i, group := range []string{"g1", "g2"} {
		h.apply("Group", "default", group, nil, &model.GroupSpec{Properties: map[string]json.RawMessage{"p": json.RawMessage(fmt.Sprintf("[%d]", i+2))}})
	}
	if _, conflict, _ := h.p.Inspector().NodeProperties(h.id("n1"))("p"); !strings.Contains(conflict, "different values from group g1 and group g2") {
		t.Errorf("two unrelated groups: %q", conflict)
	}
}
