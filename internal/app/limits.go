package app

import (
	"slices"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/selfcheck"
	"github.com/muster-fleet/muster/internal/source/core"
)

// limitsOf returns the limits in force in a namespace and their use.
func (s *Server) limitsOf(namespace string) []v1.LimitUse {
	l := s.intent.LimitsFor(namespace)
	id, ok := s.planner.NamespaceByName(namespace)
	if !ok {
		return nil
	}
	states, largest := s.view.Counts(id).States, uint64(0)
	for _, node := range s.view.Summaries(s.planner.Nodes(namespace)) {
		largest = max(largest, node.Held())
	}
	nodes := uint64(len(s.planner.Nodes(namespace)))
	all := []v1.LimitUse{
		{Name: "states", Limit: float64(l.States), Used: &states},
		{Name: "statesPerNode", Limit: float64(l.StatesPerNode), Used: &largest},
		{Name: "nodes", Limit: float64(l.Nodes), Used: &nodes},
		{Name: "labels", Limit: float64(l.Labels)},
		{Name: "outputBytes", Limit: float64(l.OutputBytes)},
		{Name: "resultsPerSec", Limit: l.ResultsPerSec},
		{Name: "nodeResultsPerSec", Limit: l.NodeResultsSec},
		{Name: "passivePerNode", Limit: float64(l.PassivePerNode)},
	}
	hits := s.sessions.Limiter().Hits(time.Time{})
	out := all[:0]
	for _, use := range all {
		for _, h := range hits {
			if h.Namespace == namespace && selfcheck.LimitField(h.Limit) == use.Name {
				use.Met, use.Last, use.Node, use.Reason = h.Count, h.Last, h.Node, h.Reason
			}
		}
		if use.Limit > 0 || use.Met > 0 {
			out = append(out, use)
		}
	}
	return out
}

// full is intent.Options.Full: a limit refused a machine. A node that exists carries the event.
func (s *Server) full(namespace, limit, reason string) {
	id, ok := s.planner.NamespaceByName(namespace)
	nodes := s.planner.Nodes(namespace)
	if !ok || len(nodes) == 0 {
		return
	}
	_, name, _ := s.planner.NodeName(slices.Min(nodes))
	s.sessions.Limiter().Hit(&core.Node{ID: slices.Min(nodes), Name: name, Namespace: id}, limit, reason)
}
