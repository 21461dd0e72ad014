package plan

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// TestWaiverReachesItsNodesAlone declares a Waiver, and expects changed assignments only on the nodes that the Waiver
// selects. No definition of a directive changes. It expects an edit of the reason to change nothing, and a warning
// about a Waiver without effect.
func TestWaiverReachesItsNodesAlone(t *testing.T) {
	h := newTestPlanner(t)
	h.node("n1", nil, "all")
	h.node("n2", nil, "all")
	h.apply("Technique", "default", "motd", nil, motdTechnique("message"))
	h.apply("Directive", "default", "hello", nil, motdDirective("hello"))
	h.apply("Policy", "default", "all", nil, &model.PolicySpec{Directives: []string{"hello"}, Targets: &model.Targets{Groups: []string{"all"}}})
	definition := h.directiveOn("n1", "hello")
	spec := &model.WaiverSpec{Directive: "hello", Components: []string{"message"}, Targets: &model.Targets{Nodes: []string{"n1"}}, Reason: "a", Expires: model.Time{Time: time.Unix(2e9, 0)}}
	waiverOn := func(node string) (found *model.WaiverDefinition) {
		for _, c := range h.p.directory.AssignmentOf(h.id(node)).Definitions {
			if w := c.AsWaiver(); w != nil {
				found = w
			}
		}
		return found
	}
	h.changed = nil
	h.apply("Waiver", "default", "w", nil, spec)
	w := waiverOn("n1")
	if len(h.changed) != 1 || w == nil || waiverOn("n2") != nil || h.directiveOn("n1", "hello").ID != definition.ID {
		t.Fatalf("assignments of %v changed, waiver %+v and %+v", h.changed, w, waiverOn("n2"))
	}
	if !w.CoversDirective(definition) || !w.CoversComponent("message") || w.CoversComponent("other") || !w.Expires().Equal(time.Unix(2e9, 0)) {
		t.Errorf("waiver %+v", w)
	}
	h.changed = nil
	spec.Reason = "b"
	h.apply("Waiver", "default", "w", nil, spec)
	if len(h.changed) != 0 {
		t.Errorf("a new reason changed the assignments of %v", h.changed)
	}
	spec.Directive, spec.Technique, spec.Components = "", "motd", nil
	h.apply("Waiver", "default", "w", nil, spec)
	if w := waiverOn("n1"); w == nil || !w.CoversDirective(definition) || !w.CoversComponent("message") {
		t.Errorf("waiver of the technique: %+v", w)
	}
	h.apply("Group", "default", "linux", nil, &model.GroupSpec{Where: `node.name == "n1"`})
	for want, spec := range map[string]*model.WaiverSpec{
		"on 1 node facts, or labels and groups of the agent, select it": {Technique: "motd", Targets: &model.Targets{Groups: []string{"linux"}}},
		"":                                  {Technique: "motd", Targets: &model.Targets{Groups: []string{"all"}}},
		"none of its nodes has a directive": {Directive: "shared/hello", Targets: &model.Targets{Groups: []string{"all"}}},
		"no directive that it covers has the component other: muster describe": {Directive: "hello", Components: []string{"message", "other"}, Targets: &model.Targets{Nodes: []string{"n2"}}},
	} {
		key := intent.Key{Kind: "Waiver", Namespace: "default", Name: "preview"}
		out, err := h.p.Preview(t.Context(), []intent.Write{{Key: key, Body: encodeSpec(t, key.Kind, key.Namespace, key.Name, nil, spec)}}, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(out.Placements[0].Warnings, "; "); want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("warnings %q, want %q", got, want)
		}
	}
	h.forgotten = nil
	h.apply("Waiver", "default", "w", nil, nil)
	if waiverOn("n1") != nil || !reflect.DeepEqual(h.directiveOn("n1", "hello"), definition) {
		t.Error("the waiver stayed")
	}
}
