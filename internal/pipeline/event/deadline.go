package event

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
)

// Expire implements shard.Applier: TTLs ran out.
func (w *worker) Expire(ids []uint32) {
	p := w.p
	slices.SortFunc(ids, func(a, b uint32) int {
		x, y := p.slots.at(a), p.slots.at(b)
		return cmp.Or(cmp.Compare(p.Node(x.node).ID, p.Node(y.node).ID), cmp.Compare(x.check, y.check))
	})
	for _, id := range ids {
		w.expireTTL(p, id, p.slots.at(id))
	}
}

// Period implements shard.Applier: the TTL of a state.
func (w *worker) Period(id uint32) int64 {
	if c := w.check(w.p.slots.at(id).chunk); c != nil {
		return int64(c.TTL)
	}
	return 0
}

// expireTTL reports a check without a result in time, unless the node's life explains it, or
// a time at which the check is not scheduled.
func (w *worker) expireTTL(p *partition, id uint32, s *slot) {
	switch until, why := w.Postpone(p.Partition, s.node); why {
	case shard.ForBacklog:
		p.deadlines.Set(id, until) // see passBacklog
		return
	case shard.ForHeartbeat:
		p.deadlines.Set(id, until) // see passWaiting
		s.flags |= flagWaits
		return
	case shard.WhileAway:
		return // see restartTTLs
	}
	c := w.check(s.chunk)
	if c == nil || c.TTL == 0 {
		return
	}
	if len(c.Except) > 0 {
		if left := w.pause(c, s); left > 0 {
			p.deadlines.Set(id, w.Listening+left)
			return
		}
	}
	w.view.metrics.ttlExpired.Inc()
	w.text = fmt.Appendf(w.text[:0], "no result for %s (TTL); last run %s",
		model.Duration(c.TTL), unixNano(s.executed).Format(time.RFC3339))
	w.judge(p, id, s, c, verdict{status: model.Unknown, executed: s.executed, output: w.text, expired: true})
}
