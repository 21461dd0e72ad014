package event

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/muster-fleet/muster/internal/model"
)

// Admit decides whether a result of the chunk may create or update its event state on
// the node; an empty code admits. Sources ask before they append to the journal, and give the
// reason to the agent. The view applies every result in the journal, whatever the limits are by
// now: it is a function of the journal alone.
//
// Admit reserves capacity for a new state until the state exists, or its
// result turns out to make none, or the node's session ends. So many results under way
// pass no limit; only a state that is removed meanwhile, and comes back, may.
func (v *View) Admit(node model.NodeID, chunk *model.CheckChunk) (code, reason string) {
	p := v.partitionOf(node)
	if p == nil {
		return "", "" // a deleted node: the result is forgotten
	}
	p.Lock()
	defer p.Unlock()
	i, ok := p.Find(node)
	if !ok {
		return "", ""
	}
	n, ns := &p.nodes[i], p.Node(i).Namespace
	if _, found := n.find(chunk.Unit); found || slices.Contains(p.reserved[i], chunk.Unit) {
		return "", ""
	}
	limits := v.opts.Limits(ns)
	held := len(n.states) + len(p.reserved[i])
	if _, found := n.find(model.LimitsCheck); found {
		held-- // the event that reports a limit takes no capacity from checks
	}
	if most := limits.StatesPerNode; most > 0 && held >= most {
		return "node_limit", fmt.Sprintf("the node has its %d event states, the limit statesPerNode", most)
	}
	total := v.totals.counter(ns)
	if now := total.Add(1); limits.States > 0 && now > int64(limits.States) {
		total.Add(-1)
		return "namespace_limit", fmt.Sprintf("the namespace has its %d event states, the limit states", limits.States)
	}
	p.reserved[i] = append(p.reserved[i], chunk.Unit)
	return "", ""
}

// release ends a reservation: the state exists now (and is counted), or will not.
func (p *partition) release(n uint32, check model.CheckID) {
	if len(p.reserved) == 0 {
		return
	}
	list := p.reserved[n]
	if i := slices.Index(list, check); i >= 0 {
		if list = slices.Delete(list, i, i+1); len(list) == 0 {
			delete(p.reserved, n)
		} else {
			p.reserved[n] = list
		}
		p.view.totals.counter(p.Node(n).Namespace).Add(-1)
	}
}

// releaseCapacity ends all reservations of a node, whose session sends nothing more.
func (p *partition) releaseCapacity(n uint32) {
	if list := p.reserved[n]; len(list) > 0 {
		p.view.totals.counter(p.Node(n).Namespace).Add(-int64(len(list)))
		delete(p.reserved, n)
	}
}

// totals counts the states of each namespace over all partitions, existing and reserved ones.
type totals struct{ of sync.Map }

func (t *totals) counter(ns model.NamespaceID) *atomic.Int64 {
	if c, ok := t.of.Load(ns); ok {
		return c.(*atomic.Int64)
	}
	c, _ := t.of.LoadOrStore(ns, new(atomic.Int64))
	return c.(*atomic.Int64)
}
