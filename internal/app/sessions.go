package app

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/watchdog"
	"github.com/muster-fleet/muster/internal/wire"
)

// openSessions opens the authority, which makes certificates, and the session layer.
func (s *Server) openSessions(ctx context.Context) error {
	var err error
	s.names = s.advertised(ctx)
	s.authority, err = pki.Open(s.path("pki"), s.names, s.now)
	if err != nil {
		return err
	}
	s.authority.NodeLife = time.Duration(s.cfg.CertificateLife)
	s.turns = s.newTurns()
	queued, _ := s.queues.Bounds("journal")
	s.sessions, err = muster.New(muster.Config{
		Journal: s.journal, Nodes: nodes{s}, View: s.view, Assignments: s.planner, SigningKey: s.authority.SigningKey(),
		Servers: s.cfg.AgentServers, ProxyFrom: s.cfg.Proxies(),
		Limits: muster.Limits{
			Connections: connections(),
			FrameBytes:  int(s.cfg.MaxFrame), UnackedBytes: int(s.cfg.MaxUnacked), OutputBytes: int(s.cfg.MaxOutput),
			NodeResultsPerSec: s.cfg.NodeRate,
			Keepalive:         time.Duration(s.cfg.KeepaliveInterval), Timeout: time.Duration(s.cfg.KeepaliveTimeout),
			JournalQueueBytes: queued,
		},
		Secret:    s.secretFor,
		Pressures: []muster.Pressure{s.reactionsPressure},
		OnShed:    s.monitor.Shed, OnBehind: s.monitor.OlderData, OnClone: s.monitor.Clone, OnRan: s.turns.Ran, OnEnded: s.turns.Ended, Assets: s.archives.Open, Now: s.now, Queues: s.queues, Log: s.log, Registerer: s.registry,
	})
	if err != nil {
		return err
	}
	return s.openWatchdog()
}

// reactionsPressure is how full the queue of changes is that history has not recorded, where
// the view waits for it. A store that does not answer is not helped by slower agents.
func (s *Server) reactionsPressure() (share float64, reason string) {
	if s.history.Trouble() != nil {
		return 0, ""
	}
	return s.reactor.Fullness(), "the server's history is behind"
}

// nodeChanged ends the session of a node that another machine is now, and lets an agent
// that has another name begin anew, so that it hears of it.
func (s *Server) nodeChanged(was, is intent.NodeInfo) {
	switch {
	case s.sessions == nil: // it is being opened
	case was.Key != is.Key:
		gone := nodes{s}.Gone(uuid.Nil, was.Key)
		s.sessions.Replaced(is.ID, gone)
		s.bridgeChanged(is.ID)
	case was.Name != is.Name:
		s.bridgeChanged(is.ID)
		s.sessions.Disconnect(is.ID, "changed", "the node is called "+is.Name+" now: the session begins anew")
	case was.Interval != is.Interval || was.Timeout != is.Timeout || was.Warning != is.Warning:
		s.sessions.Disconnect(is.ID, "changed", "the node's keepalive has changed: the session begins anew")
	}
}

// connected says whether a node has a session now.
func (s *Server) connected(node model.NodeID) bool {
	return s.sessions != nil && s.sessions.Connected(node) || s.bridge != nil && s.bridge.Connected(node)
}

// absent says for how long a node must still be away until another machine may take its
// place by its name: the silence after which it is reported and the grace to reconnect,
// of time in which the server listened, from its last sign of life on.
func (s *Server) absent(node intent.NodeInfo) time.Duration {
	need := cmp.Or(node.Timeout, time.Duration(s.cfg.KeepaliveTimeout)) + time.Duration(s.cfg.ReconnectGrace)
	sum := s.view.Summaries([]model.NodeID{node.ID})[0]
	return stillAway(sum, need, s.started, node.Written, s.now())
}

// stillAway counts from when the server began to listen, and from when the row was written:
// a machine that has just joined has not come yet. That a node is silent is told by the
// clock on which only listening counts; one that was never there, or that was stopped on
// purpose, is not told of.
func stillAway(sum event.Summary, need time.Duration, started, written, now time.Time) time.Duration {
	since := started
	for _, at := range []time.Time{written, time.Unix(0, sum.Heard)} {
		if at.After(since) {
			since = at
		}
	}
	wait := need - now.Sub(since)
	if sum.Heard != 0 && !sum.Stopped && !sum.Silent {
		wait = max(wait, time.Second)
	}
	return max(wait, 0)
}

// trusted names a trusted group that a node is in.
func (s *Server) trusted(ctx context.Context, node model.NodeID) (string, error) {
	return s.planner.TrustedGroup(ctx, node)
}

// nodes is muster.Nodes on the intent service.
type nodes struct{ s *Server }

func (n nodes) Lookup(uid uuid.UUID) (core.Node, bool) {
	if uid == watchdog.UID {
		return n.s.courierNode()
	}
	info, ok := n.s.intent.LookupNode(uid)
	if !ok {
		return core.Node{}, false
	}
	return core.Node{ID: info.ID, Name: info.Name, Namespace: info.NamespaceID, Key: info.Key, Keepalive: info.Interval, Timeout: info.Timeout, Warning: info.Warning}, true
}

func (n nodes) Gone(uid uuid.UUID, key string) muster.Gone {
	t, ok := n.s.intent.Tombstone(uid)
	if !ok {
		if t, ok = n.s.intent.TombstoneByKey(key); !ok {
			return muster.Gone{}
		}
	}
	return muster.Gone{Code: t.Why, Sentence: t.Sentence(), Type: t.Hint()}
}

func (n nodes) FirstKey(uid uuid.UUID, key string) (onRecord, holder string) {
	return n.s.intent.RecordFirstKey(uid, key)
}

func (n nodes) Namespace(id model.NamespaceID) core.NamespaceLimits {
	name, _ := n.s.planner.NamespaceName(id)
	l := n.s.intent.NamespaceLimits(id)
	return core.NamespaceLimits{Namespace: name, ResultsPerSec: l.ResultsPerSec, NodeResultsPerSec: l.NodeResultsSec, OutputBytes: l.OutputBytes}
}

func (n nodes) Seen(node core.Node, hello *wire.Hello) (limit, reason string) {
	info, ok := n.s.intent.LookupNode(hello.Node)
	if !ok {
		return "", ""
	}
	facts := hello.Facts
	if facts == nil {
		facts = map[string]string{}
	}
	facts["agentVersion"] = hello.Version
	return n.s.intent.RecordReport(info, intent.AgentReport{Facts: facts, Labels: hello.Labels, Groups: hello.Groups, Hears: &model.KeepaliveReceivers{}})
}
