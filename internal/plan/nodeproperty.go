package plan

import "github.com/muster-fleet/muster/internal/model"

// NodeProperties answers what the properties of a node are now. An assignment holds
// only those that its checks use; this is for what the server expands itself.
func (p *Planner) NodeProperties(id model.NodeID) model.PropertyValues {
	return func(name string) (value []byte, conflict string, ok bool) {
		p.mu.RLock()
		defer p.mu.RUnlock()
		n := p.fleet.nodes[id]
		if n == nil {
			return nil, "", false
		}
		v := p.fleet.resolver().property(n, name)
		if v == nil {
			return nil, "", false
		}
		return v.Value, v.Error, true
	}
}
