package muster

import (
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/pause"
)

// maxPause bounds one pause, so that a stopped server is not waited for.
const maxPause = time.Second

// pay takes the tokens of a batch and waits while there is debt: the agent's next
// frames wait in its socket, then in its spool. Nobody else waits.
func (x *session) pay(c *charge) {
	owed := x.take(c, x.team.limits.Load())
	if owed.wait == 0 {
		return
	}
	x.srv.metrics.throttled.WithLabelValues(strings.TrimSuffix(owed.limit(), "_rate")).Inc()
	x.hit(owed.limit(), owed.reason())
	x.slow(x.srv.sinceBegan(), slowMost, owed.reason())
	x.wait(owed.wait)
}

// take takes tokens of the node and of its namespace, and returns the longer wait.
func (x *session) take(c *charge, limits *TeamLimits) debt {
	now, burst := x.srv.sinceBegan(), x.srv.cfg.Limits.RateBurst
	node, namespace := limits.nodeRates(), limits.namespaceRates()
	own, of := x.own.takeTokens(c, node, burst, now)
	all, ofAll := x.team.takeTokens(c, namespace, burst, now)
	if all > own {
		return debt{all, "namespace", ofAll, namespace[ofAll]}
	}
	return debt{own, "node", of, node[of]}
}

// wait pauses the reader; the end of session or server ends it, and other limits count
// anew what is owed: who raises one does not wait until the debt under the old is paid.
func (x *session) wait(wait time.Duration) {
	limits := x.team.limits.Load()
	for ; wait > 0; wait -= maxPause {
		if now := x.team.limits.Load(); now != limits {
			limits = now
			if wait = x.take(&charge{}, limits).wait; wait <= 0 {
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
	if wait := x.own[loadResults].take(1, most, x.srv.cfg.Limits.RateBurst, x.srv.sinceBegan()); wait > 0 {
		x.srv.metrics.throttled.WithLabelValues("node").Inc()
		x.hit("node_rate", fmt.Sprintf("this node sends more than %g results or other messages per second", most))
		x.wait(wait)
	}
}
