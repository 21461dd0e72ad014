package plan

import (
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// hears is who is to hear of a node's keepalive.
type hears struct {
	*model.KeepaliveReceivers
	said bool // by its agent, which may name what is not there
}

// names is who is to hear of a node's keepalive; nil: nobody is named. As with Sensu's backend, the
// handler called keepalive is meant where an agent of Sensu names none.
func (n *nodeDef) names() *hears {
	h := n.hears
	if h == nil && n.stranger {
		h = &hears{&model.KeepaliveReceivers{}, true}
	}
	if h != nil && h.said && n.stranger && len(h.Handlers) == 0 {
		h = &hears{&model.KeepaliveReceivers{Handlers: []string{model.KeepaliveCheckName}, Pipelines: h.Pipelines}, true}
	}
	return h
}

// passes says whether a node's keepalive passes a pipeline.
func (h *hears) passes(space string, pipeline ref) bool {
	return pipeline.among(space, h.Pipelines) || h.said && pipeline.ns == space &&
		slices.ContainsFunc(h.Handlers, func(name string) bool { return model.SensuPipeline(name) == pipeline.name })
}

// Keepalive is the definition of a node's own event, with the handlers and pipelines that the node
// names. Of those that its agent names, it has what is there: a handler that reads Sensu's events
// hears of it by the pipeline that an import made for it.
func (p *Planner) Keepalive(id model.NodeID) *model.CheckChunk {
	c := model.BuiltinChunkOf(model.BuiltinChunk(model.KeepaliveCheck))
	p.mu.RLock()
	defer p.mu.RUnlock()
	f := p.fleet
	n := f.nodes[id]
	if n == nil {
		return c
	}
	h, in := n.def.names(), n.def.ns
	room := f.namespaces[in]
	if h == nil || room == nil {
		return c
	}
	if !h.said {
		c.Namespace, c.Handlers, c.Pipelines = room.id, h.Handlers, h.Pipelines
		return c
	}
	for _, name := range h.Pipelines {
		if f.pipelines[ref{in, name}] != nil {
			c.Pipelines = append(c.Pipelines, name)
		}
	}
	for _, name := range h.Handlers {
		if made := model.SensuPipeline(name); f.pipelines[ref{in, made}] != nil {
			if !slices.Contains(c.Pipelines, made) {
				c.Pipelines = append(c.Pipelines, made)
			}
		} else if f.handlers[ref{in, name}] != nil {
			c.Handlers = append(c.Handlers, name)
		}
	}
	if len(c.Pipelines)+len(c.Handlers) > 0 {
		c.Namespace = room.id
	}
	return c
}
