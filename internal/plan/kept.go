package plan

import (
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
)

// FilterContext is what is known now.
func (p *Planner) FilterContext(node model.NodeID, check model.CheckID) (k directory.FilterContext) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if n := p.fleet.nodes[node]; n != nil {
		k.NodeAnnotations, k.Proxy = n.def.notes, n.def.proxy
	}
	c := p.fleet.checks[check]
	if c == nil || c.def == nil {
		return k
	}
	k.CheckLabels, k.CheckAnnotations = c.def.shown.labels, c.def.shown.notes
	if c.def.targets != nil {
		for _, g := range c.def.targets.groups {
			k.Groups = append(k.Groups, p.fleet.groupName(g))
		}
	}
	return k
}
