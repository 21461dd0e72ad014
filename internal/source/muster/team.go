package muster

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// team is what all nodes of a namespace share: its limits, the buckets of its rates,
// and how often it met a limit. Limits are read anew every second, so that what an
// operator changes is in force at once.
type team struct {
	buckets
	limits atomic.Pointer[TeamLimits]

	mu   sync.Mutex
	hits map[string]*Hit // by limit
}

// Hit is a limit that a namespace met: what went beyond was refused, or waited.
type Hit struct {
	Namespace string
	Limit     string // output, node_states, namespace_states, node_rate, namespace_rate, node_values_rate … (see debt.limit), labels, facts, groups, node_passive
	Count     uint64 // since the start
	Last      time.Time
	Node      string // that met it last
	Reason    string // then
}

func (x *session) hit(limit, reason string) { x.srv.hit(x.team, x.node.Name, limit, reason) }

// hit counts and remembers one.
func (s *Server) hit(t *team, node, limit, reason string) {
	namespace := t.limits.Load().Namespace
	s.metrics.limited.WithLabelValues(namespace, limit).Inc()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hits == nil {
		t.hits = map[string]*Hit{}
	}
	h := t.hits[limit]
	if h == nil {
		h = &Hit{Limit: limit}
		t.hits[limit] = h
	}
	h.Count++
	h.Namespace, h.Last, h.Node, h.Reason = namespace, s.cfg.Now(), node, reason
}

// Hits are the limits met since a time, the newest first.
func (s *Server) Hits(since time.Time) (list []Hit) {
	s.teams.mu.Lock()
	defer s.teams.mu.Unlock()
	for _, t := range s.teams.by {
		t.mu.Lock()
		for _, h := range t.hits {
			if h.Last.After(since) {
				list = append(list, *h)
			}
		}
		t.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b Hit) int { return b.Last.Compare(a.Last) })
	return list
}

// teams finds a namespace's.
type teams struct {
	mu sync.Mutex
	by map[model.NamespaceID]*team
}

func (s *Server) team(id model.NamespaceID) *team {
	s.teams.mu.Lock()
	defer s.teams.mu.Unlock()
	t := s.teams.by[id]
	if t == nil {
		if s.teams.by == nil {
			s.teams.by = map[model.NamespaceID]*team{}
		}
		t = &team{}
		t.limits.Store(s.limitsOf(id))
		s.teams.by[id] = t
	}
	return t
}

// limitsOf completes what intent says of a namespace with the server's defaults.
func (s *Server) limitsOf(id model.NamespaceID) *TeamLimits {
	l := s.cfg.Nodes.Team(id)
	if l.NodeResultsPerSec == 0 {
		l.NodeResultsPerSec = s.cfg.Limits.NodeResultsPerSec
	}
	if l.OutputBytes == 0 {
		l.OutputBytes = s.cfg.Limits.OutputBytes
	}
	return &l
}

func (s *Server) refreshTeams() {
	s.teams.mu.Lock()
	defer s.teams.mu.Unlock()
	for id, t := range s.teams.by {
		if now := s.limitsOf(id); *now != *t.limits.Load() {
			t.limits.Store(now)
		}
	}
}
