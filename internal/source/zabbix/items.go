package zabbix

import (
	"sync"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// itemIndex finds the items of a node by key. Nodes with equal assignments share it.
type itemIndex map[string]*nodeItem

// nodeItem has the items of one key: one per Template of the node that has the key.
type nodeItem struct {
	trapper bool // else agents collect it
	places  []itemPlace
}

// itemPlace is the place of an item in value blocks.
type itemPlace struct {
	definition model.DefinitionID
	macros     string // as in wire.ValueBlock
	position   uint32
}

// itemIndexes keeps the indexes of assignments that were used lately.
type itemIndexes struct {
	mu     sync.Mutex
	byHash map[[32]byte]itemIndex
}

// maxIndexes bounds the kept indexes; an index that was dropped is made again.
const maxIndexes = 4096

// of returns the index of an assignment.
func (x *itemIndexes) of(a *directory.Assignment) itemIndex {
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

// newItemIndex makes the index of an assignment. It leaves out items whose values come in no other way than from another item,
// and keys with a macro that has no value.
func newItemIndex(a *directory.Assignment) itemIndex {
	index := itemIndex{}
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
			n := index[key]
			if n == nil {
				n = &nodeItem{trapper: of.Trapper}
				index[key] = n
			}
			if n.trapper == of.Trapper {
				n.places = append(n.places, itemPlace{c.ID, macros, uint32(i)})
			}
		}
	}
	return index
}
