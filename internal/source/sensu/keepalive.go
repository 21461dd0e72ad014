package sensu

import (
	"cmp"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// nodeOf returns a node with the times of its keepalive, from its own resource, else from the agent's settings
// (keepalive-interval, keepalive-warning-timeout, keepalive-critical-timeout), else from the server's defaults. An agent without
// a critical time-out is critical after the one that warns.
func (s *Server) nodeOf(info *intent.NodeInfo, said *sensuwire.Received, keepalive bool) core.Node {
	n := core.Node{ID: info.ID, Name: info.Name, Namespace: info.NamespaceID, Keepalive: info.Interval, Timeout: info.Timeout, Warning: info.Warning}
	if keepalive {
		n.Keepalive = cmp.Or(n.Keepalive, boundedSeconds(said.Interval))
		if n.Timeout == 0 && said.TTL > 0 {
			n.Warning = cmp.Or(n.Warning, boundedSeconds(said.Timeout))
		}
		n.Timeout = cmp.Or(n.Timeout, criticalTimeout(said))
	}
	n.Keepalive = cmp.Or(n.Keepalive, s.cfg.Limits.Keepalive)
	least := n.Keepalive + n.Keepalive/2
	n.Timeout = max(cmp.Or(n.Timeout, s.cfg.Limits.Timeout), least)
	if n.Warning > 0 {
		n.Warning = max(n.Warning, least)
	}
	return n
}

// criticalTimeout returns the silence after which an agent wants its keepalive to be critical.
func criticalTimeout(said *sensuwire.Received) time.Duration {
	return boundedSeconds(cmp.Or(uint32(min(max(said.TTL, 0), 1<<31)), said.Timeout))
}

// boundedSeconds converts seconds of an agent, between two seconds and a day; zero stays.
func boundedSeconds(seconds uint32) time.Duration {
	if seconds == 0 {
		return 0
	}
	return min(max(time.Duration(seconds)*time.Second, 2*time.Second), 24*time.Hour)
}

// keepaliveState is the expectation of a session's keepalives. The reader changes it, inside Appending.
type keepaliveState struct {
	interval, warning, timeout time.Duration
	assumed                    bool // the server's defaults, because no keepalive has arrived yet
}

func keepaliveOf(n *core.Node) keepaliveState {
	return keepaliveState{interval: n.Keepalive, warning: n.Warning, timeout: n.Timeout}
}

// adoptKeepalive takes the agent's own times from its first keepalive, if its session began with an event, which has none:
// the server's defaults held until now. The journal gets the session's beginning again. If the journal fails, the next
// keepalive tries again.
func (x *session) adoptKeepalive(said *sensuwire.Received) {
	info, ok := x.srv.cfg.Intent.LookupNode(x.UID)
	if !ok {
		return
	}
	n := x.srv.nodeOf(&info, said, true)
	k, before := keepaliveOf(&n), x.keepalive
	before.assumed = false
	if k == before {
		x.keepalive.assumed = false
		return
	}
	x.Appending(func() { // not behind the mark of another session
		before := x.keepalive
		x.keepalive = k
		if x.srv.cfg.Journal.Append(x.srv.life.Base, journal.Entry{Section: x.Section, Data: x.mark(wire.SessionMark{Begun: true})}) != nil {
			x.keepalive = before
			return
		}
		x.shortenSilence()
	})
}

// shortenSilence finds a dead connection of an ephemeral node before its keepalive is missed.
func (x *session) shortenSilence() {
	if x.departure.ephemeral {
		x.deadAfter.Store(int64(min(x.srv.cfg.Limits.DeadAfter, x.keepalive.timeout/4*3)))
	}
}
