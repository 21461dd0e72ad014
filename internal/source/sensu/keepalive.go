package sensu

import (
	"cmp"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/muster"
)

// nodeOf is the node with when it is expected to be heard of: by its own resource, else as its
// agent was set (keepalive-interval, keepalive-warning-timeout, keepalive-critical-timeout),
// else by the server's defaults. An agent without a critical time-out is critical after the
// one that warns.
func (s *Server) nodeOf(info *intent.NodeInfo, said *sensuwire.Said, keepalive bool) muster.Node {
	n := muster.Node{ID: info.ID, Name: info.Name, Namespace: info.NamespaceID, Keepalive: info.Interval, Timeout: info.Timeout, Warning: info.Warning}
	if keepalive {
		n.Keepalive = cmp.Or(n.Keepalive, within(said.Interval))
		if n.Timeout == 0 && said.TTL > 0 {
			n.Warning = cmp.Or(n.Warning, within(said.Timeout))
		}
		n.Timeout = cmp.Or(n.Timeout, silence(said))
	}
	n.Keepalive = cmp.Or(n.Keepalive, s.cfg.Limits.Keepalive)
	least := n.Keepalive + n.Keepalive/2
	n.Timeout = max(cmp.Or(n.Timeout, s.cfg.Limits.Timeout), least)
	if n.Warning > 0 {
		n.Warning = max(n.Warning, least)
	}
	return n
}

// silence is the one after which an agent wants to be missed.
func silence(said *sensuwire.Said) time.Duration {
	return within(cmp.Or(uint32(min(max(said.TTL, 0), 1<<31)), said.Timeout))
}

// within reads seconds that an agent says, and bounds them.
func within(seconds uint32) time.Duration {
	if seconds == 0 {
		return 0
	}
	return min(max(time.Duration(seconds)*time.Second, 2*time.Second), 24*time.Hour)
}

// comesAndGoes is the lifecycle of a node whose agent says deregister: it is forgotten when it
// was away for as long as would be its death.
func (s *Server) comesAndGoes(said *sensuwire.Said, keepalive bool) *model.Lifecycle {
	away := s.cfg.Limits.Timeout
	if keepalive {
		away = cmp.Or(silence(said), away)
	}
	return &model.Lifecycle{Ephemeral: true, ForgetAfter: model.Duration(max(away, time.Minute))}
}
