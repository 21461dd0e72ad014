package core

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/model"
)

// NamespaceLimits holds the limits of one namespace: rates and sizes of its nodes' signals.
type NamespaceLimits struct {
	Namespace         string  // its name
	ResultsPerSec     float64 // of all its nodes; zero: no limit
	NodeResultsPerSec float64 // of each; zero: the server's default
	ValuesPerSec      float64 // rows of value blocks of all its nodes; zero: no limit, as below
	NodeValuesPerSec  float64
	ReportsPerSec     float64 // reports and inventories
	NodeReportsPerSec float64
	BytesPerSec       float64 // of batches
	NodeBytesPerSec   float64
	OutputBytes       int // longest output of one result; zero: the server's default
}

// LimiterConfig holds the settings of a Limiter.
type LimiterConfig struct {
	Namespace func(model.NamespaceID) NamespaceLimits // read once a second
	Defaults  NamespaceLimits                         // NodeResultsPerSec and OutputBytes
	Burst     time.Duration                           // content of a full bucket, in time at its rate
	Monotonic func() int64                            // ns of a clock that nobody sets
	Now       func() time.Time
	Met       *prometheus.CounterVec // by namespace and limit
}

// Limiter holds the limits of all namespaces, for all sources together.
type Limiter struct {
	LimiterConfig
	mu         sync.Mutex
	namespaces map[model.NamespaceID]*namespace
}

// namespace holds the limits that the nodes of a namespace share, the buckets of their rates, and the limits that they
// met.
type namespace struct {
	buckets
	limits atomic.Pointer[NamespaceLimits]

	mu   sync.Mutex
	hits map[string]*Hit // by limit
}

// Hit is a limit that a namespace met: the results beyond it were refused or delayed.
type Hit struct {
	Namespace string
	Limit     string // output, node_states, namespace_states, node_rate, namespace_rate, node_values_rate … (Debt.Limit), labels, facts, groups, node_passive
	Count     uint64 // since the start
	Last      time.Time
	Node      string // the last one
	Reason    string // the last one
}

// Hits returns the limits met since a time, the newest first.
func (l *Limiter) Hits(since time.Time) (list []Hit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.namespaces {
		n.mu.Lock()
		for _, h := range n.hits {
			if h.Last.After(since) {
				list = append(list, *h)
			}
		}
		n.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b Hit) int { return b.Last.Compare(a.Last) })
	return list
}

func (l *Limiter) namespace(id model.NamespaceID) *namespace {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.namespaces[id]
	if n == nil {
		if l.namespaces == nil {
			l.namespaces = map[model.NamespaceID]*namespace{}
		}
		n = &namespace{}
		n.limits.Store(l.limitsOf(id))
		l.namespaces[id] = n
	}
	return n
}

func (l *Limiter) limitsOf(id model.NamespaceID) *NamespaceLimits {
	limits := l.Namespace(id)
	if limits.NodeResultsPerSec == 0 {
		limits.NodeResultsPerSec = l.Defaults.NodeResultsPerSec
	}
	if limits.OutputBytes == 0 {
		limits.OutputBytes = l.Defaults.OutputBytes
	}
	return &limits
}

// Refresh reads the limits of all namespaces again. Call it once a second: a change by an operator is in force at once.
func (l *Limiter) Refresh() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, n := range l.namespaces {
		if now := l.limitsOf(id); *now != *n.limits.Load() {
			n.limits.Store(now)
		}
	}
}

// Hit counts a limit that a node met outside of a session.
func (l *Limiter) Hit(node *Node, limit, reason string) {
	var b Budget
	b.Open(l, node)
	b.Hit(limit, reason)
}

// StatesLimit returns the limit behind a code with which the event view refuses another event.
func StatesLimit(code string) string {
	if code == "namespace_limit" {
		return "namespace_states"
	}
	return "node_states"
}
