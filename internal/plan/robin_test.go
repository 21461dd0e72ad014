package plan

import (
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// What turns are given by: who runs it, and what it is about.
func TestRobins(t *testing.T) {
	h := newHouse(t)
	h.put("Group", "default", "pollers", nil, &model.GroupSpec{})
	a, b := h.node("a", nil, "pollers"), h.node("b", nil, "pollers")
	h.node("other", nil)
	s1, s2 := h.proxy("s1", "192.0.2.1"), h.proxy("s2", "192.0.2.2")
	about := ping()
	about.RoundRobin = true
	h.put("Check", "default", "ping", nil, about)
	plain := shell("true", &model.Targets{Groups: []string{"pollers"}})
	h.put("Check", "default", "all", nil, plain)
	alone := *plain
	alone.RoundRobin = true
	h.put("Check", "default", "one", nil, &alone)

	list := h.p.directory.RoundRobins()
	if len(list) != 2 || list[0].Chunk.Name != "ping" || list[1].Chunk.Name != "one" {
		t.Fatalf("robins: %+v", list)
	}
	for i, want := range [][]model.NodeID{{s1, s2}, {0}} {
		r := list[i]
		var got []model.NodeID
		for _, s := range r.Subjects {
			got = append(got, s.ID)
		}
		if members := nodeIDs(r.Members); !slices.Equal(members, []model.NodeID{a, b}) || !slices.Equal(got, want) || r.Namespace != "default" {
			t.Errorf("%s: members %v, about %v in %s", r.Chunk.Name, members, got, r.Namespace)
		}
	}
	if held := h.p.directory.For(a); !slices.ContainsFunc(held.Chunks, func(c *model.Chunk) bool { return c.Name == "one" && c.AsCheck().RoundRobin }) {
		t.Errorf("the agent is not told that it does not run it by itself: %+v", held.Chunks)
	}
	off := alone
	off.Disabled = true
	h.put("Check", "default", "one", nil, &off)
	about.Targets = nil
	h.put("Check", "default", "ping", nil, about)
	if list := h.p.directory.RoundRobins(); len(list) != 0 {
		t.Errorf("left: %+v", list)
	}
}
