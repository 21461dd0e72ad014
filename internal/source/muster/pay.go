package muster

import (
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/pause"
)

// maxPause bounds one pause, so that a stopped server is not waited for.
const maxPause = time.Second

// pay takes tokens for n signals and waits while there is debt: the agent's next
// frames wait in its socket, then in its spool. Nobody else waits.
func (x *session) pay(n int) {
	limits := x.team.limits.Load()
	own, all := x.take(n, limits)
	if own == 0 && all == 0 {
		return
	}
	limit, reason := "node", fmt.Sprintf("this node is at its limit of %g results per second", limits.NodeResultsPerSec)
	if all > own {
		limit, reason = "namespace", fmt.Sprintf("the namespace is at its limit of %g results per second", limits.ResultsPerSec)
	}
	x.srv.metrics.throttled.WithLabelValues(limit).Inc()
	x.hit(limit+"_rate", reason)
	x.slow(x.srv.sinceBegan(), slowMost, reason)
	x.wait(max(own, all))
}

// take takes n tokens, and returns how long to wait for the node and the namespace.
func (x *session) take(n int, limits *TeamLimits) (own, all time.Duration) {
	now, burst := x.srv.sinceBegan(), x.srv.cfg.Limits.RateBurst
	return x.own.take(n, limits.NodeResultsPerSec, burst, now), x.team.take(n, limits.ResultsPerSec, burst, now)
}

// wait pauses the reader; the end of session or server ends it, and other limits count
// anew what is owed: who raises one does not wait until the debt under the old is paid.
func (x *session) wait(wait time.Duration) {
	limits := x.team.limits.Load()
	for ; wait > 0; wait -= maxPause {
		if now := x.team.limits.Load(); now != limits {
			limits = now
			own, all := x.take(0, limits)
			if wait = max(own, all); wait <= 0 {
				return
			}
		}
		if pause.For(x.srv.base, min(wait, maxPause)) != nil {
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
	most := x.team.limits.Load().NodeResultsPerSec
	if wait := x.own.take(1, most, x.srv.cfg.Limits.RateBurst, x.srv.sinceBegan()); wait > 0 {
		x.srv.metrics.throttled.WithLabelValues("node").Inc()
		x.hit("node_rate", fmt.Sprintf("this node sends more than %g results or other messages per second", most))
		x.wait(wait)
	}
}
