package sensu

import (
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// subject is whom a check is about: the session's node (zero), or a proxy node. The agent
// knows that as an entity, whose name its events bring back.
type subject struct {
	directory.ProxyNode
	name       string
	properties []wire.Property
}

// subjects are the proxy nodes that each definition of an assignment is about.
func subjects(a *directory.Assignment) map[model.ChunkID][]subject {
	if a.Proxied == nil {
		return nil
	}
	p := &a.Proxied.ProxyChecks
	known := make(map[model.NodeID]*wire.ProxyNode, len(p.Nodes))
	for i := range p.Nodes {
		known[p.Nodes[i].Node] = &p.Nodes[i]
	}
	about := map[model.ChunkID][]subject{}
	for _, set := range p.Sets {
		list := make([]subject, 0, len(set.Nodes))
		names := make(map[string]bool, len(set.Nodes))
		for _, id := range set.Nodes {
			n := known[id]
			if n == nil {
				continue
			}
			name := n.Name
			if names[name] { // of another namespace
				name = fmt.Sprintf("%s:%d", name, id)
			}
			names[name] = true
			list = append(list, subject{directory.ProxyNode{ID: id}, name, n.Properties})
		}
		for _, chunk := range set.Chunks {
			about[chunk] = list
		}
	}
	return about
}

// subjectsOf are those that a definition has a run for.
func subjectsOf(c *model.CheckChunk, a *directory.Assignment, about map[model.ChunkID][]subject) (list []subject) {
	if !c.Proxy {
		return []subject{{properties: a.Properties}}
	}
	for _, of := range about[c.ID] {
		if proxy, ok := a.ProxyNode(c.Unit, of.ID); ok {
			of.ProxyNode = proxy
			list = append(list, of)
		}
	}
	return list
}

// speaks says whether the node's assignment, as it is now, names a proxy node for a check.
func (x *session) speaks(c *model.CheckChunk, about model.NodeID) bool {
	_, ok := x.srv.cfg.Assignments.For(x.node.ID).ProxyNode(c.Unit, about)
	return ok
}

// Give leaves a turn of a round-robin check with a node's session; false: it has none, or
// does not have that check. It does not block.
func (s *Server) Give(node model.NodeID, g wire.TurnRun) bool {
	x := s.registry.Get(node)
	if x == nil {
		return false
	}
	x.Mu.Lock()
	i := -1
	if !x.EndedLocked() {
		i = slices.IndexFunc(x.jobs, func(j *job) bool { return j.recipe.chunk.ID == g.Chunk && j.about.ID == g.Node })
	}
	var j *job
	if i >= 0 {
		j = x.jobs[i]
	}
	x.Mu.Unlock()
	if j == nil {
		return false
	}
	x.dueAsks([]*job{j})
	return true
}

// ran says that a turn was taken.
func (x *session) ran(c *model.CheckChunk, about model.NodeID) {
	if c.RoundRobin && x.srv.cfg.OnRan != nil {
		x.srv.cfg.OnRan(c.Unit, about, 0)
	}
}
