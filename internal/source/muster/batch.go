package muster

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/wire"
)

// batch is the way of a batch, top to bottom: decode, place in its stream, judge
// each signal, hand to the journal, pay for it.
func (x *session) batch(body []byte) outcome {
	r := x.srv.batches.Get().(*wire.BatchReader)
	defer x.srv.batches.Put(r)
	if err := r.Reset(body); err != nil {
		return x.broken(malformed, err.Error())
	}
	if r.Signals > x.srv.cfg.Limits.BatchSignals {
		return x.broken(oversized, fmt.Sprintf("%d signals in one batch, at most %d", r.Signals, x.srv.cfg.Limits.BatchSignals))
	}
	if r.Last() > maxNumber {
		return x.broken(malformed, "a number beyond all streams")
	}
	slot, ok := x.slot(r.StreamKey)
	if !ok {
		return x.broken(streams, fmt.Sprintf("more than %d streams in one session", maxStreams))
	}
	last := x.streams[slot].last
	switch {
	case r.Last() <= last: // sent again: it is kept, or waits to be
		x.again(slot)
		return repeated
	case r.First > last+1:
		return x.broken(hole, fmt.Sprintf("numbers %d to %d are missing and no gap explains them", last+1, r.First-1))
	}
	signals, size := r.Signals, len(body)
	refused, about, c := x.judge(r)
	if len(refused)+len(about) > 0 {
		body = without(body, refused, about)
		about = slices.DeleteFunc(about, func(s spoken) bool { return s.number <= last }) // kept already
	}
	if r.Gap != nil {
		x.srv.metrics.signals[gapped].Add(float64(r.Gap.Last - r.First + 1))
		x.hearNews(r.Gap)
	} else {
		x.srv.metrics.signals[admitted].Add(float64(signals - len(refused)))
	}
	if out := x.keep(slot, r, size, body, signals-len(refused), refused, about); out != kept {
		return out
	}
	c[loadBytes] = size
	x.pay(&c)
	return kept
}

// slot finds the stream's place, or gives it one. Only the reader adds streams.
func (x *session) slot(key wire.StreamKey) (int, bool) {
	for i := range x.streams {
		if x.streams[i].StreamKey == key {
			return i, true
		}
	}
	if len(x.streams) == maxStreams {
		return 0, false
	}
	x.mu.Lock()
	x.streams = append(x.streams, stream{StreamKey: key})
	x.mu.Unlock()
	return len(x.streams) - 1, true
}

// again acknowledges what is kept already. What is still on its way to the disk is
// acknowledged when it is there.
func (x *session) again(slot int) {
	x.mu.Lock()
	x.streams[slot].fresh = true
	put := x.dueLocked(laneAck, dueAck)
	x.mu.Unlock()
	if put {
		x.srv.acks.put(x)
	}
}

// judge decides on each signal. What it returns is refused for good: the agent is
// told, and its number is kept with a keepalive in its place. What is spoken goes to the
// nodes that it speaks of. c is the batch's cost; a gap becomes a row of history for each
// definition that it names, so it is not free either.
func (x *session) judge(r *wire.BatchReader) (refused []wire.Refused, about []spoken, c charge) {
	if r.Gap != nil {
		c[loadResults] = 1 + len(r.Gap.Counts)
		return nil, nil, c
	}
	x.mu.Lock()
	held := x.pushed
	x.mu.Unlock()
	var sig wire.Signal
	number := r.First
	for left := r.Signals; left > 0; left-- {
		v, code, reason := refusedMalformed, "", "cannot be decoded"
		if r.Next(&sig) {
			if v, code, reason = x.verdict(&sig, held); v == admitted && sig.Node != 0 {
				about = append(about, spoken{x.proxy, r.Raw(), number})
			}
			if v == admitted && x.robin != 0 && x.srv.cfg.OnRan != nil {
				x.srv.cfg.OnRan(x.robin, sig.Node, time.Duration(r.NowMs-min(sig.AtMs, r.NowMs))*time.Millisecond)
			}
		} else if err := r.Err(); err != nil {
			reason = err.Error()
			r.Pass()
		}
		switch {
		case v == admitted && sig.Kind == wire.SignalValueBlock:
			c[loadValues] += int(x.rows)
			x.values.Store(true)
		case v == admitted && sig.Kind != wire.SignalResult && sig.Kind != wire.SignalKeepalive:
			c[loadReports]++
		default:
			c[loadResults]++
		}
		if v != admitted {
			x.srv.metrics.signals[v].Inc()
			code = cmp.Or(code, verdictNames[v])
			refused = append(refused, wire.Refused{StreamKey: r.StreamKey, Number: number, Code: code, Reason: reason})
			x.complain(v, code, reason)
			if limit := limitOf(v, code); limit != "" {
				x.hit(limit, reason)
			}
		}
		number++
	}
	return refused, about, c
}

// limitOf is the limit behind a refusal; empty: there is none.
func limitOf(v verdict, code string) string {
	switch {
	case v == refusedOutput:
		return "output"
	case v == refusedStates && code == "namespace_limit":
		return "namespace_states"
	case v == refusedStates:
		return "node_states"
	}
	return ""
}

// complain tells the operator once per session and kind of refusal; the metrics have
// all of them.
func (x *session) complain(v verdict, code, reason string) {
	if x.complained[v] {
		return
	}
	x.complained[v] = true
	x.srv.cfg.Log.Warn("a result is refused for good; of further ones only the metrics tell", "node", x.node.Name, "code", code, "reason", reason)
}

// hearNews logs, once per session, what an agent tells of itself: a gap in which nothing
// was lost.
func (x *session) hearNews(g *wire.Gap) {
	news := []wire.GapCount{{Kind: wire.SignalKeepalive, Chunk: model.BuiltinChunk(model.KeepaliveCheck)}}
	if !x.newsHeard && slices.Equal(g.Counts, news) {
		x.newsHeard = true
		x.srv.cfg.Log.Warn("an agent tells of itself", "node", x.node.Name, "what", g.Reason)
	}
}

// verdict judges one signal; held is what the agent was assigned, nil where that is not
// known. The view is asked for each result: a state may be gone since the last one.
func (x *session) verdict(sig *wire.Signal, held *plan.Assignment) (v verdict, code, reason string) {
	x.robin, x.rows = 0, 0
	switch sig.Kind {
	case wire.SignalKeepalive:
		return admitted, "", ""
	case wire.SignalResult:
	default:
		return x.otherVerdict(sig, held)
	}
	var r wire.Result
	if err := r.Decode(sig.Body); err != nil {
		return refusedMalformed, "", err.Error()
	}
	if most := x.team.limits.Load().OutputBytes; len(r.Output)+len(r.Extra) > most {
		return refusedOutput, "", fmt.Sprintf("output of %d bytes, at most %d", len(r.Output)+len(r.Extra), most)
	}
	if len(r.Extra) > 0 {
		if _, err := wire.DecodeExtra(r.Extra); err != nil {
			return refusedMalformed, "", err.Error()
		}
	}
	known := x.definition(sig.Chunk, held)
	if known == nil {
		return refusedChunk, "", fmt.Sprintf("no definition %d", sig.Chunk)
	}
	if known.RoundRobin {
		x.robin = known.Check
	}
	about := x.node.ID
	if sig.Node != 0 || known.Proxy {
		if reason := x.speaks(sig, known, held); reason != "" {
			return refusedProxy, "", reason
		}
		about = sig.Node
	}
	if code, reason := x.srv.cfg.View.Admit(about, known); code != "" {
		return refusedStates, code, reason
	}
	return admitted, "", ""
}

// otherVerdict judges a signal that is neither a keepalive nor a result: by its envelope, and a
// value block by its header.
func (x *session) otherVerdict(sig *wire.Signal, held *plan.Assignment) (v verdict, code, reason string) {
	switch {
	case !slices.Contains(x.srv.cfg.Kinds, sig.Kind):
		return refusedKind, "", "this server takes no " + sig.Kind.String()
	case sig.Node != 0:
		return refusedProxy, "", fmt.Sprintf("a %s names node %d: only results are about proxy nodes", sig.Kind, sig.Node)
	case x.definition(sig.Chunk, held) == nil:
		return refusedChunk, "", fmt.Sprintf("no definition %d", sig.Chunk)
	case sig.Kind == wire.SignalValueBlock:
		var b wire.ValueBlock
		if err := b.Decode(sig.Body); err != nil {
			return refusedMalformed, "", err.Error()
		}
		x.rows = b.Rows
	}
	return admitted, "", ""
}

// definition finds a chunk that the node may send signals of; nil: none.
func (x *session) definition(id model.ChunkID, held *plan.Assignment) *model.Chunk {
	if held != nil {
		if i, ok := find(held.Chunks, id); ok {
			return held.Chunks[i]
		}
	}
	if c := x.srv.cfg.Assignments.Chunk(id); c != nil && x.mayName(c) {
		return c
	}
	return nil
}

// mayName says whether a definition outside the assignment held, an older one say,
// can be this node's at all: neither what the server judges by itself nor another
// team's check, whose handlers would be told.
func (x *session) mayName(c *model.Chunk) bool {
	if x.node.ID == model.ServerNode {
		return c.Check == model.WatchdogCheck
	}
	return c.Check >= model.FirstCheck && (c.Namespace == x.node.Namespace || c.Namespace == model.SharedNamespace)
}

func find(chunks []*model.Chunk, id model.ChunkID) (int, bool) {
	return slices.BinarySearchFunc(chunks, id, func(c *model.Chunk, id model.ChunkID) int { return int(int64(c.ID) - int64(id)) })
}

// without encodes the batch anew with a keepalive in the place of each refused signal, and
// the bare name of whom it is about in the place of each one that goes to a proxy node, so
// that numbers have no holes.
func without(body []byte, refused []wire.Refused, about []spoken) []byte {
	var r wire.BatchReader
	if err := r.Reset(body); err != nil {
		panic("BUG: batch that was read once cannot be read again: " + err.Error())
	}
	b := wire.Batch{StreamKey: r.StreamKey, First: r.First, NowMs: r.NowMs}
	for number := r.First; number <= r.Last(); number++ {
		var sig wire.Signal
		if !r.Next(&sig) {
			r.Pass()
		}
		if len(refused) > 0 && refused[0].Number == number {
			sig, refused = wire.Signal{Kind: wire.SignalKeepalive, AtMs: r.NowMs}, refused[1:]
		}
		if len(about) > 0 && about[0].number == number {
			sig, about = wire.Signal{Kind: sig.Kind, AtMs: sig.AtMs, Node: sig.Node}, about[1:]
		}
		b.Signals = append(b.Signals, sig)
	}
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
	if err != nil {
		panic("BUG: batch that was just encoded cannot be read: " + err.Error())
	}
	return body
}

// A token carries what Committed must know: the stream's slot, the bytes (in units
// of 64) and the last number.
const (
	numberBits = 45
	sizeBits   = 15
	maxNumber  = 1<<numberBits - 1
)

func token(slot, size int, last uint64) uint64 {
	return uint64(slot)<<(numberBits+sizeBits) | uint64((size+63)/64)<<numberBits | last
}

func untoken(t uint64) (slot, size int, last uint64) {
	return int(t >> (numberBits + sizeBits)), int(t>>numberBits&(1<<sizeBits-1)) * 64, t & maxNumber
}

// keep hands a batch to the journal, waiting while too much of this session is
// there already or the journal is full: that is how we stop reading.
func (x *session) keep(slot int, r *wire.BatchReader, size int, body []byte, signals int, refused []wire.Refused, about []spoken) outcome {
	last := r.Last()
	t := token(slot, size, last)
	_, size, _ = untoken(t)
	x.appending.Lock()
	defer x.appending.Unlock()
	x.mu.Lock()
	for x.unacked > 0 && x.unacked+size > x.srv.cfg.Limits.UnackedBytes && !x.over {
		x.room.Wait()
	}
	if x.over {
		x.mu.Unlock()
		return displaced
	}
	x.unacked += size
	x.streams[slot].last = last
	x.refused = append(x.refused, refused...)
	x.mu.Unlock()

	rec := x.srv.records.Get().(*record)
	rec.data = append(wire.AppendBatchRecord(rec.data[:0], x.node.ID), body...)
	rec.list[0] = journal.Entry{Section: x.section, Data: rec.data, Waiter: x, Token: t, Signals: signals - len(about)}
	entries := rec.list[:]
	if len(about) > 0 {
		entries = rec.speak(x.node.ID, r, about)
	}
	err := x.srv.cfg.Journal.Append(x.srv.base, entries...)
	clear(entries)
	x.srv.records.Put(rec)
	if err != nil {
		return x.broken(unkept, "the server cannot keep anything now")
	}
	return kept
}

// Committed implements journal.Waiter: what is kept is acknowledged, many commits
// by one message. It runs on the journal's goroutine and only marks.
func (x *session) Committed(t uint64, _ journal.Position, err error) {
	slot, size, last := untoken(t)
	l, bits := laneAck, dueAck
	x.mu.Lock()
	x.unacked -= size
	if err == nil {
		st := &x.streams[slot]
		st.acked, st.fresh = max(st.acked, last), true
	} else { // not kept: the agent must send it again, in a new session
		x.over = true
		l, bits = lanePush, dueClose
	}
	put := x.dueLocked(l, bits)
	x.room.Signal()
	x.mu.Unlock()
	if put {
		x.srv.outbox(l).put(x)
	}
}
