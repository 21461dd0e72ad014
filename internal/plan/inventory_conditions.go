package plan

import (
	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// EntrySearch is a function that reports whether the inventory of a node has an entry that matches a term; known is
// false if the node has no inventory. One goroutine at a time may call it.
type EntrySearch func(model.NodeID, *where.EntryTerm) (found, known bool)

// SetInventories sets the function that creates searches in inventories, and evaluates the groups' conditions that read
// inventories; before this call such a condition selects no node. It returns the nodes whose assignment changed.
func (p *Planner) SetInventories(newSearch func() EntrySearch) []model.NodeID {
	p.compiling.Lock()
	defer p.compiling.Unlock()
	p.mu.Lock()
	p.fleet.newSearch = newSearch
	x, search := p.fleet.conditions, newSearch()
	x.all.SetInventory(func(t *where.EntryTerm) (found, known bool) { return search(x.seen, t) })
	all := make(map[model.NodeID]uint32, len(p.fleet.nodes))
	for id := range p.fleet.nodes {
		all[id] = ^uint32(0)
	}
	p.mu.Unlock()
	return p.commit(newTranslation(), p.Revision(), all)
}

// EvaluateInventories evaluates those conditions of groups again, for the nodes whose inventories changed, that read a
// changed section. changed has the sections by node (inventory.Section.Bit). It returns the nodes whose assignment
// changed.
func (p *Planner) EvaluateInventories(changed map[model.NodeID]uint32) []model.NodeID {
	p.compiling.Lock()
	defer p.compiling.Unlock()
	p.mu.RLock()
	readers := p.fleet.conditions.inventoryReaders
	p.mu.RUnlock()
	if readers == 0 || len(changed) == 0 {
		return nil
	}
	return p.commit(newTranslation(), p.Revision(), changed)
}

// differingNodes returns the nodes for which a condition over a changed section of the inventory has another result than
// before.
func differingNodes(f *fleet, changed map[model.NodeID]uint32) *roaring.Bitmap {
	differing := roaring.New()
	for id, sections := range changed {
		n := f.nodes[id]
		if n == nil {
			continue
		}
		set := false
		f.conditions.inNamespace(n.def.Namespace, func(s *conditionState) {
			if s.InventorySections()&sections == 0 {
				return
			}
			if !set {
				f.conditions.setNode(n.def, func() []string { return f.groupNames(n.groups) })
				set = true
			}
			f.counts.Conditions++
			if s.Match(f.conditions.all) != s.matches.Contains(uint32(id)) {
				differing.Add(uint32(id))
			}
		})
	}
	return differing
}
