package shard

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// applyEntry applies one journal entry to the nodes of the partition (a share of all nodes). It handles records
// about nodes itself, and passes other entries to the reducers that claim their kind.
func (w *Worker) applyEntry(p *Partition, data []byte) {
	if err := w.record.Decode(data); err != nil {
		w.shard.metrics.countRecord(0)
		w.shard.opts.Logger.Error("BUG: journal entry cannot be read and is left out",
			"commit", w.Position.Number, "partition", p.ID, "error", err)
		return
	}
	r := &w.record
	switch r.Kind {
	case wire.RecordBatch:
		w.applyBatch(p, r.Node, r.Batch)
	case wire.RecordSession:
		w.applySessionRecord(p, r.Node, r.Session)
	case wire.RecordStarted:
		w.extendDeadlines(p)
	case wire.RecordIntent:
		p.intentMark = append(p.intentMark[:0], data...)
		w.shard.advanceRevision(r.Intent.Revision)
	case wire.RecordForget:
		w.applyRemovalRecord(p, r.Node, r.Forget)
	case wire.RecordProxyResult:
		w.Count(w.applyProxyResult(p, r.Node, r.ProxyResult), 1)
	default:
		for _, a := range w.records[min(int(r.Kind), recordKinds-1)] {
			a.ApplyRecord(r)
		}
	}
	w.shard.metrics.countRecord(r.Kind)
}

// applySignal passes a signal, such as a check result, to the reducer for that kind. Then other reducers get
// copies. Late results have values, too.
func (w *Worker) applySignal(n uint32, s *wire.Signal) Outcome {
	w.signal.decoded = false
	outcome := w.signals[s.Kind].ApplySignal(n, s, &w.arrival)
	if outcome == Applied || outcome == Late && s.Kind == wire.SignalResult {
		for _, a := range w.copies[s.Kind] {
			a.ApplySignal(n, s, &w.arrival)
		}
	}
	return outcome
}

// applyBatch applies a batch of an agent and counts the outcome of each signal. Outcomes are applied, duplicate and so
// on.
func (w *Worker) applyBatch(p *Partition, id model.NodeID, body []byte) {
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
	counted := w.recordHeartbeat(p, n)
	first := w.advanceStream(p, n)
	if b.Gap != nil {
		w.applyGap(n, first)
		return
	}
	number := b.First
	w.arrival = SignalOrigin{Stream: b.StreamKey, NowMs: b.NowMs}
	for b.Next(&w.signal.Signal) {
		switch s := &w.signal.Signal; {
		case number < first:
			w.Count(Duplicate, 1)
		case s.Kind == wire.SignalKeepalive:
			w.Count(Keepalive, 1)
			if !counted {
				w.reportUnchangedKeepalive(n, &p.nodes[n])
			}
			counted = false
		case s.Kind > maxSignalKind || w.signals[s.Kind] == nil:
			w.Count(UnknownKind, 1)
		case s.Node != 0: // counted with the proxy node: proxied
		default:
			w.arrival.Number = number
			w.Count(w.applySignal(n, s), 1)
		}
		number++
	}
	if b.Err() != nil {
		w.Count(Malformed, b.Last()+1-number)
		w.shard.opts.Logger.Error("BUG: signal in the journal cannot be read; it and those after it are left out",
			"commit", w.Position.Number, "node", id, "number", number, "error", b.Err())
	}
}

// applyGap counts the signals that an agent's spool has lost, and reports the loss to the reducers
func (w *Worker) applyGap(n uint32, first uint64) {
	g := w.reader.Gap
	covered := g.Last - w.reader.First + 1
	if g.Last < first {
		w.Count(Duplicate, covered)
		return
	}
	w.Count(Lost, covered)
	for _, a := range w.appliers {
		a.ApplyLoss(n, g)
	}
}

// applyProxyResult applies a result that one node sent about a proxy node. Its number is in the batch of the sender,
// in the same commit: the source lets no number come twice, so that nothing is counted twice here.
func (w *Worker) applyProxyResult(p *Partition, id model.NodeID, r *wire.ProxyResult) Outcome {
	s := &w.signal.Signal
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
	w.arrival = SignalOrigin{Stream: r.StreamKey, Number: r.Number, NowMs: r.NowMs, By: r.By}
	return w.applySignal(n, s)
}

// streamSequence has the highest applied sequence number in one stream of an agent's signals.
type streamSequence struct {
	key  wire.StreamKey
	last uint64
}

// MaxStreams limits the remembered streams of signals per node. One stream has two lanes, and a node gets a new stream
// only when its spool was lost or rolled back.
const MaxStreams = 16

// findStream finds or adds the node's record of one signal stream, with the highest applied sequence number. It
// marks the stream as last used. known is false for a new stream.
func (n *Node) findStream(key wire.StreamKey) (s *streamSequence, known bool) {
	last := len(n.streams) - 1
	for i := last; i >= 0; i-- {
		if n.streams[i].key == key {
			// The two lanes of a stream take turns; only older ones move.
			if i < last-1 {
				moved := n.streams[i]
				copy(n.streams[i:], n.streams[i+1:])
				n.streams[last] = moved
				i = last
			}
			return &n.streams[i], true
		}
	}
	if len(n.streams) == MaxStreams {
		copy(n.streams, n.streams[1:])
		n.streams = n.streams[:last]
	}
	n.streams = append(n.streams, streamSequence{key: key})
	return &n.streams[len(n.streams)-1], false
}

// advanceStream records a batch's last sequence number, and returns the first number not applied before. Lower
// numbers are duplicates.
func (w *Worker) advanceStream(p *Partition, n uint32) (first uint64) {
	b, node := &w.reader, &p.nodes[n]
	if len(node.streams) == MaxStreams {
		w.shard.metrics.evictions.Inc() // an upper bound: the stream may be a known one
	}
	s, known := node.findStream(b.StreamKey)
	first = s.last + 1
	if known && b.First > first {
		// The source lets no hole pass, so commits are lost (muster doctor repair). The
		// missing signals are lost too; those in the batch count.
		w.shard.metrics.holes.Inc()
		w.shard.opts.Logger.Warn("numbers are missing in a stream: commits of the journal are lost",
			"node", node.ID, "stream", uint64(b.Stream), "lane", b.Lane, "last", s.last, "first", b.First)
	}
	s.last = max(s.last, b.Last())
	if b.Lane == wire.Backlog {
		w.reduceBacklog(p, n, b.Last()-b.First+1)
	}
	return first
}

// Tombstone records when a node or check was removed, and whether the removal is permanent. Late results then
// do not create its state again.
type Tombstone struct {
	At      int64 // receive time of the forget, Unix ns
	Deleted bool  // the resource is deleted: its id is never used again
}

const (
	// Settle is how long after a forget agents may still run an older assignment; a run
	// after that means that the check is wanted again.
	Settle = 30 * time.Second
	// TombstoneAge is how long tombstones are kept: longer than a spool may hold a signal.
	TombstoneAge = model.MaxSpoolAge + 24*time.Hour
)

// Suppresses reports whether a check run is too old to re-create the state of a removed node.
func (t Tombstone) Suppresses(executed int64) bool {
	return t.Deleted || executed <= t.At+int64(Settle)
}

// Deleted reports whether a node was permanently deleted, according to the node's tombstone.
func (p *Partition) Deleted(node model.NodeID) bool {
	t, _ := p.tombstones.Get(node)
	return t.Deleted
}

// Tombstone returns the tombstone of a removed node.
func (p *Partition) Tombstone(node model.NodeID) (t Tombstone, ok bool) {
	return p.tombstones.Get(node)
}

// Tombstones maps removed nodes or checks to their tombstones (records of the removal). The zero value has
// none.
type Tombstones[K comparable] struct {
	marks map[K]Tombstone
	byAge []tombstoneEntry[K] // oldest first; an old entry of a renewed mark is skipped
}

// tombstoneEntry is an entry in the queue of tombstones, ordered by the time of the removal.
type tombstoneEntry[K comparable] struct {
	key K
	at  int64
}

// Set adds or replaces the tombstone of a removed node or check. Tombstones come in the order of time.
func (t *Tombstones[K]) Set(key K, mark Tombstone) {
	if t.marks == nil {
		t.marks = map[K]Tombstone{}
	}
	t.marks[key] = mark
	t.byAge = append(t.byAge, tombstoneEntry[K]{key, mark.At})
}

// Get returns the tombstone of a removed node or check.
func (t *Tombstones[K]) Get(key K) (mark Tombstone, ok bool) {
	if len(t.marks) > 0 {
		mark, ok = t.marks[key]
	}
	return mark, ok
}

// Len returns the number of tombstones.
func (t *Tombstones[K]) Len() int { return len(t.marks) }

// Expire deletes the tombstones older than a given time, the oldest first.
func (t *Tombstones[K]) Expire(before int64) {
	for len(t.byAge) > 0 && t.byAge[0].at < before {
		first := t.byAge[0]
		t.byAge = t.byAge[1:]
		if t.marks[first.key].At == first.at { // else it was renewed since
			delete(t.marks, first.key)
		}
	}
}

// Encode appends the tombstones of removed nodes or checks to a snapshot, sorted by key.
func (t *Tombstones[K]) Encode(b []byte, compare func(x, y K) int, appendKey func([]byte, K) []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(t.marks)))
	if len(t.marks) == 0 {
		return b
	}
	for _, key := range slices.SortedFunc(maps.Keys(t.marks), compare) {
		b = binary.AppendVarint(appendKey(b, key), t.marks[key].At)
		b = AppendBool(b, t.marks[key].Deleted)
	}
	return b
}

// Decode reads the tombstones of removed nodes or checks from a snapshot.
func (t *Tombstones[K]) Decode(d *Decoder, readKey func(*Decoder) K) {
	for range d.Count() {
		key := readKey(d)
		t.Set(key, Tombstone{At: d.Int(), Deleted: d.Byte() != 0})
	}
	slices.SortStableFunc(t.byAge, func(x, y tombstoneEntry[K]) int { return cmp.Compare(x.at, y.at) })
}

// applyRemovalRecord passes a journal record about removed nodes or checks to all reducers.
func (w *Worker) applyRemovalRecord(p *Partition, id model.NodeID, m *wire.ForgetRecord) {
	p.tombstones.Expire(w.Received - int64(TombstoneAge))
	if id == 0 && m.Check == 0 {
		w.shard.opts.Logger.Error("BUG: a forget that names neither node nor check", "commit", w.Position.Number)
		return
	}
	n := NoNode
	if id != 0 {
		n, _ = p.Find(id)
	}
	for _, a := range w.appliers {
		a.RemoveStates(id, n, m)
	}
	if m.Check != 0 {
		return
	}
	p.tombstones.Set(id, Tombstone{w.Received, m.Deleted})
	if n == NoNode {
		return
	}
	node := &p.nodes[n]
	node.Timeout, node.session = 0, 0 // until its next session
	p.EndKeepalive(n)
	if m.Deleted {
		p.RemoveNode(n)
	}
}
