package event

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// entry is the pipeline: one journal entry, from bytes to what it changes.
func (w *worker) entry(p *partition, data []byte) {
	if err := w.record.Decode(data); err != nil {
		w.view.metrics.record(0)
		w.view.opts.Logger.Error("BUG: journal entry cannot be read and is left out",
			"commit", w.pos.Number, "partition", p.id, "error", err)
		return
	}
	r := &w.record
	switch r.Kind {
	case wire.RecordBatch:
		w.batch(p, r.Node, r.Batch)
	case wire.RecordOwn:
		w.own(p, r.Node, r.Own)
	case wire.RecordSession:
		w.session(p, r.Node, r.Session)
	case wire.RecordStarted:
		w.started(p)
	case wire.RecordIntent:
		w.view.advance(r.Intent)
	case wire.RecordForget:
		w.forget(p, r.Node, r.Forget)
	case wire.RecordProxied:
		w.proxied(p, r.Node, r.Proxied)
	case wire.RecordAction:
		w.action(p, r.Node, r.Action)
	}
	w.view.metrics.record(r.Kind)
}

// batch applies what an agent sent: every signal ends in exactly one outcome.
func (w *worker) batch(p *partition, id model.NodeID, body []byte) {
	b := &w.reader
	if err := b.Reset(body); err != nil {
		w.count(malformed, 1)
		w.view.opts.Logger.Error("BUG: batch in the journal cannot be read and is left out",
			"commit", w.pos.Number, "node", id, "error", err)
		return
	}
	if w.gone(p, id) {
		w.count(forgotten, b.Last()-b.First+1)
		return
	}
	n, ok := p.findNode(id)
	if !ok {
		n = p.addNode(id, 0)
	}
	w.alive(p, n)
	first := w.number(p, n)
	if b.Gap != nil {
		w.gap(p, n, first)
		return
	}
	number := b.First
	for b.Next(&w.signal) {
		switch s := &w.signal; {
		case number < first:
			w.count(duplicate, 1)
		case s.Kind == wire.SignalKeepalive:
			w.count(keepalive, 1)
		case s.Kind != wire.SignalResult:
			w.count(unknownKind, 1)
		case s.Node != 0: // counted with the node that it speaks of: proxied
		default:
			w.count(w.signalResult(p, n, arrival{stream: b.StreamKey, number: number, nowMs: b.NowMs}), 1)
		}
		number++
	}
	if b.Err() != nil {
		w.count(malformed, b.Last()+1-number)
		w.view.opts.Logger.Error("BUG: signal in the journal cannot be read; it and those after it are left out",
			"commit", w.pos.Number, "node", id, "number", number, "error", b.Err())
	}
}

// number moves the stream on to the end of the batch, and returns the first number
// that was not seen before.
func (w *worker) number(p *partition, n uint32) (first uint64) {
	b, node := &w.reader, &p.nodes[n]
	if len(node.streams) == maxStreams {
		w.view.metrics.evictions.Inc() // an upper bound: the stream may be a known one
	}
	s, known := node.stream(b.StreamKey)
	first = s.last + 1
	if known && b.First > first {
		// The source lets no hole pass, so commits are lost (muster doctor repair). What is
		// missing is gone; what is here counts.
		w.view.metrics.holes.Inc()
		w.view.opts.Logger.Warn("numbers are missing in a stream: commits of the journal are lost",
			"node", node.id, "stream", uint64(b.Stream), "lane", b.Lane, "last", s.last, "first", b.First)
	}
	s.last = max(s.last, b.Last())
	if b.Lane == wire.Backlog {
		w.caughtUp(p, n, b.Last()-b.First+1)
	}
	return first
}

// arrival is how a result came.
type arrival struct {
	stream wire.StreamKey
	number uint64
	nowMs  uint64
	by     model.NodeID // who ran it, of a proxy node; zero: the node itself
}

// signalResult applies one run of a check, which w.signal is of.
func (w *worker) signalResult(p *partition, n uint32, b arrival) outcome {
	r := &w.body
	if err := r.Decode(w.signal.Body); err != nil {
		w.view.opts.Logger.Error("BUG: result in the journal cannot be read and is left out",
			"commit", w.pos.Number, "node", p.nodes[n].id, "number", b.number, "error", err)
		return malformed
	}
	c := w.chunk(w.signal.Chunk)
	if c == nil {
		return unknownChunk
	}
	age := age(b.nowMs, w.signal.AtMs)
	executed := w.received - age
	id, found := p.nodes[n].find(c.Check)
	if !found {
		if w.absent(p, p.nodes[n].id, c.Check, executed) {
			p.settled(n, c.Check)
			return forgotten
		}
		id, _ = w.newState(p, n, c)
	}
	s := p.slots.at(id)
	var lane slotFlags
	if b.stream.Lane == wire.Backlog {
		lane = flagBacklog
	}
	s.count(b.stream.Stream, b.number)
	// Within one numbering the order is certain, whatever the network's delays made of
	// the ages; elsewhere the older run does not judge the present. Nor does a run
	// that is itself past the TTL end what the TTL began.
	older := executed < s.executed && (s.stream != uint64(b.stream.Stream) || s.flags&flagBacklog != lane)
	if older || s.flags&flagExpired != 0 && c.TTL > 0 && age >= int64(c.TTL) {
		w.lateResult(p, s, c, r, executed)
		return late
	}
	executed = max(executed, s.executed)
	s.stream, s.number = uint64(b.stream.Stream), b.number
	s.flags = s.flags&^flagBacklog | lane
	p.ranBy(id, s, b.by)
	s.durationMs = r.DurationMs
	w.judge(p, id, s, c, verdict{status: r.Status, executed: executed, output: r.Output, beside: r.Extra})
	if c.TTL > 0 {
		p.deadlines.Set(id, w.listening+max(int64(c.TTL)-age, int64(min(c.TTL, newerFollows))))
	} else {
		p.deadlines.Clear(id)
	}
	return applied
}

// newerFollows is how long a TTL waits at least: what comes in after an outage comes
// oldest first, and a run that is almost past its TTL says nothing of those behind it.
const newerFollows = 10 * time.Second

// own applies a result without an agent.
func (w *worker) own(p *partition, id model.NodeID, r *wire.OwnResult) {
	w.count(w.ownResult(p, id, r), 1)
}

func (w *worker) ownResult(p *partition, node model.NodeID, r *wire.OwnResult) outcome {
	c := w.chunk(r.Chunk)
	if c == nil {
		return unknownChunk
	}
	if w.gone(p, node) {
		return forgotten
	}
	n, ok := p.findNode(node)
	if !ok {
		n = p.addNode(node, c.Namespace)
	}
	id, found := p.nodes[n].find(c.Check)
	if !found {
		if w.absent(p, node, c.Check, w.received) {
			return forgotten
		}
		id, _ = w.newState(p, n, c)
	}
	s := p.slots.at(id)
	s.count(0, 0)
	s.stream, s.number, s.durationMs = 0, 0, 0
	p.ranBy(id, s, 0)
	w.judge(p, id, s, c, verdict{status: r.Status, executed: w.received, output: r.Output})
	if c.TTL > 0 {
		p.deadlines.Set(id, w.listening+int64(c.TTL))
	} else {
		p.deadlines.Clear(id)
	}
	return applied
}

// newState makes the state of a check. A node that never had a session (the server
// speaking of it) is in the namespace of its first check.
func (w *worker) newState(p *partition, n uint32, c *model.Chunk) (uint32, *slot) {
	if p.nodes[n].namespace == 0 && c.Namespace != 0 {
		p.moveNode(n, c.Namespace)
	}
	p.settled(n, c.Check)
	return p.addState(n, c.Check)
}

// lateResult tells history of a run that came after a newer one.
func (w *worker) lateResult(p *partition, s *slot, c *model.Chunk, r *wire.Result, executed int64) {
	if t := w.emit(p, LateResult, s); t != nil {
		t.Chunk, t.Status, t.Previous = c.ID, r.Status, s.status
		t.Severity = c.Severities[r.Status&3]
		t.Executed = executed
		t.Output = string(r.Output)
		t.Expired = false
	}
}

// gap applies what the agent's spool gave up.
func (w *worker) gap(p *partition, n uint32, first uint64) {
	g := w.reader.Gap
	covered := g.Last - w.reader.First + 1
	if g.Last < first {
		w.count(duplicate, covered)
		return
	}
	w.count(lost, covered)
	for _, given := range g.Counts {
		if given.Kind != wire.SignalResult && given.Kind != wire.SignalKeepalive {
			continue // another reducer's
		}
		c := w.chunk(given.Chunk)
		if c == nil {
			continue
		}
		// A gap may tell of results that earlier gaps of its stream covered, so that each
		// check is told of once: of no more than there were numbers. Without a state there
		// is no event to tell of, only history.
		given.Count = min(given.Count, g.Last)
		s := &slot{check: c.Check, node: n, received: w.received, executed: w.received}
		if id, found := p.nodes[n].find(c.Check); found {
			s = p.slots.at(id)
			s.lost += given.Count
			w.view.watchers.changed(p, id)
		}
		if t := w.emit(p, ResultsLost, s); t != nil {
			t.Chunk, t.Count, t.Output = c.ID, given.Count, g.Reason
			t.Executed = w.received
			if t.Namespace == 0 {
				t.Namespace = c.Namespace
			}
		}
	}
}

// emit adds a transition that speaks of the state; nil when nobody wants it. The
// index counts either way, so that it is the same in a replay.
func (w *worker) emit(p *partition, kind TransitionKind, s *slot) *Transition {
	index := w.order
	w.order++
	if w.silent {
		return nil
	}
	n := &p.nodes[s.node]
	w.transitions = append(w.transitions, Transition{
		At: w.pos, Index: index, Partition: p.id, Kind: kind,
		Node: n.id, Namespace: n.namespace, Source: model.CheckSource(s.check), Chunk: s.chunk,
		Status: s.status, Previous: s.status, Severity: s.severity,
		Received: w.received, Executed: s.executed, Expired: s.flags&flagExpired != 0,
	})
	return &w.transitions[len(w.transitions)-1]
}

func (w *worker) count(o outcome, n uint64) {
	w.signals += n
	w.tally[o] += n
}

// age is how long before the sending a run ended, in nanoseconds. Nonsense is
// bounded: a run in the future is now, nothing is older than a year.
func age(nowMs, atMs uint64) int64 {
	const year = uint64(366 * 24 * time.Hour / time.Millisecond)
	if atMs >= nowMs {
		return 0
	}
	return int64(min(nowMs-atMs, year)) * int64(time.Millisecond)
}
