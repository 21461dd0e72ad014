package muster

import "time"

// maxPause bounds one pause, so that a stopped server is not waited for.
const maxPause = time.Second

// pay takes tokens for n signals and waits while there is debt: the agent's next
// frames wait in its socket, then in its spool. Nobody else waits.
func (x *session) pay(n int) {
	now := x.srv.sinceBegan()
	own := x.own.take(n, x.node.ResultsPerSec, x.srv.cfg.Limits.RateBurst, now)
	all := x.shared.take(n, x.node.NamespaceResultsPerSec, x.srv.cfg.Limits.RateBurst, now)
	if own == 0 && all == 0 {
		return
	}
	limit, reason := "node", "this node is at its limit of results per second"
	if all > own {
		limit, reason = "namespace", "the namespace is at its limit of results per second"
	}
	x.srv.metrics.throttled.WithLabelValues(limit).Inc()
	x.slow(reason)
	x.wait(max(own, all))
}

// wait pauses the reader; the end of session or server ends it.
func (x *session) wait(wait time.Duration) {
	for ; wait > 0; wait -= maxPause {
		timer := time.NewTimer(min(wait, maxPause))
		select {
		case <-timer.C:
		case <-x.srv.base.Done():
			timer.Stop()
			return
		}
		x.mu.Lock()
		over := x.over
		x.mu.Unlock()
		if over {
			return
		}
	}
}

// payFrame takes what any message costs, whatever is in it: pings, batches sent again
// and messages that mean nothing are not free.
func (x *session) payFrame() {
	if wait := x.own.take(1, x.node.ResultsPerSec, x.srv.cfg.Limits.RateBurst, x.srv.sinceBegan()); wait > 0 {
		x.srv.metrics.throttled.WithLabelValues("node").Inc()
		x.wait(wait)
	}
}

// slowEvery is the least time between two Slows to one agent.
const slowEvery = 5 * time.Second

// slow asks for larger, rarer batches.
func (x *session) slow(reason string) {
	now := x.srv.clock.Load()
	x.mu.Lock()
	ask := now-x.slowAt >= int64(slowEvery)
	put := false
	if ask {
		x.slowAt, x.slowFor = now, reason
		put = x.dueLocked(lanePush, dueSlow)
	}
	x.mu.Unlock()
	if put {
		x.srv.pushes.put(x)
	}
}
