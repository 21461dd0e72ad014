package zabbix

import (
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// itemIndex finds the items of a node by key and by the agent's number for the key. Nodes with equal assignments
// share it.
type itemIndex struct {
	byKey    map[string]*nodeItem
	byNumber map[uint64]*nodeItem // those that agents collect
}

// nodeItem has the items with one key: one for each Template of the node that has the key.
type nodeItem struct {
	trapper  bool // else agents collect it
	interval time.Duration
	places   []itemLocation
}

// itemLocation locates an item: its Template, and its index in blocks of values.
type itemLocation struct {
	definition model.DefinitionID
	macros     string // as in wire.ValueBlock
	position   uint32
}

// itemIndexes caches the item indexes of recently used assignments.
type itemIndexes struct {
	mu     sync.Mutex
	byHash map[[32]byte]itemIndex
}

// maxIndexes bounds the kept indexes; an index that was dropped is made again.
const maxIndexes = 4096

// forAssignment returns the item index of an assignment, from the cache if possible.
func (x *itemIndexes) forAssignment(a *directory.Assignment) itemIndex {
	x.mu.Lock()
	defer x.mu.Unlock()
	index, ok := x.byHash[a.Hash]
	if !ok {
		if len(x.byHash) >= maxIndexes || x.byHash == nil {
			x.byHash = map[[32]byte]itemIndex{}
		}
		index = newItemIndex(a)
		x.byHash[a.Hash] = index
	}
	return index
}

// newItemIndex creates the item index of an assignment. It leaves out items whose values come in no other way than
// from another item, and keys with a macro that has no value.
func newItemIndex(a *directory.Assignment) itemIndex {
	index := itemIndex{map[string]*nodeItem{}, map[uint64]*nodeItem{}}
	for _, definition := range a.Definitions {
		c := definition.AsTemplate()
		if c == nil {
			continue
		}
		set := c.PropertyMacros(wire.PropertyLookup(a.Properties))
		values, macros := c.MacroValues(set), wire.EncodeMacros(set)
		if len(macros) > wire.MaxMacros {
			continue // a block could not name them
		}
		for i := range c.Items {
			of := &c.Items[i]
			key, err := values.Expand(of.Key)
			if err != nil || !of.Trapper && !of.Collected() {
				continue
			}
			n := index.byKey[key]
			if n == nil {
				n = &nodeItem{trapper: of.Trapper, interval: time.Duration(of.Interval)}
				index.byKey[key] = n
				if !n.trapper {
					index.byNumber[itemNumber(key)] = n
				}
			}
			if n.trapper == of.Trapper {
				n.places = append(n.places, itemLocation{c.ID, macros, uint32(i)})
			}
		}
	}
	return index
}
