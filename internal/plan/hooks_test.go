package plan

import (
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// The command of a Hook reaches the nodes with the check that names it, with its properties,
// and again when it changes.
func TestHooksByNameReachTheNodes(t *testing.T) {
	h := newHouse(t)
	h.node("web01", nil, "web")
	h.put("Hook", "default", "look", nil, &model.HookSpec{Command: &model.Command{Shell: "ps"}, Stdin: true})
	spec := shell("true", &model.Targets{Groups: []string{"web"}})
	spec.Hooks = []model.Hook{{Hook: "look", When: []string{"critical"}}, {Name: "own", When: []string{"ok"}, Command: &model.Command{Shell: "uptime"}}}
	spec.Pipelines = []string{"alerts"}
	h.put("Check", "default", "cpu", nil, spec)
	held := func(command string, stdin bool) {
		t.Helper()
		chunks := h.p.directory.For(h.id("web01")).Chunks
		if len(chunks) != 1 || len(chunks[0].AsCheck().Hooks) != 2 || len(chunks[0].AsCheck().Pipelines) != 1 {
			t.Fatalf("%+v", chunks)
		}
		if got := chunks[0].AsCheck().Hooks[0]; got.Name != "look" || got.Command.Shell != command || got.Stdin != stdin || got.Hook != "" || got.When[0] != "critical" {
			t.Errorf("%+v", got)
		}
		if got := chunks[0].AsCheck().Hooks[1]; got.Name != "own" || got.Command.Shell != "uptime" {
			t.Errorf("%+v", got)
		}
	}
	held("ps", true)
	h.put("Property", "default", "flags", nil, &model.PropertySpec{Value: []byte(`"-ef"`)})
	h.put("Hook", "default", "look", nil, &model.HookSpec{Command: &model.Command{Shell: "ps {{ .props.flags }}"}})
	held("ps {{ .props.flags }}", false)
	if got := h.p.directory.For(h.id("web01")).Properties; len(got) != 1 || got[0].Name != "flags" {
		t.Errorf("%+v", got)
	}
}
