package event

import (
	"fmt"

	"github.com/muster-fleet/muster/internal/model"
)

// Admit says whether a result of the chunk may create or update its event state on
// the node; an empty code admits. Sources ask before the journal: what is refused
// here is refused for good, with the reason.
//
// Both limits are asked of the states that are there now. Results already under way
// may pass one by a little: that of the node is then held by the view itself, in
// commit order; that of the namespace is not, because it is a number that operators
// change, which a replay could not know.
func (v *View) Admit(node model.NodeID, chunk *model.Chunk) (code, reason string) {
	p := v.partitionOf(node)
	if p == nil {
		return "", "" // its first state: the session has made sure that the node exists
	}
	p.mu.Lock()
	n, ok := p.findNode(node)
	if !ok {
		p.mu.Unlock()
		return "", ""
	}
	_, found := p.nodes[n].find(chunk.Check)
	states, ns := len(p.nodes[n].states), p.nodes[n].namespace
	p.mu.Unlock()
	if found {
		return "", ""
	}
	if states >= v.opts.StatesPerNode {
		return "node_limit", fmt.Sprintf("the node has %d event states, the limit", states)
	}
	if v.opts.NamespaceStates != nil {
		if limit := v.opts.NamespaceStates(ns); limit > 0 && v.totals.counter(ns).Load() >= int64(limit) {
			return "namespace_limit", fmt.Sprintf("the namespace has its limit of %d event states", limit)
		}
	}
	return "", ""
}
