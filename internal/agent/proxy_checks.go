package agent

import (
	"github.com/muster-fleet/muster/internal/agent/schedule"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// proxyNodeVariable names the proxy node in the environment of a proxy check's command.
const proxyNodeVariable = "MUSTER_NODE"

// target is the node whose properties a check uses and whose event its results change: this node
// (zero number), or a proxy node.
type target struct {
	node   model.NodeID
	name   string
	values model.PropertyValues
}

// proxyTargets returns the proxy nodes of each chunk.
func proxyTargets(p *wire.ProxyChecks) map[model.ChunkID][]target {
	nodes := make(map[model.NodeID]target, len(p.Nodes))
	for i := range p.Nodes {
		n := &p.Nodes[i]
		nodes[n.Node] = target{n.Node, n.Name, propertyValues(n.Properties)}
	}
	targets := map[model.ChunkID][]target{}
	for _, set := range p.Sets {
		list := make([]target, 0, len(set.Nodes))
		for _, id := range set.Nodes {
			if t, ok := nodes[id]; ok {
				list = append(list, t)
			}
		}
		for _, chunk := range set.Chunks {
			targets[chunk] = list
		}
	}
	return targets
}

// runTurn runs the round-robin checks that the server gives to this node. The server gives a run to
// another node when no result of it arrives.
func (c *checks) runTurn(t *wire.Turn) {
	for _, r := range t.Runs {
		check, _, assigned := c.find(r.Chunk)
		if !assigned || !c.scheduler.RunNow(schedule.Key{Check: check, ProxyNode: r.Node}) {
			c.agent.cfg.Log.Debug("round-robin run of a check that is not assigned here", "chunk", r.Chunk, "proxyNode", r.Node)
		}
	}
}
