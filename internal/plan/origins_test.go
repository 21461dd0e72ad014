package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// What is said of a property is listed from global to node with what became of it, and
// the value shown is the one that agents are sent.
func TestPropertiesSayWhereTheyComeFrom(t *testing.T) {
	h := newHouse(t)
	raw := func(s string) map[string]json.RawMessage { return map[string]json.RawMessage{"p": json.RawMessage(s)} }
	property := func(name, scope, value string) {
		h.put("Property", "default", name, nil, &model.PropertySpec{Property: "p", Scope: scope, Value: json.RawMessage(value)})
	}
	group := func(name, value string) {
		h.put("Group", "default", name, nil, &model.GroupSpec{Properties: raw(value)})
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
		"two": `p is set differently by group deep and by group flat
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
