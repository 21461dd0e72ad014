package plan

import "github.com/muster-fleet/muster/internal/model"

// Kept is what expressions that are kept from Sensu see of a node and a check besides what
// others ask for.
type Kept struct {
	NodeAnnotations, CheckLabels, CheckAnnotations map[string]string // not to be changed
	Groups                                         []string          // that the check targets
	Proxy                                          bool              // no agent runs on the node
}

// Kept is what is known now.
func (p *Planner) Kept(node model.NodeID, check model.CheckID) (k Kept) {
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
