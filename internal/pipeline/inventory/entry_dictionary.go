package inventory

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/muster-fleet/muster/internal/inventory"
	"github.com/muster-fleet/muster/internal/model"
)

// dictionary stores each distinct inventory entry of all nodes once, under an id. An example of an entry is a package
// with its version. An id whose last reference is released is given to another entry. Ids depend on the order in which
// partitions are applied; so no snapshot has them.
type dictionary struct {
	mu       sync.RWMutex
	ids      map[inventory.Entry]uint32
	slots    []dictionaryEntry // by id
	free     []uint32
	sizes    map[model.NamespaceID]int // entries of all nodes
	assigned atomic.Uint64             // ids given so far
}

// dictionaryEntry is one entry in the dictionary, such as a package, with the number of its uses.
type dictionaryEntry struct {
	entry    inventory.Entry
	hash     uint64
	refs     uint32 // in inventories and differences
	assigned uint64 // dictionary.assigned when the entry got the id
}

// newDictionary returns an empty dictionary.
func newDictionary() *dictionary {
	return &dictionary{ids: map[inventory.Entry]uint32{}, sizes: map[model.NamespaceID]int{}}
}

// maxIDs limits the ids of entries, because differences need one bit of each id.
const maxIDs = math.MaxInt32

// acquireLocked returns the id of an inventory entry such as a package, and counts one more use. The caller holds the
// lock.
func (d *dictionary) acquireLocked(e inventory.Entry) uint32 {
	id, ok := d.ids[e]
	if !ok {
		if last := len(d.free) - 1; last >= 0 {
			id, d.free = d.free[last], d.free[:last]
		} else if id = uint32(len(d.slots)); id < maxIDs {
			d.slots = append(d.slots, dictionaryEntry{})
		} else {
			panic("BUG: more entries than the limits of namespaces allow")
		}
		e = inventory.Entry(strings.Clone(string(e))) // without the buffer that it was built in
		d.ids[e] = id
		d.slots[id] = dictionaryEntry{entry: e, hash: e.Hash(), assigned: d.assigned.Add(1)}
	}
	d.slots[id].refs++
	return id
}

// releaseLocked counts one use less of an inventory entry, and frees the id of an unused entry. The caller holds the
// lock.
func (d *dictionary) releaseLocked(id uint32) {
	s := &d.slots[id]
	if s.refs--; s.refs == 0 {
		delete(d.ids, s.entry)
		*s = dictionaryEntry{}
		d.free = append(d.free, id)
	}
}

// entries returns the inventory entries, such as packages, that have the given ids.
func (d *dictionary) entries(ids []uint32) []inventory.Entry {
	d.mu.RLock()
	defer d.mu.RUnlock()
	list := make([]inventory.Entry, len(ids))
	for i, id := range ids {
		list[i] = d.slots[id].entry
	}
	return list
}
