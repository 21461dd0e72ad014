package sensu

import (
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/hide"
	"github.com/muster-fleet/muster/internal/model"
)

// mostGiven is how many values of one Secret are remembered: a run may have begun before it changed.
const mostGiven = 4

// leftOut stands where an output may hold secrets that nobody here knows any more.
const leftOut = "(the output is left out: it may hold secrets, and this server has not given the agent any for this check since it started)"

// given are the values that a node's agent was sent, by any of its sessions, since the server began.
// They are hidden in what comes back.
type given struct {
	uid   uuid.UUID // of the node; of the registry's lock
	mu    sync.Mutex
	by    map[string][]string // by the name of the Secret; the newest last
	hider *hide.Hider
}

// note remembers the values of a check's secrets.
func (g *given) note(c *model.CheckChunk, values []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	more := false
	for i := range c.Secrets {
		name := c.Secrets[i].Name
		had := g.by[name]
		if at := slices.Index(had, values[i]); at >= 0 {
			had = slices.Delete(had, at, at+1)
		} else {
			more = true
		}
		had = append(had, values[i])
		if g.by == nil {
			g.by = map[string][]string{}
		}
		g.by[name] = had[max(0, len(had)-mostGiven):]
	}
	if !more {
		return
	}
	var all []string
	for _, list := range g.by {
		all = append(all, list...)
	}
	g.hider = hide.New(all)
}

// of is what hides them in a check's output; not known: the agent may know values that we do not.
func (g *given) of(c *model.CheckChunk) (h *hide.Hider, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range c.Secrets {
		if len(g.by[c.Secrets[i].Name]) == 0 {
			return nil, false
		}
	}
	return g.hider, true
}

// hidden is what may be kept of what a check's run wrote.
func (x *session) hidden(c *model.CheckChunk, text []byte) []byte {
	if x.given == nil {
		return text
	}
	hider, known := x.given.of(c)
	if !known {
		return []byte(leftOut)
	}
	return hider.Redact(text)
}

// forgetGiven forgets what agents of nodes were given that are there no more: their values are nobody's to hide.
func (s *Server) forgetGiven() {
	away := s.registry.givenAway()
	for id, uid := range away {
		if node, ok := s.cfg.Intent.LookupNode(uid); ok && node.ID == id {
			delete(away, id)
		}
	}
	if len(away) > 0 {
		s.registry.forgetGiven(away)
	}
}
