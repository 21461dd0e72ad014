package plan

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/inventory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// TestGroupsFollowInventories changes inventories, and compares the members of groups with members that the
// test computes itself. It expects that no condition is evaluated after a change of a section that no condition
// reads.
func TestGroupsFollowInventories(t *testing.T) {
	h := newTestPlanner(t)
	var names []string
	inventories := map[model.NodeID][]inventory.Entry{}
	for i := range 12 {
		name := fmt.Sprintf("n%02d", i)
		h.node(name, map[string]string{"env": []string{"prod", "test"}[i%2]})
		names = append(names, name)
	}
	h.apply("Group", "default", "nginx", nil, &model.GroupSpec{Where: `inventory.packages.exists(p, p.name == "nginx")`})
	h.apply("Group", "default", "bare", nil, &model.GroupSpec{Where: `node.labels.env == "prod" && !inventory.packages.exists(p, p.name == "nginx")`})
	h.apply("Group", "default", "outer", nil, &model.GroupSpec{Groups: []string{"nginx"}})
	h.apply("Check", "default", "web", nil, commandCheck("true", &model.Targets{Groups: []string{"outer"}}))
	if got := slices.Concat(h.members("nginx"), h.members("bare")); got != nil {
		t.Errorf("without inventories groups have %v", got)
	}
	h.p.SetInventories(func(context.Context) EntrySearch {
		return func(id model.NodeID, term *where.EntryTerm) (found, known bool) {
			list, known := inventories[id]
			return slices.ContainsFunc(list, term.Match), known
		}
	})
	r := rand.New(rand.NewPCG(1, 1))
	for round := range 60 {
		name := names[r.IntN(len(names))]
		id := h.id(name)
		before := h.p.Counts()
		switch r.IntN(3) {
		case 0: // of no concern
			inventories[id] = append(slices.Clone(inventories[id]), inventory.New(inventory.Users, fmt.Sprint("u", round)))
			sections := inventory.Users.Bit()
			if len(inventories[id]) == 1 {
				sections = ^uint32(0) // the first inventory
			}
			h.p.EvaluateInventories(map[model.NodeID]uint32{id: sections})
			if after := h.p.Counts(); sections == inventory.Users.Bit() && (after.Conditions != before.Conditions || after.Nodes != before.Nodes) {
				t.Errorf("a change of users evaluated %d conditions on %d nodes", after.Conditions-before.Conditions, after.Nodes-before.Nodes)
			}
		case 1:
			inventories[id] = []inventory.Entry{inventory.New(inventory.Packages, "nginx", fmt.Sprint(round), "amd64", "deb")}
			h.p.EvaluateInventories(map[model.NodeID]uint32{id: ^uint32(0)})
		default:
			inventories[id] = []inventory.Entry{inventory.New(inventory.Packages, "apache2", "1", "amd64", "deb")}
			h.p.EvaluateInventories(map[model.NodeID]uint32{id: ^uint32(0)})
		}
		var nginx, bare []string
		for i, name := range names {
			list, known := inventories[h.id(name)]
			has := slices.ContainsFunc(list, func(e inventory.Entry) bool { return e.Section() == inventory.Packages && e.Name() == "nginx" })
			if has {
				nginx = append(nginx, name)
			} else if known && i%2 == 0 {
				bare = append(bare, name)
			}
			if got := slices.Contains(h.checkNames(name), "web"); got != has {
				t.Fatalf("round %d: node %s has the check: %v", round, name, got)
			}
		}
		if !slices.Equal(h.members("nginx"), nginx) || !slices.Equal(h.members("outer"), nginx) || !slices.Equal(h.members("bare"), bare) {
			t.Fatalf("round %d: nginx %v, want %v; bare %v, want %v", round, h.members("nginx"), nginx, h.members("bare"), bare)
		}
	}
}
