package plan

import (
	"fmt"
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

func (h *house) members(group string) (names []string) {
	for _, id := range h.p.directory.GroupMembers("default", group) {
		_, name, _ := h.p.directory.NodeName(id)
		names = append(names, name)
	}
	return names
}

// An agent is in the groups that it names where group or node allows it, and hears of
// each change of that; in a trusted group it never is.
func TestAgentsPutThemselvesWhereTheyMay(t *testing.T) {
	h := newHouse(t)
	h.put("Node", "default", "n1", nil, &model.NodeSpec{AgentGroups: []string{"canary", "web", "root"}, MayJoin: []string{"web", "root"}})
	h.put("Node", "default", "n2", nil, &model.NodeSpec{AgentGroups: []string{"canary", "web"}})
	steps := []struct {
		group string
		spec  *model.GroupSpec
		want  []string
	}{
		{"web", nil, []string{"n1"}}, // declared nowhere: who may, is
		{"web", &model.GroupSpec{}, []string{"n1"}},
		{"web", &model.GroupSpec{SelfJoin: true}, []string{"n1", "n2"}},
		{"web", &model.GroupSpec{Trusted: true, Nodes: []string{"n2"}}, []string{"n2"}},
		{"web", &model.GroupSpec{}, []string{"n1"}},
		{"canary", &model.GroupSpec{}, nil},
		{"canary", &model.GroupSpec{SelfJoin: true}, []string{"n1", "n2"}},
		{"around", &model.GroupSpec{Groups: []string{"canary"}}, []string{"n1", "n2"}},
		{"around", &model.GroupSpec{Groups: []string{"canary"}, Trusted: true}, nil},
		{"root", &model.GroupSpec{Trusted: true}, nil},
	}
	for i, s := range steps {
		if s.spec != nil {
			h.put("Group", "default", s.group, nil, s.spec)
		}
		if got := h.members(s.group); !slices.Equal(got, s.want) {
			t.Errorf("step %d, %s %+v: %v, want %v", i, s.group, s.spec, got, s.want)
		}
	}
	want := map[string]bool{"canary": true, "root": false, "web": true}
	got := h.p.Inspector().JoinRequests(h.id("n1"))
	for _, r := range got {
		if accepted, known := want[r.Group]; !known || accepted != r.Accepted || r.Reason == "" {
			t.Errorf("join request of n1: %+v", r)
		}
	}
	if len(got) != len(want) {
		t.Errorf("join requests of n1: %v", got)
	}
	h.put("Node", "default", "n1", nil, &model.NodeSpec{})
	if got := h.members("web"); len(got) != 0 || len(h.p.Inspector().JoinRequests(h.id("n1"))) != 0 {
		t.Errorf("it says no more, and is in %v", got)
	}
}

// The condition of a trusted group sees labels of the server only, whatever the machine
// says under the same name.
func TestTrustedConditionsSeeTheServersLabels(t *testing.T) {
	h := newHouse(t)
	const expr = `node.labels.role == "db"`
	h.put("Group", "default", "trusted", nil, &model.GroupSpec{Where: expr, Trusted: true})
	h.put("Group", "default", "open", nil, &model.GroupSpec{Where: expr})
	h.put("Node", "default", "said", nil, &model.NodeSpec{AgentLabels: map[string]string{"role": "db"}})
	h.put("Node", "default", "measured", nil, &model.NodeSpec{Facts: map[string]string{"role": "db"}})
	h.put("Node", "default", "declared", map[string]string{"role": "db"}, &model.NodeSpec{AgentLabels: map[string]string{"role": "web"}})
	if got := h.members("trusted"); !slices.Equal(got, []string{"declared"}) {
		t.Errorf("trusted: %v", got)
	}
	if got := h.members("open"); !slices.Equal(got, []string{"said", "measured", "declared"}) {
		t.Errorf("open: %v", got)
	}
}

// A fact changes on every node of a fleet, in batches as intent writes them: what is
// computed is the changes, each looked at by each condition once, and nothing else.
func TestChangedFactsOfAFleetCostTheChanges(t *testing.T) {
	const nodes, batch = 2000, 250
	h := fleetOf(t, nodes)
	h.put("Group", "default", "new-kernel", nil, &model.GroupSpec{Where: `node.facts.kernel == "6.13"`})
	h.put("Group", "default", "canary", nil, &model.GroupSpec{SelfJoin: true})
	h.put("Check", "default", "reboot", nil, shell("reboot", &model.Targets{Groups: []string{"new-kernel"}}))
	conditions := uint64(2) // prod, new-kernel
	before := h.p.Counts()
	changed := map[model.NodeID]bool{}
	for first := 0; first < nodes; first += batch {
		var writes []intent.Write
		for i := first; i < first+batch; i++ {
			name := fmt.Sprintf("node%05d", i)
			key := intent.Key{Kind: "Node", Namespace: "default", Name: name}
			spec := &model.NodeSpec{Groups: []string{"all", fmt.Sprint("rack", i/10)}, AgentGroups: []string{"canary"},
				Facts: map[string]string{"os": "linux", "arch": "amd64", "hostname": name, "kernel": "6.13"}}
			writes = append(writes, intent.Write{Key: key, Expect: -1,
				Body: encode(t, "Node", "default", name, map[string]string{"env": []string{"prod", "staging"}[i%2], "site": fmt.Sprint("s", i%20)}, spec)})
		}
		h.write(writes...)
		for _, id := range h.changed {
			changed[id] = true
		}
	}
	after := h.p.Counts()
	got := Counts{
		Passes: after.Passes - before.Passes, Nodes: after.Nodes - before.Nodes, Groups: after.Groups - before.Groups, Units: after.Units - before.Units,
		Conditions: after.Conditions - before.Conditions, Built: after.Built - before.Built, Changed: after.Changed - before.Changed,
	}
	want := Counts{Passes: nodes / batch, Nodes: nodes, Conditions: nodes * conditions, Built: nodes, Changed: nodes}
	if got != want {
		t.Errorf("work\n  %+v, want\n  %+v", got, want)
	}
	if len(changed) != nodes || len(h.members("new-kernel")) != nodes || len(h.members("canary")) != nodes {
		t.Errorf("%d nodes hear of it, %d have the new kernel, %d joined", len(changed), len(h.members("new-kernel")), len(h.members("canary")))
	}
}
