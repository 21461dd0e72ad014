package plan

import (
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// Two bodies of a unit are in force at once; nodes move from the first to the second, and nothing changes
// for them when the second becomes the only one.
func TestRolloutOfASecondBody(t *testing.T) {
	h := newHouse(t)
	a, b, c := h.node("a", nil, "web"), h.node("b", nil, "web"), h.node("c", nil)
	spec := func(line string) *model.CheckSpec {
		return shell(line+" {{ .props.port | default \"1\" }}", &model.Targets{Groups: []string{"web"}})
	}
	key := intent.Key{Kind: "Check", Namespace: "default", Name: "check"}
	h.put(key.Kind, key.Namespace, key.Name, nil, spec("old"))
	id, _ := h.p.directory.CheckByName("default", "check")

	compile := func(line string) *unit {
		t.Helper()
		def, err := h.p.decode(key, uint32(id), encode(t, key.Kind, key.Namespace, key.Name, nil, spec(line)))
		if err != nil {
			t.Fatal(err)
		}
		u, err := h.p.compiler.unit(def.(*declared), func(k intent.Key) any { return h.p.fleet.definitions[k] })
		if err != nil {
			t.Fatal(err)
		}
		if err := h.p.chunks.number(t.Context(), []*unit{u}); err != nil {
			t.Fatal(err)
		}
		return u
	}
	apply := func(u *unit) {
		h.changed, h.forgotten = nil, nil
		h.p.compiling.Lock()
		defer h.p.compiling.Unlock()
		edits := newTranslation()
		edits.set(key, u)
		edits.compare(h.p.fleet.definitions)
		h.p.commit(edits, h.p.Revision()+1)
	}
	commandOn := func(node model.NodeID) string {
		return h.p.directory.For(node).Chunks[0].AsCheck().Command.Shell[:3]
	}
	expect := func(stage string, onA, onB string, changed int) {
		t.Helper()
		if commandOn(a) != onA || commandOn(b) != onB || len(h.changed) != changed || len(h.forgotten) != 0 {
			t.Errorf("%s: a has %q, b has %q, %d assignments changed, %d removals", stage, commandOn(a), commandOn(b), len(h.changed), len(h.forgotten))
		}
		if n := len(h.p.directory.For(c).Chunks); n != 0 {
			t.Errorf("%s: a node outside the targets has %d chunks", stage, n)
		}
	}

	old, next := h.p.fleet.units[id].def, compile("new")
	staged := func(nodes ...model.NodeID) *unit {
		u := *old
		u.next = &rollout{next.body, roaring.New()}
		for _, n := range nodes {
			u.next.nodes.Add(uint32(n))
		}
		return &u
	}
	expect("before", "old", "old", 2)
	apply(staged(a))
	expect("first stage", "new", "old", 1)
	h.put("Node", "default", "a", nil, &model.NodeSpec{Groups: []string{"web"}, Facts: map[string]string{"os": "linux"}})
	expect("a fact in between", "new", "old", 0)
	apply(staged(a, b))
	expect("second stage", "new", "new", 1)
	apply(staged(b))
	expect("one node goes back", "old", "new", 1)
	apply(staged(a, b))
	expect("and on again", "new", "new", 1)
	apply(next)
	expect("after", "new", "new", 0)
}
