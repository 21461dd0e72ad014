package sensu

import (
	"cmp"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/core"
)

// nodeOf is the node with when it is expected to be heard of: by its own resource, else as its
// agent was set (keepalive-interval, keepalive-warning-timeout, keepalive-critical-timeout),
// else by the server's defaults. An agent without a critical time-out is critical after the
// one that warns.
func (s *Server) nodeOf(info *intent.NodeInfo, said *sensuwire.Said, keepalive bool) core.Node {
	n := core.Node{ID: info.ID, Name: info.Name, Namespace: info.NamespaceID, Keepalive: info.Interval, Timeout: info.Timeout, Warning: info.Warning}
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

// patience is when a session's node is expected to be heard of.
type patience struct{ keepalive, warning, timeout time.Duration }

func patienceOf(n *core.Node) patience { return patience{n.Keepalive, n.Warning, n.Timeout} }

// learn takes from the first keepalive what the agent's own time-outs are, where its session
// began with an event: these carry none, and the server's defaults held until now. The journal
// hears of the same session once more. What cannot be kept now is tried with the next keepalive.
func (x *session) learn(said *sensuwire.Said) {
	info, ok := x.srv.cfg.Intent.LookupNode(x.uid)
	if !ok {
		return
	}
	n := x.srv.nodeOf(&info, said, true)
	p := patienceOf(&n)
	if p == x.patience {
		x.guessed = false
		return
	}
	x.Appending(func() { // not if the mark of another session may be in the journal already
		before := x.patience
		x.patience = p
		if x.srv.cfg.Journal.Append(x.srv.base, journal.Entry{Section: x.section, Data: x.mark(true, false)}) != nil {
			x.patience = before
			return
		}
		x.guessed = false
		x.hurry()
	})
}

// hurry looks for a dead connection of a node that comes and goes before it would be missed.
func (x *session) hurry() {
	if x.ephemeral {
		x.deadAfter.Store(int64(min(x.srv.cfg.Limits.DeadAfter, x.patience.timeout/4*3)))
	}
}
