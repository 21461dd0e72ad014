package sensu

import (
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/wire"
)

// subject is whom a check is about: the session's node (zero), or a proxy node. The agent
// knows that as an entity, whose name its events bring back.
type subject struct {
	plan.Proxy
	name       string
	properties []wire.Property
}

// subjects are the proxy nodes that each definition of an assignment is about.
func subjects(a *plan.Assignment) map[model.ChunkID][]subject {
	if a.Proxied == nil {
		return nil
	}
	p := &a.Proxied.Proxied
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
			list = append(list, subject{plan.Proxy{ID: id}, name, n.Properties})
		}
		for _, chunk := range set.Chunks {
			about[chunk] = list
		}
	}
	return about
}

// subjectsOf are those that a definition has a run for.
func subjectsOf(c *model.Chunk, a *plan.Assignment, about map[model.ChunkID][]subject) (list []subject) {
	if !c.Proxy {
		return []subject{{properties: a.Properties}}
	}
	for _, of := range about[c.ID] {
		if proxy, ok := a.Speaks(c.Check, of.ID); ok {
			of.Proxy = proxy
			list = append(list, of)
		}
	}
	return list
}

// speaks says whether the node's assignment, as it is now, names a proxy node for a check.
func (x *session) speaks(c *model.Chunk, about model.NodeID) bool {
	_, ok := x.srv.cfg.Assignments.For(x.node.ID).Speaks(c.Check, about)
	return ok
}

// spoken is a signal of a record that is about a proxy node: it stands with that one in the
// journal, and its number with the node that sent it.
type spoken struct {
	plan.Proxy
	number   int // within the record
	from, to int // of record.said
}

// entries are those of a record whose own is list[0]: one more for each proxy node.
func (r *record) entries(x *session, stream wire.StreamKey, first, now uint64) []journal.Entry {
	if len(r.about) == 0 {
		return r.list[:]
	}
	list := make([]journal.Entry, 1, 1+len(r.about))
	list[0] = r.list[0]
	list[0].Signals -= len(r.about)
	for i := range r.about {
		s := &r.about[i]
		list = append(list, journal.Entry{Section: journal.Section(model.PartitionOf(s.UID)), Signals: 1, Data: wire.AppendRecord(nil, &wire.Record{
			Kind: wire.RecordProxied, Node: s.ID, Proxied: &wire.ProxiedResult{
				StreamKey: stream, Number: first + uint64(s.number), By: x.node.ID, Namespace: s.Namespace, NowMs: now, Signal: r.said[s.from:s.to],
			},
		})})
	}
	return list
}

// Give leaves a turn of a round-robin check with a node's session; false: it has none, or
// does not have that check. It does not block.
func (s *Server) Give(node model.NodeID, g wire.Given) bool {
	x := s.registry.get(node)
	if x == nil {
		return false
	}
	x.mu.Lock()
	i := -1
	if !x.over {
		i = slices.IndexFunc(x.jobs, func(j *job) bool { return j.recipe.chunk.ID == g.Chunk && j.about.ID == g.Node })
	}
	var j *job
	if i >= 0 {
		j = x.jobs[i]
	}
	x.mu.Unlock()
	if j == nil {
		return false
	}
	x.dueAsks([]*job{j})
	return true
}

// ran says that a turn was taken.
func (x *session) ran(c *model.Chunk, about model.NodeID) {
	if c.RoundRobin && x.srv.cfg.OnRan != nil {
		x.srv.cfg.OnRan(c.Check, about, 0)
	}
}
