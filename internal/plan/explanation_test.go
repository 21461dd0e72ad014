package plan

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// sentences is a Explanation as people read it.
func sentences(w Explanation) string {
	text := "- "
	if w.Lands {
		text = "+ "
	}
	text += w.Text + "\n"
	for _, under := range w.Under {
		text += "  " + strings.ReplaceAll(strings.TrimSuffix(sentences(under), "\n"), "\n", "\n  ") + "\n"
	}
	return text
}

func TestExplainCheckNamesTheChain(t *testing.T) {
	h := newHouse(t)
	h.node("web01", map[string]string{"env": "prod"}, "web")
	h.node("db01", map[string]string{"env": "test"})
	h.put("Group", "default", "prod", nil, &model.GroupSpec{Where: `node.labels.env == "prod"`})
	h.put("Group", "default", "all", nil, &model.GroupSpec{Groups: []string{"web", "prod"}, Nodes: []string{"a", "b", "c", "d", "e", "f"}})
	h.put("Namespace", "", "other", nil, &model.NamespaceSpec{})

	targets := &model.Targets{Groups: []string{"all", "nobody"}, Except: &model.Targets{Nodes: []string{"web01"}}}
	h.put("Check", "default", "excepted", nil, shell("true", targets))
	h.put("Check", "default", "plain", nil, shell("true", &model.Targets{Groups: []string{"all"}}))
	h.put("Check", "default", "nowhere", nil, shell("true", nil))
	h.put("Check", "other", "theirs", nil, shell("true", &model.Targets{Nodes: []string{"web01"}}))

	for _, c := range []struct{ namespace, check, node, want string }{
		{"default", "plain", "web01", `
+ check plain lands here
  + it is in group all
    + it is in group web
      + the node lists it (spec.groups): an operator put it there
    + it is in group prod
      + the condition holds: node.labels.env == "prod"`},
		{"default", "plain", "db01", `
- check plain does not name this node
  - it is not in group all
    - it is not in group web, which is declared nowhere
    - it is not in group prod
      - the condition does not hold: node.labels.env == "prod"
    - named are other nodes: a, b, c, d, e, …
  - it would, if the node were in group all: list that under spec.groups, muster edit node db01`},
		{"default", "excepted", "web01", `
- check excepted names this node and excepts it again
  + it is in group all
    + it is in group web
      + the node lists it (spec.groups): an operator put it there
    + it is in group prod
      + the condition holds: node.labels.env == "prod"
  + except: it is named: web01`},
		{"default", "nowhere", "web01", `
- check nowhere is disabled, or has no targets: it runs nowhere`},
		{"other", "theirs", "web01", `
- check other/theirs is of namespace other: it runs on the nodes of that namespace only`},
	} {
		id, _ := h.p.directory.CheckByName(c.namespace, c.check)
		why, ok := h.p.Inspector().ExplainCheck(h.id(c.node), id)
		if got := strings.TrimSpace(sentences(why)); !ok || got != strings.TrimSpace(c.want) {
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
