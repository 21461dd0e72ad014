package event

import (
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// proxied applies a result about a proxy node. Its number is in the batch of the node that
// sent it, in the same commit: the source lets no number come twice, so that nothing is
// counted twice here.
func (w *worker) proxied(p *partition, id model.NodeID, r *wire.ProxiedResult) {
	w.count(w.proxiedResult(p, id, r), 1)
}

func (w *worker) proxiedResult(p *partition, id model.NodeID, r *wire.ProxiedResult) outcome {
	s := &w.signal
	if err := s.Decode(r.Signal); err != nil || s.Kind != wire.SignalResult {
		w.view.opts.Logger.Error("BUG: result about a proxy node in the journal cannot be read and is left out",
			"commit", w.pos.Number, "node", id, "by", r.By, "error", err)
		return malformed
	}
	if w.gone(p, id) {
		return forgotten
	}
	n, ok := p.findNode(id)
	if !ok {
		n = p.addNode(id, r.Namespace)
	} else if p.nodes[n].namespace != r.Namespace && r.Namespace != 0 {
		p.moveNode(n, r.Namespace)
	}
	return w.signalResult(p, n, arrival{stream: r.StreamKey, number: r.Number, nowMs: r.NowMs, by: r.By})
}

// ranBy notes which node ran what the state is of; zero: its own.
func (p *partition) ranBy(id uint32, s *slot, by model.NodeID) {
	switch {
	case by != 0:
		s.flags |= flagProxied
		p.runners[id] = by
	case s.flags&flagProxied != 0:
		s.flags &^= flagProxied
		delete(p.runners, id)
	}
}
