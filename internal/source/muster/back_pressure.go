package muster

import (
	"context"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// Agents are slowed by class. Agents that send value blocks are slowed from core.SlowValuesAt on, all agents that send
// results from core.SlowResultsAt on. A slowdown lasts until the level is below half of its start: a queue that drains
// because agents are slow must not bring them back at once. Levels are read often, because a queue for half a second
// of results fills within half a second.
const (
	pressureInterval = 200 * time.Millisecond
	recoveredShare   = 0.5 // of the level that starts a slowdown
)

// A slowdown asks agents to wait longer before each batch, so that fewer, larger batches come.
const (
	firstLinger  = 2 * time.Second // sent with jitter, so that agents do not come together
	maxLinger    = 2 * firstLinger // if the first is not enough
	slowInterval = 4 * time.Second // shortest time between two BackPressure messages to one agent
	// slowDuration is the longest time that one BackPressure holds; agents get up to half a slowInterval less. It
	// outlasts a lost BackPressure and ends soon after the last one, so that agents return one by one.
	slowDuration = 2 * slowInterval
)

// agentThrottle decides when agents must send less often, and how long agents wait before each batch.
type agentThrottle struct {
	threshold float64 // fill level that starts a slowdown
	active    bool
	sentAt    int64         // time of the last BackPressure, ns; zero: never
	linger    time.Duration // in the last BackPressure
}

// update computes how long agents must wait before each batch, from a fill level of the server. It reports whether to
// send agents a BackPressure message now. true: agents get a BackPressure now. Agents that linger send their backlog
// afterwards, so the linger grows no more than needed.
func (t *agentThrottle) update(now int64, level float64) (send bool) {
	t.active = level > t.threshold || t.active && level >= t.threshold*recoveredShare
	since := now - t.sentAt
	if !t.active || t.sentAt != 0 && since < int64(slowInterval) {
		return false
	}
	switch {
	case t.sentAt == 0 || since >= int64(slowDuration):
		t.linger = firstLinger
	case level > t.threshold:
		t.linger = min(t.linger+firstLinger, maxLinger)
	}
	t.sentAt = now
	return true
}

// slowAgents asks agents to send less often while a resource of the server is too full. An example is the journal's
// queue. It runs until ctx ends.
func (s *Server) slowAgents(ctx context.Context) {
	tick := time.NewTicker(pressureInterval)
	defer tick.Stop()
	results, values := agentThrottle{threshold: core.SlowResultsAt}, agentThrottle{threshold: core.SlowValuesAt}
	var since int64 // time of the first BackPressure to all agents; zero: all agents have their usual pace
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := s.monotonicNs()
		level, reason := s.pressures.Highest()
		if results.update(now, level) {
			if since == 0 {
				since = now
				s.cfg.Log.Warn("back-pressure: all agents send larger batches, less often", "reason", reason)
			}
			s.registry.ForEach(func(x *session) { x.queueBackPressure(now, results.linger, reason) })
		}
		if values.update(now, level) && !results.active {
			s.registry.ForEach(func(x *session) {
				if x.values.Load() {
					x.queueBackPressure(now, values.linger, reason)
				}
			})
		}
		if since != 0 && now-results.sentAt >= int64(slowDuration+wire.BackPressureEasing*results.linger) {
			s.cfg.Log.Info("back-pressure has ended: agents send at their usual rate", "after", time.Duration(now-since).Round(time.Second))
			since = 0
		}
	}
}

// queuedBackPressure is the latest message, still unsent, that asks a session's agent to send less often. The
// message is called BackPressure. Its Mu guards it.
type queuedBackPressure struct {
	reason string
	linger time.Duration
	at     int64 // monotonic time since it is due; zero: never
}

// queueBackPressure queues a message that asks the agent to wait longer before each batch. It queues at most one
// BackPressure message per slowInterval.
func (x *session) queueBackPressure(now int64, linger time.Duration, reason string) {
	x.Mu.Lock()
	defer x.Mu.Unlock()
	if x.slowdown.at == 0 || now-x.slowdown.at >= int64(slowInterval) {
		x.slowdown = queuedBackPressure{reason, linger, now}
		x.srv.pushes.AddLocked(x, dueBackPressure)
	}
}

// slowdownMs returns the randomized duration of a slowdown of agents in milliseconds.
func (s *Server) slowdownMs() uint32 {
	return uint32(slowDuration.Milliseconds() - int64(s.cfg.Rand()*float64(slowInterval.Milliseconds()/2)))
}

// chargeBatch counts a batch against the rate limits, and pauses reading from the agent above a limit.
func (x *session) chargeBatch(c *core.TrafficCost) {
	debt := x.Budget.Spend(c)
	x.pauseForDebt(&debt)
}

// waitForWorkerShare pauses reading from the agent if the node's values have used too much worker time. It does
// so if earlier values of the node took more than its share.
func (x *session) waitForWorkerShare() {
	debt := x.Budget.Debt(core.LoadSteps)
	x.pauseForDebt(&debt)
}

// pauseForDebt pauses reading from an agent above its rate limit, and asks the agent to send less often.
func (x *session) pauseForDebt(debt *core.Debt) {
	if debt.Wait > 0 {
		x.queueBackPressure(x.srv.monotonicNs(), maxLinger, debt.Reason())
		x.pauseReader(debt)
	}
}

// chargeFrame counts a ping or repeated batch against the rate limit, and pauses reading above the limit. Such frames
// are pings and repeated batches.
func (x *session) chargeFrame() {
	if debt := x.Budget.SpendFrame(); debt.Wait > 0 {
		x.pauseReader(&debt)
	}
}

// pauseReader counts an exceeded rate limit, and stops reading from the agent for a while. The pause lasts until the
// token bucket has refilled.
func (x *session) pauseReader(debt *core.Debt) {
	x.srv.metrics.throttled.WithLabelValues(strings.TrimSuffix(debt.Limit(), "_rate")).Inc()
	x.Budget.Exceed(debt)
	x.Budget.Wait(x.srv.life.Base, *debt, &x.Window)
}
