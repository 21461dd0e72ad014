package sensu

import (
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// subject is the node that a check is for: the session's node (zero), or a proxy node. For the agent a proxy node is an
// entity, whose name its events repeat.
type subject struct {
	directory.ProxyNode
	name       string
	properties []wire.Property
}

// proxiesOf returns the proxy nodes of each chunk of an assignment.
func proxiesOf(a *directory.Assignment) map[model.ChunkID][]subject {
	if a.Proxied == nil {
		return nil
	}
	p := &a.Proxied.ProxyChecks
	known := make(map[model.NodeID]*wire.ProxyNode, len(p.Nodes))
	for i := range p.Nodes {
		known[p.Nodes[i].Node] = &p.Nodes[i]
	}
	proxies := map[model.ChunkID][]subject{}
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
			proxies[chunk] = list
		}
	}
	return proxies
}

// subjectsOf returns the subjects for which a chunk has a run.
func subjectsOf(c *model.CheckChunk, a *directory.Assignment, proxies map[model.ChunkID][]subject) (list []subject) {
	if !c.Proxy {
		return []subject{{properties: a.Properties}}
	}
	for _, of := range proxies[c.ID] {
		if proxy, ok := a.ProxyNode(c.Unit, of.ID); ok {
			of.ProxyNode = proxy
			list = append(list, of)
		}
	}
	return list
}

// mayReportOn reports whether the node's present assignment names a proxy node for a check.
func (x *session) mayReportOn(c *model.CheckChunk, proxy model.NodeID) bool {
	_, ok := x.srv.cfg.Assignments.For(x.Node.ID).ProxyNode(c.Unit, proxy)
	return ok
}

// Give hands a turn of a round-robin check to a node's session; false: the node has no session, or not that check. Give
// does not block.
func (s *Server) Give(node model.NodeID, g wire.TurnRun) bool {
	x := s.registry.Get(node)
	if x == nil {
		return false
	}
	x.Mu.Lock()
	i := -1
	if !x.EndedLocked() {
		i = slices.IndexFunc(x.list, func(j *job) bool { return j.recipe.chunk.ID == g.Chunk && j.proxy.ID == g.Node })
	}
	var j *job
	if i >= 0 {
		j = x.list[i]
	}
	x.Mu.Unlock()
	if j == nil {
		return false
	}
	x.requestRuns([]*job{j})
	return true
}

// reportRun reports the run of a round-robin check.
func (x *session) reportRun(c *model.CheckChunk, proxy model.NodeID) {
	if c.RoundRobin && x.srv.cfg.OnRan != nil {
		x.srv.cfg.OnRan(c.Unit, proxy, 0)
	}
}
