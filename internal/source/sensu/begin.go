package sensu

import (
	"context"
	"net"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/wire"
)

// begin makes a connection the session of its node: with the first message, which says what
// the machine is. The node is made where it is not there yet.
func (x *session) begin(said *sensuwire.Said, keepalive bool) error {
	m, err := x.codec.ReadMachine(said.Machine)
	if err != nil {
		return err
	}
	about := aboutMachine(m)
	stranger := x.stranger()
	stranger.AgentReport = about
	if m.Deregister {
		stranger.Lifecycle = x.srv.comesAndGoes(m, said, keepalive)
		if _, known := x.srv.cfg.Intent.LookupNode(x.uid); !known {
			x.wouldHear(stranger.Lifecycle)
		}
	}
	by := intent.Actor{User: x.user.Name, Whence: x.conn.NetConn().RemoteAddr().String(), Why: "its Sensu agent came"}
	info, err := x.srv.cfg.Intent.RegisterExternal(x.srv.base, by, stranger)
	if err != nil {
		return err
	}
	if err := x.srv.mayBe(stranger); err != nil {
		return err
	}
	x.node = x.srv.nodeOf(&info, said, keepalive)
	x.id, x.section = x.srv.cfg.Rand(), core.SectionOf(x.uid)
	x.budget.Open(x.srv.cfg.Agents.Limiter(), &x.node)
	x.deregister, x.ephemeral = m.Deregister, m.Deregister && info.ForgetAfter > 0
	x.patience, x.guessed = patienceOf(&x.node), !keepalive
	x.hurry()
	x.given = x.srv.registry.givenOf(info.ID, x.proven)
	old, ok := x.srv.registry.swap(x, wire.StreamID(x.srv.cfg.Rand()))
	if !ok {
		return model.Errorf(model.Conflict, "another connection of this agent came after this one, or proves with a certificate that it is this machine")
	}
	entries := make([]journal.Entry, 0, 2)
	if old != nil {
		old.displace()
		entries = append(entries, journal.Entry{Section: old.section, Data: old.mark(false, false)})
	}
	entries = append(entries, journal.Entry{Section: x.section, Data: x.mark(true, false)})
	if err := x.srv.cfg.Journal.Append(x.srv.base, entries...); err != nil {
		x.srv.registry.remove(x)
		return model.Errorf(model.Unavailable, "the server cannot keep anything now")
	}
	x.begun = true
	x.seen(said, keepalive)
	x.plan() // before the next message: what the agent could not send before comes right behind this one
	return nil
}

// displace ends a session whose agent has another connection by now; nothing of it comes to
// the journal afterwards.
func (x *session) displace() {
	x.Displace()
	_ = x.conn.Close()
}

// alone refuses a machine where another one with its name is connected, and answers. A machine
// that lost its network, or started anew, is let in: the connection of its earlier life does
// not answer. One that proves who it is takes the name from one that does not, and gives way to none.
func (s *Server) alone(ctx context.Context, m *intent.ExternalAgent, nc net.Conn, proven bool) error {
	node, ok := s.cfg.Intent.LookupNode(m.UID())
	if !ok {
		return nil
	}
	old := s.registry.Get(node.ID)
	switch {
	case old == nil, proven && !old.proven:
		return nil
	case old.proven == proven && !old.answers(ctx):
		return nil
	}
	holds := old.peer()
	if s.cfg.OnClone != nil {
		s.cfg.OnClone(muster.Clone{Node: old.node, Holds: holds, Came: muster.Peer{Address: hostOf(nc), Since: s.cfg.Now().Truncate(time.Second).UTC()}})
	}
	proves := ""
	if old.proven && !proven {
		proves = ", and proves by its certificate that it is that machine"
	}
	return model.Errorf(model.Conflict, "another agent with the name %s is connected, from %s%s", m.Name, holds, proves).
		WithHint("give one of them a name of its own: --name")
}

// answers asks an agent whether it is there.
func (x *session) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, x.srv.cfg.Limits.Probe)
	defer cancel()
	x.Mu.Lock()
	if x.EndedLocked() {
		x.Mu.Unlock()
		return false
	}
	if x.probe == nil {
		x.probe = make(chan struct{})
	}
	answer := x.probe
	x.Mu.Unlock()
	x.due(duePing)
	select {
	case <-answer:
	case <-ctx.Done():
		return false
	}
	x.Mu.Lock()
	defer x.Mu.Unlock()
	return !x.EndedLocked()
}

// answered tells who asked that the agent answers, or that its session has ended.
func (x *session) answered() {
	x.Mu.Lock()
	defer x.Mu.Unlock()
	if x.probe != nil {
		close(x.probe)
		x.probe = nil
	}
}

func (x *session) peer() muster.Peer {
	return muster.Peer{Address: hostOf(x.conn.NetConn()), Since: time.Unix(0, x.since).Truncate(time.Second).UTC()}
}

func hostOf(nc net.Conn) string {
	address := nc.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// seen hands on what the machine says of itself. Who is to hear of its keepalive is known by a
// keepalive alone: an event that begins a session names its own pipelines.
func (x *session) seen(said *sensuwire.Said, keepalive bool) {
	m, err := x.codec.ReadMachine(said.Machine)
	if err != nil {
		return
	}
	about := aboutMachine(m)
	if keepalive {
		x.sum = said.Sum
		pipelines, err := x.codec.ReadPipelines(said)
		if err != nil {
			return
		}
		about.Hears = &model.KeepaliveReceivers{Handlers: named(m.KeepaliveHandlers), Pipelines: named(pipelines)}
	}
	x.Mu.Lock()
	x.version, x.facts = "sensu-agent "+m.AgentVersion, facts(m)
	x.Mu.Unlock()
	if info, ok := x.srv.cfg.Intent.LookupNode(x.uid); ok {
		if limit, reason := x.srv.cfg.Intent.RecordReport(info, about); limit != "" {
			x.budget.Hit(limit, reason)
		}
	}
}
