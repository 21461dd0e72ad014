package shard

import (
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// entry applies one journal entry: the shard applies marks of nodes itself, reducers get the
// kinds that they claim.
func (w *Worker) entry(p *Partition, data []byte) {
	if err := w.record.Decode(data); err != nil {
		w.shard.metrics.record(0)
		w.shard.opts.Logger.Error("BUG: journal entry cannot be read and is left out",
			"commit", w.Position.Number, "partition", p.ID, "error", err)
		return
	}
	r := &w.record
	switch r.Kind {
	case wire.RecordBatch:
		w.batch(p, r.Node, r.Batch)
	case wire.RecordSession:
		w.session(p, r.Node, r.Session)
	case wire.RecordStarted:
		w.extendDeadlines(p)
	case wire.RecordIntent:
		w.shard.advance(r.Intent)
	case wire.RecordForget:
		w.forget(p, r.Node, r.Forget)
	case wire.RecordProxyResult:
		w.Count(w.proxied(p, r.Node, r.ProxyResult), 1)
	default:
		if int(r.Kind) < recordKinds && w.records[r.Kind] != nil {
			w.records[r.Kind].Record(r)
		}
	}
	w.shard.metrics.record(r.Kind)
}

// batch applies a batch of an agent: every signal ends in exactly one outcome.
func (w *Worker) batch(p *Partition, id model.NodeID, body []byte) {
	b := &w.reader
	if err := b.Reset(body); err != nil {
		w.Count(Malformed, 1)
		w.shard.opts.Logger.Error("BUG: batch in the journal cannot be read and is left out",
			"commit", w.Position.Number, "node", id, "error", err)
		return
	}
	if p.Deleted(id) {
		w.Count(Forgotten, b.Last()-b.First+1)
		return
	}
	n, ok := p.Find(id)
	if !ok {
		n = p.AddNode(id, 0)
	}
	w.heartbeat(p, n)
	first := w.moveStream(p, n)
	if b.Gap != nil {
		w.gap(n, first)
		return
	}
	number := b.First
	w.arrival = Arrival{Stream: b.StreamKey, NowMs: b.NowMs}
	for b.Next(&w.signal) {
		switch s := &w.signal; {
		case number < first:
			w.Count(Duplicate, 1)
		case s.Kind == wire.SignalKeepalive:
			w.Count(Keepalive, 1)
		case s.Kind > maxSignalKind || w.signals[s.Kind] == nil:
			w.Count(UnknownKind, 1)
		case s.Node != 0: // counted with the proxy node: proxied
		default:
			w.arrival.Number = number
			w.Count(w.signals[s.Kind].Signal(n, s, &w.arrival), 1)
		}
		number++
	}
	if b.Err() != nil {
		w.Count(Malformed, b.Last()+1-number)
		w.shard.opts.Logger.Error("BUG: signal in the journal cannot be read; it and those after it are left out",
			"commit", w.Position.Number, "node", id, "number", number, "error", b.Err())
	}
}

// gap counts the signals that the agent's spool dropped, and tells the reducers.
func (w *Worker) gap(n uint32, first uint64) {
	g := w.reader.Gap
	covered := g.Last - w.reader.First + 1
	if g.Last < first {
		w.Count(Duplicate, covered)
		return
	}
	w.Count(Lost, covered)
	for _, a := range w.appliers {
		a.Gap(n, g)
	}
}

// proxied applies a signal about a proxy node. Its number is in the batch of the sender, in
// the same commit: the source lets no number come twice, so that nothing is
// counted twice here.
func (w *Worker) proxied(p *Partition, id model.NodeID, r *wire.ProxyResult) Outcome {
	s := &w.signal
	err := s.Decode(r.Signal)
	if err != nil || s.Kind == wire.SignalKeepalive || s.Kind > maxSignalKind || w.signals[s.Kind] == nil {
		w.shard.opts.Logger.Error("BUG: result about a proxy node in the journal cannot be read and is left out",
			"commit", w.Position.Number, "node", id, "by", r.By, "error", err)
		return Malformed
	}
	if p.Deleted(id) {
		return Forgotten
	}
	n, ok := p.Find(id)
	if !ok {
		n = p.AddNode(id, r.Namespace)
	} else if p.nodes[n].Namespace != r.Namespace && r.Namespace != 0 {
		p.MoveNode(n, r.Namespace)
	}
	w.arrival = Arrival{Stream: r.StreamKey, Number: r.Number, NowMs: r.NowMs, By: r.By}
	return w.signals[s.Kind].Signal(n, s, &w.arrival)
}
