package core

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/pause"
)

// Budget is the account of one session: a bucket of its node, and the bucket of its namespace. Its methods Spend and
// Wait belong to the session's reader.
type Budget struct {
	limiter   *Limiter
	namespace *namespace
	node      string
	own       buckets
}

// Open prepares the budget of a node's session; call it before any other method.
func (b *Budget) Open(l *Limiter, node *Node) {
	b.limiter, b.namespace, b.node = l, l.namespace(node.Namespace), node.Name
}

// Limits returns the limits of the namespace. The caller must not change them.
func (b *Budget) Limits() *NamespaceLimits { return b.namespace.limits.Load() }

// Spend takes the tokens of a batch from the buckets of the node and of its namespace, and returns the longer debt.
func (b *Budget) Spend(c *Charge) Debt {
	limits, now, burst := b.Limits(), b.limiter.Monotonic(), b.limiter.Burst
	node, namespace := limits.nodeRates(), limits.namespaceRates()
	own, of := b.own.spend(c, node, burst, now)
	all, ofAll := b.namespace.spend(c, namespace, burst, now)
	if all > own {
		return Debt{all, "namespace", ofAll, namespace[ofAll]}
	}
	return Debt{own, "node", of, node[of]}
}

// SpendFrame takes a token of the node for a frame without signals: no frame is free.
func (b *Budget) SpendFrame() Debt {
	most := b.Limits().NodeResultsPerSec
	return Debt{b.own[LoadResults].Spend(1, most, b.limiter.Burst, b.limiter.Monotonic()), "node", LoadResults, most}
}

// Hit counts a limit that the session met and keeps it for Limiter.Hits.
func (b *Budget) Hit(limit, reason string) {
	name := b.Limits().Namespace
	b.limiter.Met.WithLabelValues(name, limit).Inc()
	n := b.namespace
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hits == nil {
		n.hits = map[string]*Hit{}
	}
	h := n.hits[limit]
	if h == nil {
		h = &Hit{Limit: limit}
		n.hits[limit] = h
	}
	h.Count++
	h.Namespace, h.Last, h.Node, h.Reason = name, b.limiter.Now(), b.node, reason
}

// maxPause bounds one pause, so that a server that stops does not wait for it.
const maxPause = time.Second

// Wait pauses the reader until the debt is paid; ctx or the end of the session ends it. New limits count the debt anew:
// after an operator raises one, nobody waits by the old one.
func (b *Budget) Wait(ctx context.Context, wait time.Duration, w *Window) {
	limits := b.Limits()
	for ; wait > 0; wait -= maxPause {
		if now := b.Limits(); now != limits {
			limits = now
			if wait = b.Spend(&Charge{}).Wait; wait <= 0 {
				return
			}
		}
		if pause.For(ctx, min(wait, maxPause)) != nil || w.Ended() {
			return
		}
	}
}
