package event

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// expire acts on what should have come by the commit's listening time: keepalives
// first, because the silence of a node explains that of its checks.
func (w *worker) expire(p *partition) {
	if next := p.deadlines.Next(); next == 0 || next > w.listening {
		return
	}
	ids := p.deadlines.Expired(w.listening, w.expired[:0])
	w.expired = ids
	// The engine's order depends on its past; that of a view must not.
	slices.SortFunc(ids, func(a, b uint32) int {
		x, y := p.slots.at(a), p.slots.at(b)
		if k := cmp.Compare(rank(x), rank(y)); k != 0 {
			return k
		}
		return cmp.Or(cmp.Compare(p.nodes[x.node].id, p.nodes[y.node].id), cmp.Compare(x.check, y.check))
	})
	for _, id := range ids {
		if s := p.slots.at(id); s.check == model.KeepaliveCheck {
			w.missed(p, id, s)
		} else {
			w.overdue(p, id, s)
		}
	}
}

func rank(s *slot) int {
	if s.check == model.KeepaliveCheck {
		return 0
	}
	return 1
}

// missed reports a node that was not heard of: first with a warning where it has one, and
// when its own time-out has passed as critical.
func (w *worker) missed(p *partition, id uint32, s *slot) {
	n := &p.nodes[s.node]
	status, silent := model.Critical, n.timeout
	if n.warning > 0 && s.status == model.OK {
		status, silent = model.Warning, n.warning
		p.deadlines.Set(id, w.listening+n.timeout-n.warning)
	} else {
		w.view.metrics.keepaliveExpired.Inc()
	}
	w.text = fmt.Appendf(w.text[:0], "no keepalive for %s (last heard %s)",
		model.Duration(silent), unixNano(n.heard).Format(time.RFC3339))
	w.judge(p, id, s, w.keepalive(), verdict{status: status, executed: w.received, output: w.text, expired: true})
}

// overdue reports a check without a result in time, unless something explains it. A node
// that was not heard of since may be dead, which is for its keepalive to say: the check
// waits until the node is heard again or missed, so that a TTL shorter than the
// keepalive's time-out opens no problem beside that of a dead node.
func (w *worker) overdue(p *partition, id uint32, s *slot) {
	n := &p.nodes[s.node]
	if n.backlogUntil > w.listening {
		p.deadlines.Set(id, n.backlogUntil) // see caughtUp
		return
	}
	if n.stopped {
		return // see awake
	}
	if k, ok := n.find(model.KeepaliveCheck); ok {
		if p.slots.at(k).status != model.OK {
			return // see awake
		}
		if until := p.deadlines.Due(k); n.heard != w.received && until > w.listening {
			p.deadlines.Set(id, until) // see heard
			s.flags |= flagWaits
			n.waits = true
			return
		}
	}
	c := w.chunk(s.chunk)
	if c == nil || c.TTL == 0 {
		return
	}
	if len(c.Except) > 0 {
		if left := w.pause(c, s); left > 0 {
			p.deadlines.Set(id, w.listening+left)
			return
		}
	}
	w.view.metrics.ttlExpired.Inc()
	w.text = fmt.Appendf(w.text[:0], "no result for %s (TTL); last run %s",
		model.Duration(c.TTL), unixNano(s.executed).Format(time.RFC3339))
	w.judge(p, id, s, c, verdict{status: model.Unknown, executed: s.executed, output: w.text, expired: true})
}
