package event

import (
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// node is the event states of a machine, by check id. It lies beside the shard's node, under
// the same index.
type node struct{ states []nodeState }

type nodeState struct {
	check model.CheckID
	slot  uint32
}

// find is a binary search: nodes have tens of checks, and their ids lie in a few
// cache lines.
func (n *node) find(check model.CheckID) (slot uint32, ok bool) {
	low, high := 0, len(n.states)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if n.states[mid].check < check {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low < len(n.states) && n.states[low].check == check {
		return n.states[low].slot, true
	}
	return 0, false
}

func (n *node) search(check model.CheckID) (int, bool) {
	return slices.BinarySearchFunc(n.states, check, func(e nodeState, c model.CheckID) int {
		return int(int64(e.check) - int64(c))
	})
}

func (n *node) insert(check model.CheckID, slot uint32) {
	at, found := n.search(check)
	if found {
		panic("BUG: state added twice")
	}
	if len(n.states) == cap(n.states) { // a quarter more: nodes stop growing soon
		n.states = append(make([]nodeState, 0, len(n.states)+len(n.states)/4+8), n.states...)
	}
	n.states = slices.Insert(n.states, at, nodeState{check, slot})
}

func (n *node) remove(check model.CheckID) {
	at, found := n.search(check)
	if !found {
		panic("BUG: the node has no such state to remove")
	}
	n.states = slices.Delete(n.states, at, at+1)
}

// addNode makes room for the states of a new node.
func (p *partition) addNode(n uint32) {
	if int(n) == len(p.nodes) {
		p.nodes = append(p.nodes, node{})
	}
}

// removeNode takes away all states of a node.
func (p *partition) removeNode(n uint32) {
	for states := p.nodes[n].states; len(states) > 0; states = p.nodes[n].states {
		p.removeState(states[len(states)-1].slot)
	}
	p.releaseCapacity(n)
	p.nodes[n] = node{}
}

// moveNode moves the counts of a node's states to its new namespace.
func (p *partition) moveNode(n uint32, from model.NamespaceID) {
	to := p.Node(n).Namespace
	states := p.nodes[n].states
	p.view.totals.counter(from).Add(-int64(len(states) + len(p.reserved[n])))
	p.view.totals.counter(to).Add(int64(len(states)))
	delete(p.reserved, n)
	if len(states) == 0 {
		return
	}
	var moved Counts
	for _, e := range states {
		s := p.slots.at(e.slot)
		moved.States++
		moved.ByStatus[s.status]++
		if s.flags&flagOpen != 0 {
			moved.Problems++
		}
	}
	p.countsOf(to).add(&moved)
	if c := p.counts[from]; c.States == moved.States {
		delete(p.counts, from)
	} else {
		c.subtract(&moved)
	}
}
