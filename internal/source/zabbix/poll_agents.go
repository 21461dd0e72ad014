package zabbix

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/expect"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/when"
)

// The server polls agents that only answer (Server= in their configuration). Nodes declare their addresses. One deadline per agent
// starts a round, which asks for all due items, one after the other: an agent has few processes. Agents whose last round failed use
// connections of their own, so that they delay no others.

// lane is a class of agents with connections of its own.
type lane int

// The lanes.
const (
	steady lane = iota
	troubled
	lanes
)

// laneConnections limits the connections at the same time.
var laneConnections = [lanes]int{steady: 512, troubled: 256}

const (
	contactInterval = time.Minute      // between answers of an agent without due items, if its node sets no keepalive
	retryDelay      = 15 * time.Second // after a failed round; it doubles with each further failure
	maxRetryDelay   = time.Minute
	soon            = 10 * time.Second // new agents and items are polled once within this time
	refreshInterval = time.Second      // between looks for changed declarations
)

// poller has the polled agents and their deadlines.
type poller struct {
	wake chan struct{} // capacity 1: a round has ended

	mu        sync.Mutex
	began     time.Time
	refreshed time.Time
	revision  int64
	agents    map[model.NodeID]*polledAgent
	due       expect.Engine // by node, in ns since began
	waiting   [lanes][]*polledAgent
	polls     [lanes]int // rounds under way
}

// polledAgent is the state of an agent that the server polls.
type polledAgent struct {
	node model.NodeID

	// Guarded by poller.mu.
	at         model.ZabbixAgent
	assignment uint64 // revision
	lane       lane
	busy       bool // it waits for a connection, or a round is under way
	removed    bool
	fault      string // of the last round; empty: the agent answered
	faultSince time.Time

	// Of the round.
	failures int
	last     time.Time // start of the last round with answers
	known    []string  // keys of the items of that round, ascending
	plain    bool      // the agent speaks the protocol before 7.0
	version  string    // fact agentVersion
}

// Poll polls agents until ctx ends.
func (s *Server) Poll(ctx context.Context) error {
	p := &s.poller
	var running sync.WaitGroup
	defer running.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case <-timer.C:
		}
		p.mu.Lock()
		now := s.cfg.Now()
		removed := s.refreshPolled(now)
		for a := p.next(now); a != nil; a = p.next(now) {
			at, lane := a.at, a.lane
			running.Go(func() {
				if removed := s.finishRound(a, lane, s.pollAgent(ctx, a, at)); removed {
					s.endPolledSession(ctx, a.node) // the round has begun another one
				}
				pause.Wake(p.wake)
			})
		}
		timer.Reset(p.delay(now))
		p.mu.Unlock()
		for _, a := range removed {
			running.Go(func() { s.endPolledSession(ctx, a.node) })
		}
	}
}

// refreshPolled takes over changed declarations of nodes, and returns the agents that are no longer polled. Call it with the mutex.
func (s *Server) refreshPolled(now time.Time) (removed []*polledAgent) {
	p := &s.poller
	revision := s.cfg.Nodes.Revision()
	if p.began.IsZero() {
		p.began = now
	} else if revision == p.revision || now.Sub(p.refreshed) < refreshInterval {
		return nil
	}
	p.revision, p.refreshed = revision, now
	nodes := s.cfg.Polled()
	for id, a := range p.agents {
		if _, ok := slices.BinarySearch(nodes, id); !ok {
			a.removed = true
			p.due.Clear(uint32(id))
			delete(p.agents, id)
			removed = append(removed, a)
		}
	}
	for _, id := range nodes {
		n := s.cfg.Nodes.Node(id)
		if n.ZabbixAgent == nil {
			continue // changed since
		}
		version, _ := s.cfg.Nodes.AssignmentVersion(id)
		a, known := p.agents[id]
		if !known {
			a = &polledAgent{node: id, last: now}
			p.agents[id] = a
		} else if a.at == *n.ZabbixAgent && (a.assignment == version || a.fault != "") {
			continue
		}
		a.at, a.assignment = *n.ZabbixAgent, version
		if !a.busy {
			p.setDue(a, now, now.Add(when.Phase(n.UID, model.CheckID(id), soon)))
		}
	}
	return removed
}

// setDue sets the time of an agent's next round. Call it with the mutex.
func (p *poller) setDue(a *polledAgent, now, at time.Time) {
	p.due.Set(uint32(a.node), max(1, int64(now.Sub(p.began)+at.Sub(now))))
}

// next returns an agent that is due and has a connection, or nil. Call it with the mutex.
func (p *poller) next(now time.Time) *polledAgent {
	for _, id := range p.due.Expired(int64(now.Sub(p.began)), nil) {
		if a := p.agents[model.NodeID(id)]; a != nil {
			a.busy = true
			p.waiting[a.lane] = append(p.waiting[a.lane], a)
		}
	}
	for i := range p.waiting {
		for p.polls[i] < laneConnections[i] && len(p.waiting[i]) > 0 {
			a := p.waiting[i][0]
			p.waiting[i] = p.waiting[i][1:]
			if !a.removed {
				p.polls[i]++
				return a
			}
		}
	}
	return nil
}

// delay returns the time until the next look at deadlines. Call it with the mutex.
func (p *poller) delay(now time.Time) time.Duration {
	if next := p.due.Next(); next > 0 {
		return min(refreshInterval, max(0, time.Duration(next)-now.Sub(p.began)))
	}
	return refreshInterval
}

// finishRound records the result of a round, and sets the time of the next one. It reports whether the agent is no longer polled.
func (s *Server) finishRound(a *polledAgent, from lane, r roundResult) (removed bool) {
	p := &s.poller
	p.mu.Lock()
	defer p.mu.Unlock()
	now := s.cfg.Now()
	p.polls[from]--
	a.busy, a.lane = false, steady
	if r.err != nil || r.slow {
		a.lane = troubled
	}
	switch {
	case r.err == nil:
		a.fault, a.faultSince, a.failures = "", time.Time{}, 0
	default:
		if a.fault == "" {
			a.faultSince = now
		}
		a.fault = model.OneLine(r.err)
		r.next = now.Add(min(retryDelay<<min(a.failures, 10), maxRetryDelay))
		a.failures++
	}
	if version, _ := s.cfg.Nodes.AssignmentVersion(a.node); version != a.assignment && r.err == nil {
		a.assignment, r.next = version, now
	}
	if !a.removed {
		p.setDue(a, now, r.next)
	}
	return a.removed
}

// PollFault returns why the server cannot poll the agent of a node. It is empty for nodes that the server polls
// successfully or not at all.
func (s *Server) PollFault(node model.NodeID) (address, reason string, since time.Time) {
	s.poller.mu.Lock()
	defer s.poller.mu.Unlock()
	if a := s.poller.agents[node]; a != nil && a.fault != "" {
		return a.at.Endpoint(), a.fault, a.faultSince
	}
	return "", "", time.Time{}
}

// EachPollFault calls a function with each node whose agent the server cannot poll, and the reason.
func (s *Server) EachPollFault(each func(node model.NodeID, reason string)) {
	s.poller.mu.Lock()
	defer s.poller.mu.Unlock()
	for id, a := range s.poller.agents {
		if a.fault != "" {
			each(id, a.fault)
		}
	}
}

// count returns the numbers of polled agents, of failing agents, and of agents that wait for a connection.
func (p *poller) count() (all, failing, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.agents {
		if a.fault != "" {
			failing++
		}
	}
	for _, list := range p.waiting {
		waiting += len(list)
	}
	return len(p.agents), failing, waiting
}

// pollOutcome is the answer of a polled agent to one request, as a label for metrics. Every request raises exactly one.
type pollOutcome uint8

const (
	pollValue       pollOutcome = iota
	pollUnsupported             // the agent cannot collect the item
	pollNone                    // the agent has no value now
	pollFailed                  // no answer, or no valid one
	pollOutcomes
)

var pollOutcomeNames = [pollOutcomes]string{"value", "unsupported", "no_value", "failed"}

// showPolled registers the metrics of polls.
func (m *metrics) showPolled(r prometheus.Registerer, p *poller) {
	meter := core.Meter{Registerer: r, Prefix: "muster_zabbix_"}
	meter.Outcomes("polls_total", "Requests to polled agents of Zabbix, by outcome.", m.polls[:], func(i int) string { return pollOutcomeNames[i] })
	meter.Gauge("polled_agents", "Agents of Zabbix that the server polls.", func() float64 { all, _, _ := p.count(); return float64(all) })
	meter.Gauge("polled_agents_failing", "Polled agents that did not answer last time.", func() float64 { _, failing, _ := p.count(); return float64(failing) })
	meter.Gauge("polled_agents_waiting", "Polled agents that are due and wait for a connection.", func() float64 { _, _, waiting := p.count(); return float64(waiting) })
}
