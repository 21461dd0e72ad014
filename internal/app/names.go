package app

import (
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/lint"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/wire"
)

// names is react.Names on the planner's directory.
type names struct{ s *Server }

func (n names) Node(id model.NodeID) (namespace, name string, labels map[string]string, ok bool) {
	if id == model.ServerNode {
		return model.DefaultNamespaceName, model.ServerNodeName, nil, true
	}
	namespace, name, ok = n.s.planner.NodeName(id)
	return namespace, name, n.s.planner.NodeLabels(id), ok
}

func (n names) Check(id model.CheckID) (namespace, name string, ok bool) {
	if name := model.BuiltinCheckName(id); name != "" {
		return model.DefaultNamespaceName, name, true
	}
	return n.s.planner.CheckName(id)
}

func (n names) Namespace(id model.NamespaceID) (string, bool) { return n.s.planner.NamespaceName(id) }

func (n names) DefaultHandlers(namespace string) []string {
	return n.s.planner.NamespaceHandlers(namespace)
}

func (n names) Chunk(id model.ChunkID) *model.Chunk { return n.s.chunk(id) }

func (n names) Handler(namespace, name string) (*model.HandlerSpec, bool) {
	return n.s.planner.Handler(namespace, name)
}

func (n names) Properties(id model.NodeID) model.PropertyValues {
	return n.s.planner.NodeProperties(id)
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

// validate checks a resource by itself: its fields, its probe, its conditions.
func validate(r *model.Resource) error { return lint.Rules().Check(r).Err() }

func nowUTC() time.Time { return time.Now().UTC() }
