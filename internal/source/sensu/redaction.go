package sensu

import (
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/hide"
	"github.com/muster-fleet/muster/internal/model"
)

// maxValues bounds the remembered values of one Secret: a run may have started before it changed.
const maxValues = 4

// outputRemoved replaces an output that may contain secrets that this server does not know.
const outputRemoved = "(output removed: it may contain secrets, and this server has sent the agent none for this check since it started)"

// sentSecrets are the values that any session of a node's agent was sent since the server started. They are redacted in its
// outputs.
type sentSecrets struct {
	uid    uuid.UUID // of the node; guarded by the registry
	mu     sync.Mutex
	values map[string][]string // by the name of the Secret; the newest last
	hider  *hide.Hider
}

// add remembers the values of a check's secrets.
func (g *sentSecrets) add(c *model.CheckChunk, values []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	changed := false
	for i := range c.Secrets {
		name := c.Secrets[i].Name
		list := g.values[name]
		if at := slices.Index(list, values[i]); at >= 0 {
			list = slices.Delete(list, at, at+1)
		} else {
			changed = true
		}
		list = append(list, values[i])
		if g.values == nil {
			g.values = map[string][]string{}
		}
		g.values[name] = list[max(0, len(list)-maxValues):]
	}
	if !changed {
		return
	}
	g.hider = hide.New(slices.Concat(slices.Collect(maps.Values(g.values))...))
}

// hiderOf returns the redaction for a check's output; not known: the agent may have values that this server did not send.
func (g *sentSecrets) hiderOf(c *model.CheckChunk) (h *hide.Hider, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range c.Secrets {
		if len(g.values[c.Secrets[i].Name]) == 0 {
			return nil, false
		}
	}
	return g.hider, true
}

// redact returns the output of a check's run without secrets.
func (x *session) redact(c *model.CheckChunk, output []byte) []byte {
	if x.sent == nil {
		return output
	}
	hider, known := x.sent.hiderOf(c)
	if !known {
		return []byte(outputRemoved)
	}
	return hider.Redact(output)
}

// forgetSentSecrets forgets the secrets that agents of deleted nodes were sent.
func (s *Server) forgetSentSecrets() {
	s.registry.forgetSentSecrets(func(id model.NodeID, uid uuid.UUID) bool {
		node, ok := s.cfg.Intent.LookupNode(uid)
		return ok && node.ID == id
	})
}
