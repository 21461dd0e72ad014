package plan

import (
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// TestPolicyCountsItsOwnNodesOnce previews a policy, and expects the count of its nodes to include each node once.
// Nodes of other policies do not count.
func TestPolicyCountsItsOwnNodesOnce(t *testing.T) {
	h := newTestPlanner(t)
	for _, name := range []string{"n1", "n2", "n3"} {
		h.node(name, nil, "all")
	}
	h.apply("Technique", "default", "motd", nil, motdTechnique("message"))
	h.apply("Directive", "default", "hello", nil, motdDirective("hello"))
	h.apply("Directive", "default", "bye", nil, motdDirective("bye"))
	h.apply("Policy", "default", "all", nil, &model.PolicySpec{Directives: []string{"hello"}, Targets: &model.Targets{Groups: []string{"all"}}})
	key := intent.Key{Kind: "Policy", Namespace: "default", Name: "two"}
	spec := &model.PolicySpec{Directives: []string{"hello", "bye"}, Targets: &model.Targets{Nodes: []string{"n1", "n2"}}}
	out, err := h.p.Preview(t.Context(), []intent.Write{{Key: key, Body: encodeSpec(t, key.Kind, key.Namespace, key.Name, nil, spec)}}, false)
	if err != nil {
		t.Fatal(err)
	}
	if l := out.Placements[0]; l.Nodes != 2 {
		t.Errorf("placement %+v, want 2 nodes", l)
	}
}
