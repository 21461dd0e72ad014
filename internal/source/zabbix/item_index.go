package zabbix

import (
	"slices"
	"strings"
	"sync"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/when"
	"github.com/muster-fleet/muster/internal/wire"
)

// itemIndex finds the item of a received value, by item key or by the number that agents send. Nodes with equal
// assignments share it.
type itemIndex struct {
	byKey    map[string]*nodeItem
	byNumber map[uint64]*nodeItem // those that agents collect
	others   map[string]bool      // keys of items whose values no sender and no agent sends
}

// nodeItem is an item of a node, with its location in each Template that contains the item.
type nodeItem struct {
	trapper  bool           // else agents collect it
	interval model.Interval // with values in place of macros
	schedule *when.Schedule // of interval; nil: a trapper item, or a discovered one
	places   []itemLocation
}

// itemLocation gives the Template of an item, and the item's index in that Template's blocks of values.
type itemLocation struct {
	definition model.DefinitionID
	macros     string // as in wire.ValueBlock
	position   uint32
	key        string // of a discovered item, whose position is the number of the Template's own items; empty: it is one of those
}

// DiscoveredItem is an item that a discovery rule of a Template made on a node.
type DiscoveredItem struct {
	Key           string
	Interval      model.Interval // empty: agents do not collect it
	Trapper       bool
	Definition    model.DefinitionID
	Macros        string // as in wire.ValueBlock
	DeclaredItems int    // number of items in the definition
}

// discoveredByNumber returns the item keys discovered on a node, by the number that the Zabbix agent uses. The agent
// collects these items. Keys with user macros are left out: agents do not know these.
func (s *Server) discoveredByNumber(node model.NodeID) map[uint64]string {
	byNumber := map[uint64]string{}
	if s.cfg.Discovered != nil {
		for _, one := range s.cfg.Discovered(node, "") {
			if !one.Trapper && one.Interval != "" && !strings.Contains(one.Key, "{$") {
				byNumber[itemNumber(one.Key)] = one.Key
			}
		}
	}
	return byNumber
}

// discoveredItem returns the discovered item of a node with a key, or nil. Discovery rules made it.
func (s *Server) discoveredItem(node model.NodeID, key string) (n *nodeItem) {
	if s.cfg.Discovered == nil {
		return nil
	}
	for _, one := range s.cfg.Discovered(node, key) {
		if !one.Trapper && one.Interval == "" {
			continue // the server makes its values
		}
		if n == nil {
			n = &nodeItem{trapper: one.Trapper, interval: one.Interval}
		}
		if n.trapper == one.Trapper {
			n.places = append(n.places, itemLocation{one.Definition, one.Macros, uint32(one.DeclaredItems), key})
		}
	}
	return n
}

// collectedItem is an item that an agent collects, with its key.
type collectedItem struct {
	key string
	*nodeItem
}

// collectedItems returns the items that the agent of a node collects, ascending by key. discovered has the keys
// of the discovered ones. selected reports whether an item belongs to the list.
func (s *Server) collectedItems(node model.NodeID, discovered map[uint64]string, selected func(key string) bool) (list []collectedItem) {
	assignment := s.cfg.Nodes.AssignmentOf(node)
	if assignment == nil {
		return nil
	}
	index := s.items.forAssignment(assignment)
	for key, of := range index.byKey {
		if !of.trapper && selected(key) {
			list = append(list, collectedItem{key, of})
		}
	}
	for _, key := range discovered {
		if index.byKey[key] != nil || !selected(key) {
			continue
		}
		if of := s.discoveredItem(node, key); of != nil && !of.trapper {
			if schedule, err := when.ScheduleOf(of.interval, nil); err == nil {
				of.schedule = schedule
				list = append(list, collectedItem{key, of})
			}
		}
	}
	slices.SortFunc(list, func(x, y collectedItem) int { return strings.Compare(x.key, y.key) })
	return list
}

// itemIndexes caches, for each recently used assignment of a node, the index that finds items by key.
type itemIndexes struct {
	mu     sync.Mutex
	byHash map[[32]byte]itemIndex
}

// maxIndexes limits the kept item indexes, because a missing index is made again.
const maxIndexes = 4096

// forAssignment returns the index of the items in a node's assignment, from the cache if possible.
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

// newItemIndex returns the index by which values find their items in an assignment. It leaves out items whose values
// come in no other way than from another item, and those with a faulty key or interval.
func newItemIndex(a *directory.Assignment) itemIndex {
	index := itemIndex{map[string]*nodeItem{}, map[uint64]*nodeItem{}, map[string]bool{}}
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
		items := values.WithMacros(c.Items)
		for i := range items {
			of := &items[i]
			key, err := values.Expand(of.Key)
			var schedule *when.Schedule
			if err == nil {
				schedule, err = when.ScheduleOf(of.Interval, values)
			}
			if err != nil {
				continue
			}
			if !of.Trapper && (!of.IsCollected() || of.HTTP != nil) { // only agents of Muster send HTTP requests
				index.others[key] = true
				continue
			}
			n := index.byKey[key]
			if n == nil {
				n = &nodeItem{trapper: of.Trapper, interval: of.Interval, schedule: schedule}
				index.byKey[key] = n
				if !n.trapper {
					index.byNumber[itemNumber(key)] = n
				}
			}
			if n.trapper == of.Trapper {
				n.places = append(n.places, itemLocation{definition: c.ID, macros: macros, position: uint32(i)})
			}
		}
	}
	return index
}
