package event

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/muster-fleet/muster/internal/model"
)

// Admit says whether a result of the chunk may create or update its event state on
// the node; an empty code admits. Sources ask before the journal: what is refused
// here is refused for good, with the reason. What the journal has is never refused:
// the view is a function of the journal alone, whatever the limits are by now.
//
// Room for a state that is not there yet is promised until the state is there, or its
// result turns out to make none, or the node's session ends. So many results under way
// pass no limit; only a state that is removed meanwhile, and comes back, may.
func (v *View) Admit(node model.NodeID, chunk *model.Chunk) (code, reason string) {
	p := v.partitionOf(node)
	if p == nil {
		return "", "" // a deleted node: the result is forgotten
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i, ok := p.findNode(node)
	if !ok {
		return "", ""
	}
	n := &p.nodes[i]
	if _, found := n.find(chunk.Check); found || slices.Contains(n.promised, chunk.Check) {
		return "", ""
	}
	limits := v.opts.Limits(n.namespace)
	held := len(n.states) + len(n.promised)
	if _, told := n.find(model.LimitsCheck); told {
		held-- // that a limit was met takes no room from checks
	}
	if most := limits.StatesPerNode; most > 0 && held >= most {
		return "node_limit", fmt.Sprintf("the node has its %d event states, the limit statesPerNode", most)
	}
	total := v.totals.counter(n.namespace)
	if now := total.Add(1); limits.States > 0 && now > int64(limits.States) {
		total.Add(-1)
		return "namespace_limit", fmt.Sprintf("the namespace has its %d event states, the limit states", limits.States)
	}
	n.promised = append(n.promised, chunk.Check)
	return "", ""
}

// settled takes a promise back: the state is there now (and counted), or will not be.
func (p *partition) settled(n uint32, check model.CheckID) {
	node := &p.nodes[n]
	if i := slices.Index(node.promised, check); i >= 0 {
		if node.promised = slices.Delete(node.promised, i, i+1); len(node.promised) == 0 {
			node.promised = nil
		}
		p.view.totals.counter(node.namespace).Add(-1)
	}
}

// settleAll takes back what a session was promised that sends no more.
func (p *partition) settleAll(n uint32) {
	node := &p.nodes[n]
	p.view.totals.counter(node.namespace).Add(-int64(len(node.promised)))
	node.promised = nil
}

// totals counts the states of each namespace over all partitions, those that are there
// and those that were promised.
type totals struct{ of sync.Map }

func (t *totals) counter(ns model.NamespaceID) *atomic.Int64 {
	if c, ok := t.of.Load(ns); ok {
		return c.(*atomic.Int64)
	}
	c, _ := t.of.LoadOrStore(ns, new(atomic.Int64))
	return c.(*atomic.Int64)
}
