package plan

import (
	"context"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// EntrySearch is a function that searches a node's inventory for an entry with given properties. known is false if the
// node has no inventory. One goroutine at a time may call it.
type EntrySearch func(model.NodeID, *where.EntryTerm) (found, known bool)

// SetInventories sets the function that searches inventories, and then evaluates all conditions on inventories.
// Before this call such a condition selects no node. It returns the nodes whose assignment changed. The results of a
// search mean nothing after the end of its context.
func (p *Planner) SetInventories(newSearch func(context.Context) EntrySearch) []model.NodeID {
	p.compiling.Lock()
	defer p.compiling.Unlock()
	p.mu.Lock()
	p.fleet.newSearch = newSearch
	p.fleet.search = newSearch(context.Background())
	p.fleet.conditions.searchBy(p.fleet.search)
	all := make(map[model.NodeID]uint32, len(p.fleet.nodes))
	for id := range p.fleet.nodes {
		all[id] = ^uint32(0)
	}
	p.mu.Unlock()
	return p.commit(newTranslation(), p.Revision(), all)
}

// EvaluateInventories evaluates all conditions on inventories again, after the inventories of some nodes
// changed. It evaluates conditions that read a changed section. changed has the sections by node
// (inventory.Section.Bit). It returns the nodes whose assignment changed.
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

// differingNodes returns the nodes for which the result of an inventory condition has changed. Only conditions over a
// changed section of the inventory are evaluated.
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
