package app

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/wire"
)

// openSessions opens the authority, which makes certificates, and the session layer.
func (s *Server) openSessions(context.Context) error {
	var err error
	s.authority, err = pki.Open(s.path("pki"), s.advertised(), s.now)
	if err != nil {
		return err
	}
	queued, _ := s.queues.Bounds("journal")
	s.sessions, err = muster.New(muster.Config{
		Journal: s.journal, Nodes: nodes{s}, View: s.view, Assignments: s.planner, SigningKey: s.authority.SigningKey(),
		Limits: muster.Limits{
			FrameBytes: int(s.cfg.MaxFrame), UnackedBytes: int(s.cfg.MaxUnacked), OutputBytes: int(s.cfg.MaxOutput),
			NodeResultsPerSec: s.cfg.NodeRate,
			Keepalive:         time.Duration(s.cfg.KeepaliveInterval), Timeout: time.Duration(s.cfg.KeepaliveTimeout),
			JournalQueueBytes: queued,
		},
		OnShed: s.shed, OnBehind: s.behind, Now: s.now, Queues: s.queues, Log: s.log, Registerer: s.registry,
	})
	return err
}

// nodes is muster.Nodes on the intent service.
type nodes struct{ s *Server }

func (n nodes) Lookup(uid uuid.UUID) (muster.Node, bool) {
	info, ok := n.s.intent.LookupNode(uid)
	if !ok {
		return muster.Node{}, false
	}
	limits := n.s.intent.LimitsFor(info.Namespace)
	return muster.Node{
		ID: info.ID, Name: info.Name, Namespace: info.NamespaceID, Keepalive: info.Interval, Timeout: info.Timeout,
		ResultsPerSec: limits.NodeResultsSec, NamespaceResultsPerSec: limits.ResultsPerSec, OutputBytes: limits.OutputBytes,
	}, true
}

func (n nodes) Seen(node muster.Node, hello *wire.Hello) {
	info, ok := n.s.intent.LookupNode(hello.Node)
	if !ok {
		return
	}
	facts := hello.Facts
	if facts == nil {
		facts = map[string]string{}
	}
	facts["agentVersion"] = hello.Version
	n.s.intent.SeenNode(info, facts, hello.Labels)
}
