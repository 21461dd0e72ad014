package sensu

import (
	"context"
	"net"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// register makes a connection the session of its node, by the first message, which describes the machine. It creates the
// node if there is none.
func (x *session) register(said *sensuwire.Received, keepalive bool) error {
	m, err := said.ReadMachine()
	if err != nil {
		return err
	}
	s := x.srv
	stranger := x.stranger()
	stranger.AgentReport = machineFacts(m)
	if m.Deregister {
		stranger.Lifecycle = s.ephemeralLifecycle(m, said, keepalive)
		if _, known := s.cfg.Intent.LookupNode(x.UID); !known {
			x.warnDeafHandlers(stranger.Lifecycle)
		}
	}
	by := intent.Actor{User: x.user.Name, Whence: x.Conn.NetConn().RemoteAddr().String(), Why: "its Sensu agent connected"}
	info, err := s.cfg.Intent.RegisterExternal(s.life.Base, by, stranger)
	if err != nil {
		return err
	}
	if err := s.checkEligible(stranger); err != nil {
		return err
	}
	x.Node = s.nodeOf(&info, said, keepalive)
	x.ID, x.Section = s.cfg.Rand(), core.SectionOf(x.UID)
	x.Budget.Open(s.cfg.Limiter, &x.Node)
	x.departure = departure{requested: m.Deregister, ephemeral: m.Deregister && info.ForgetAfter > 0}
	x.keepalive = keepaliveOf(&x.Node)
	x.keepalive.assumed = !keepalive
	x.shortenSilence()
	x.sent = s.registry.sentSecretsOf(info.ID, x.proven)
	older, ok := s.registry.swap(x, wire.StreamID(s.cfg.Rand()))
	if !ok {
		return model.Errorf(model.Conflict, "another connection of this agent is newer, or its certificate proves that it is this machine")
	}
	var base *core.Session
	if older != nil {
		base = &older.Session
	}
	entries := x.BeginEntries(x.mark(wire.SessionMark{Begun: true}), nil, base, func() []byte {
		_ = older.Conn.Close()
		return older.mark(wire.SessionMark{})
	})
	if err := s.cfg.Journal.Append(s.life.Base, entries...); err != nil {
		s.registry.remove(x)
		return model.Errorf(model.Unavailable, "the server cannot write its journal now")
	}
	x.registered = true
	x.recordMachine(said, keepalive)
	x.plan() // before the next message: results that the agent has spooled follow this one
	return nil
}

// checkUnique refuses a machine if another one with its name is connected and alive. A machine that lost its network or
// restarted gets in, because the connection of its earlier boot does not answer. A proven identity displaces an unproven
// one, and never gives way to one.
func (s *Server) checkUnique(ctx context.Context, m *intent.ExternalAgent, nc net.Conn, proven bool) error {
	node, ok := s.cfg.Intent.LookupNode(m.UID())
	if !ok {
		return nil
	}
	older := s.registry.Get(node.ID)
	if older == nil || proven && !older.proven {
		return nil
	}
	if older.proven == proven {
		alive, ok := older.Alive(ctx, s.life.Base, s.cfg.Limits.Probe, func() { s.outbox.Add(older, duePing) })
		if !ok {
			return model.Errorf(model.Unavailable, "another connection of agent %s is being admitted", m.Name)
		}
		if !alive {
			return nil
		}
	}
	holder := older.Peer()
	if s.cfg.OnClone != nil {
		refused := core.Peer{Address: model.HostOf(nc.RemoteAddr().String()), Since: s.cfg.Now().Truncate(time.Second).UTC()}
		s.cfg.OnClone(core.Clone{Node: older.Node, Holder: holder, Refused: refused})
	}
	proves := ""
	if older.proven && !proven {
		proves = ", and its certificate proves that it is that machine"
	}
	return model.Errorf(model.Conflict, "another agent with the name %s is connected, from %s%s", m.Name, holder, proves).
		WithHint("give one of them a name of its own: --name")
}

// recordMachine hands the description of the machine to the inventory. Only a keepalive names the handlers of the node's
// keepalive; an event names the handlers of its own check.
func (x *session) recordMachine(said *sensuwire.Received, keepalive bool) {
	m, err := said.ReadMachine()
	if err != nil {
		return
	}
	record := machineFacts(m)
	if keepalive {
		x.machineSum = said.Sum
		pipelines, err := said.ReadPipelines()
		if err != nil {
			return
		}
		record.Hears = &model.KeepaliveReceivers{Handlers: cleanNames(m.KeepaliveHandlers), Pipelines: cleanNames(pipelines)}
	}
	x.Mu.Lock()
	x.version, x.facts = "sensu-agent "+m.AgentVersion, record.Facts
	x.Mu.Unlock()
	if info, ok := x.srv.cfg.Intent.LookupNode(x.UID); ok {
		if limit, reason := x.srv.cfg.Intent.RecordReport(info, record); limit != "" {
			x.Budget.Hit(limit, reason)
		}
	}
}
