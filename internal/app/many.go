package app

import (
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/route"
)

// many counts nodes that fall silent. When a large share of the fleet does so within one
// keepalive time-out, messages about each of them wait for two.
type many struct {
	timeout time.Duration // of keepalives

	mu     sync.Mutex
	fell   []fell // within the last time-out
	until  time.Time
	reason string
}

type fell struct {
	at    time.Time
	nodes int
}

// What counts as many: this share of all nodes, and at least so many.
const (
	manyShare = 0.2
	manyLeast = 10
)

// add counts nodes that fell silent at an instant, and says whether those of the time-out before
// it are many of all. One that is told late is no part of what happens now.
func (m *many) add(now time.Time, nodes, all int) (sum int, over bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.fell) > 0 && now.Sub(m.fell[0].at) >= m.timeout {
		m.fell = m.fell[1:]
	}
	if last := len(m.fell) - 1; last >= 0 && now.Sub(m.fell[last].at) < m.timeout/100 {
		m.fell[last].nodes += nodes
	} else {
		m.fell = append(m.fell, fell{now, nodes})
	}
	for _, f := range m.fell {
		sum += f.nodes
	}
	return sum, sum >= manyLeast && float64(sum) > manyShare*float64(all)
}

// at says that it is many, from now on. Who loses sessions falls silent a time-out later: that
// is one episode, told once; first: it begins.
func (m *many) at(now time.Time, reason string) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if first = m.until.IsZero() || now.Sub(m.until) >= 2*m.timeout; first {
		m.reason = reason
	}
	m.until = now.Add(2 * m.timeout)
	return first
}

// hold is react.Options.Many.
func (m *many) hold(now time.Time) *route.Hold {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !now.Before(m.until) {
		return nil
	}
	return &route.Hold{Kind: route.ManySilent, Reason: m.reason, Until: m.until}
}
