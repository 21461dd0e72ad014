package agent

import (
	"github.com/muster-fleet/muster/internal/agent/schedule"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// aboutVariable is the name of the proxy node in the environment of a command that is about
// one.
const aboutVariable = "MUSTER_NODE"

// subject is whom a check is about: this node (zero), or a proxy node.
type subject struct {
	node   model.NodeID
	name   string
	values model.PropertyValues
}

// subjects are the proxy nodes that each definition is about.
func subjects(p *wire.ProxyChecks) map[model.ChunkID][]subject {
	if p.Empty() {
		return nil
	}
	known := make(map[model.NodeID]subject, len(p.Nodes))
	for i := range p.Nodes {
		n := &p.Nodes[i]
		known[n.Node] = subject{n.Node, n.Name, propertiesOf(n.Properties)}
	}
	about := map[model.ChunkID][]subject{}
	for _, set := range p.Sets {
		list := make([]subject, 0, len(set.Nodes))
		for _, id := range set.Nodes {
			if s, ok := known[id]; ok {
				list = append(list, s)
			}
		}
		for _, chunk := range set.Chunks {
			about[chunk] = list
		}
	}
	return about
}

func subjectsOf(chunk *model.CheckChunk, own subject, about map[model.ChunkID][]subject) []subject {
	if chunk.Proxy {
		return about[chunk.ID]
	}
	return []subject{own}
}

// turn runs what the server says that it is this node's turn to run.
func (a *Agent) turn(t *wire.Turn) {
	for _, g := range t.Runs {
		a.mu.Lock()
		check, held := a.chunks[g.Chunk]
		a.mu.Unlock()
		if !held || !a.scheduler.RunNow(schedule.Key{Check: check, About: g.Node}) {
			// The server gives the turn to another when no result comes.
			a.cfg.Log.Debug("a turn of a check that is not assigned here", "chunk", g.Chunk, "about", g.Node)
		}
	}
}
