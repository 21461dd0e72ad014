package app

import (
	"fmt"
	"sync"

	"github.com/muster-fleet/muster/internal/source/core"
)

// setBack remembers the agents that know more of this life of the data than the
// server does: its folder is an older copy that nobody has given a life of its own.
type setBack struct {
	mu     sync.Mutex
	agents int
	first  string
}

// behind is muster.Config.OnBehind.
func (s *Server) behind(node core.Node) {
	s.setBack.mu.Lock()
	first := s.setBack.agents == 0
	if s.setBack.agents++; first {
		s.setBack.first = node.Name
	}
	s.setBack.mu.Unlock()
	if first {
		s.log.Error("an agent was acknowledged more than this server holds: its data is an older copy, or lost its end",
			"node", node.Name, "type", stoppedCommand(s.cfg, "restored"))
	}
}

// text says what was found; nothing where nothing was.
func (b *setBack) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.agents == 0 {
		return ""
	}
	return fmt.Sprintf("agents (%d, the first was %s) were acknowledged more than this server holds: its data is an older copy, or lost its end", b.agents, b.first)
}
