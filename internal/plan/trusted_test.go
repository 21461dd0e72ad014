package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// Who brings machines into a trusted group that joined by a token is told, once for each
// node that he writes and once for each group; of all others he is not.
func TestPreviewWarnsOfTokensInTrustedGroups(t *testing.T) {
	h := newHouse(t)
	token := &model.JoinGrant{Token: "4f1c"}
	node := func(given *model.JoinGrant, groups ...string) *model.NodeSpec {
		return &model.NodeSpec{JoinGrant: given, Groups: groups}
	}
	for i := range 7 {
		h.put("Node", "default", fmt.Sprint("n", i), map[string]string{"rack": "a"}, node(token))
	}
	h.put("Node", "default", "accepted", map[string]string{"rack": "a"}, node(&model.JoinGrant{Groups: []string{"x"}}))
	h.put("Node", "default", "declared", map[string]string{"rack": "a"}, node(nil))
	h.put("Node", "default", "inside", map[string]string{"role": "pay"}, node(token))
	pay := &model.GroupSpec{Trusted: true, Where: `node.labels.role == "pay"`}
	h.put("Group", "default", "pay", nil, pay)
	h.put("Group", "default", "around", nil, &model.GroupSpec{Trusted: true, Groups: []string{"pay"}})
	h.put("Group", "default", "plain", nil, &model.GroupSpec{Where: `node.labels.rack == "a"`})

	write := func(kind, name string, labels map[string]string, spec model.Spec) intent.Write {
		return intent.Write{Key: intent.Key{Kind: kind, Namespace: "default", Name: name}, Body: encode(t, kind, "default", name, labels, spec)}
	}
	role := map[string]string{"role": "pay"}
	wider := &model.GroupSpec{Trusted: true, Where: `node.labels.role == "pay" || node.labels.rack == "a"`}
	for name, c := range map[string]struct {
		writes []intent.Write
		want   []string // what each write's warnings hold, all of them; empty: none
	}{
		"a label":                {[]intent.Write{write("Node", "n0", role, node(token))}, []string{"trusted group around|trusted group pay, and its machine joined with join token 4f1c"}},
		"a group said":           {[]intent.Write{write("Node", "n0", nil, node(token, "pay"))}, []string{"trusted group around|trusted group pay"}},
		"inside already":         {[]intent.Write{write("Node", "inside", role, &model.NodeSpec{JoinGrant: token, Groups: []string{"web"}})}, []string{""}},
		"accepted by a person":   {[]intent.Write{write("Node", "accepted", role, node(&model.JoinGrant{Groups: []string{"x"}}))}, []string{""}},
		"waits for its machine":  {[]intent.Write{write("Node", "declared", role, node(nil)), write("Node", "new", role, node(nil))}, []string{"", ""}},
		"a condition":            {[]intent.Write{write("Group", "pay", nil, wider)}, []string{"7 nodes come into it whose machines joined by a token, under names that they chose: default/n0, default/n1, default/n2, default/n3, default/n4, …"}},
		"trust for a group":      {[]intent.Write{write("Group", "plain", nil, &model.GroupSpec{Trusted: true, Nodes: []string{"n1", "accepted"}})}, []string{"a node comes into it whose machine joined by a token, under a name that it chose: default/n1"}},
		"a group without trust":  {[]intent.Write{write("Group", "plain", nil, &model.GroupSpec{Nodes: []string{"n1"}})}, []string{""}},
		"both, each at its node": {[]intent.Write{write("Group", "pay", nil, &model.GroupSpec{Trusted: true, Where: `node.labels.role != ""`}), write("Node", "n0", role, node(token))}, []string{"", "trusted group around|trusted group pay"}},
	} {
		landings, _, err := h.p.Preview(t.Context(), c.writes)
		if err != nil {
			t.Fatal(name, err)
		}
		for i, want := range c.want {
			got := landings[i].Warnings
			parts := strings.Split(want, "|")
			if want == "" {
				parts = nil
			}
			if len(got) != len(parts) {
				t.Errorf("%s: %q", name, got)
				continue
			}
			for j, part := range parts {
				if !strings.Contains(got[j], part) {
					t.Errorf("%s: %q, want %q", name, got[j], part)
				}
			}
		}
	}
}
