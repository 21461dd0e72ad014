package inventory

import (
	"context"
	"slices"

	"github.com/muster-fleet/muster/internal/inventory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// Search finds nodes by conditions on one inventory entry, such as on the version of a package. A term is evaluated
// once for each distinct entry of the fleet, and again for those that are new since. A Search is not safe for
// concurrent use.
type Search struct {
	ctx  context.Context // ends the search
	view *View
	sets map[*where.EntryTerm]*entrySet
}

// entrySet has the ids of the inventory entries that match a search condition.
type entrySet struct {
	assigned uint64 // dictionary.assigned when the set was complete
	bits     []uint64
	ids      []uint32 // ascending, while they are few
	count    int
}

// fewIDs is the largest number of ids for a binary search per id. For more ids, a look at each entry of a node is
// faster.
const fewIDs = 16

// NewSearch returns an empty Search over the inventories of the view. It evaluates a condition when HasEntry first
// gets it. After the end of ctx its results mean nothing.
func (v *View) NewSearch(ctx context.Context) *Search {
	return &Search{ctx: ctx, view: v, sets: map[*where.EntryTerm]*entrySet{}}
}

// HasEntry reports whether any package or other entry of a node's inventory matches a condition. known is false if the
// node has no inventory.
func (s *Search) HasEntry(id model.NodeID, t *where.EntryTerm) (found, known bool) {
	set := s.sets[t]
	if set == nil {
		set = &entrySet{}
		s.sets[t] = set
	}
	for {
		set.update(s.ctx, s.view.dictionary, t)
		current := true
		found, known = false, false
		s.view.read(id, func(n *node) {
			// The node keeps its ids while the mutex of its partition is held.
			known = true
			if current = set.assigned == s.view.dictionary.assigned.Load(); current {
				found = set.contains(n.ids)
			}
		})
		if current {
			return found, known
		}
	}
}

// update adds to the set all new inventory entries of the dictionary that match the search condition. They are
// the entries that nodes have reported since the last update.
func (x *entrySet) update(ctx context.Context, d *dictionary, t *where.EntryTerm) {
	if x.assigned == d.assigned.Load() {
		return
	}
	type candidate struct {
		id    uint32
		entry inventory.Entry
	}
	var list []candidate
	d.mu.RLock()
	for id := range d.slots {
		if slot := &d.slots[id]; slot.assigned > x.assigned {
			list = append(list, candidate{uint32(id), slot.entry})
		}
	}
	x.assigned = d.assigned.Load()
	size := (len(d.slots) + 63) / 64
	d.mu.RUnlock()
	if size > len(x.bits) {
		x.bits = append(x.bits, make([]uint64, size-len(x.bits))...)
	}
	for i, c := range list {
		if i%256 == 0 && ctx.Err() != nil {
			return
		}
		word, bit := &x.bits[c.id/64], uint64(1)<<(c.id%64)
		if *word&bit != 0 { // of the entry that had this id before
			x.count--
		}
		*word &^= bit
		if t.Match(c.entry) {
			*word |= bit
			x.count++
		}
	}
	x.ids = x.ids[:0]
	for i := 0; x.count <= fewIDs && i < len(x.bits); i++ {
		for bit := range 64 {
			if x.bits[i]>>bit&1 == 1 {
				x.ids = append(x.ids, uint32(i*64+bit))
			}
		}
	}
}

// contains reports whether the set contains any of the ids of a node's inventory entries. The ids are
// ascending.
func (x *entrySet) contains(ids []uint32) bool {
	if x.count <= fewIDs {
		return slices.ContainsFunc(x.ids, func(id uint32) bool { return has(ids, id) })
	}
	return slices.ContainsFunc(ids, func(id uint32) bool { return x.bits[id/64]>>(id%64)&1 == 1 })
}
