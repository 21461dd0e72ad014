package muster

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// batch handles a batch in five stages: decode it, find its stream, judge each signal, append it to the journal, pay for
// it.
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
	case r.Last() <= last: // sent again: kept already, or waiting for its commit
		x.acknowledgeAgain(slot)
		return repeated
	case r.First > last+1:
		return x.broken(hole, fmt.Sprintf("numbers %d to %d are missing and no gap explains them", last+1, r.First-1))
	}
	signals, size := r.Signals, len(body)
	refused, proxied, cost := x.judge(r)
	if len(refused)+len(proxied) > 0 {
		body = without(body, refused, proxied)
		proxied = slices.DeleteFunc(proxied, func(p core.ProxyResult) bool { return p.Number <= last }) // kept already
	}
	if r.Gap != nil {
		x.srv.metrics.signals[gapped].Add(float64(r.Gap.Last - r.First + 1))
		x.logAgentReport(r.Gap)
	} else {
		x.srv.metrics.signals[admitted].Add(float64(signals - len(refused)))
	}
	if out := x.keep(slot, r, size, body, signals-len(refused), refused, proxied); out != kept {
		return out
	}
	cost[core.LoadBytes] = size
	x.pay(&cost)
	return kept
}

// slot returns the index of a stream and adds a new one. Only the reader adds streams.
func (x *session) slot(key wire.StreamKey) (int, bool) {
	for i := range x.streams {
		if x.streams[i].StreamKey == key {
			return i, true
		}
	}
	if len(x.streams) == maxStreams {
		return 0, false
	}
	x.Mu.Lock()
	x.streams = append(x.streams, stream{StreamKey: key})
	x.Mu.Unlock()
	return len(x.streams) - 1, true
}

// acknowledgeAgain acknowledges the committed part of a stream. The rest is acknowledged when it is committed.
func (x *session) acknowledgeAgain(slot int) {
	x.Mu.Lock()
	x.streams[slot].fresh = true
	put := x.dueLocked(laneAck, dueAck)
	x.Mu.Unlock()
	if put {
		x.srv.acks.put(x)
	}
}

// judge decides on each signal. A refused one is refused for good: the agent is told, and the journal keeps its number
// with a keepalive in its place. A result about a proxy node is kept with that node. A gap costs, too: it becomes a row
// of history for each definition that it names.
func (x *session) judge(r *wire.BatchReader) (refused []wire.RefusedSignal, proxied []core.ProxyResult, cost core.Charge) {
	if r.Gap != nil {
		cost[core.LoadResults] = 1 + len(r.Gap.Counts)
		return nil, nil, cost
	}
	x.Mu.Lock()
	held := x.pushed
	x.Mu.Unlock()
	var sig wire.Signal
	number := r.First
	for left := r.Signals; left > 0; left-- {
		v, code, reason := refusedMalformed, "", "cannot be decoded"
		if r.Next(&sig) {
			if v, code, reason = x.verdict(&sig, held); v == admitted && sig.Node != 0 {
				proxied = append(proxied, core.ProxyResult{ProxyNode: x.proxy, Signal: r.Raw(), Number: number})
			}
			if v == admitted && x.robin != 0 && x.srv.cfg.OnRan != nil {
				x.srv.cfg.OnRan(x.robin, sig.Node, time.Duration(r.NowMs-min(sig.AtMs, r.NowMs))*time.Millisecond)
			}
		} else if err := r.Err(); err != nil {
			reason = err.Error()
			r.SkipDamaged()
		}
		switch {
		case v == admitted && sig.Kind == wire.SignalValueBlock:
			cost[core.LoadValues] += int(x.rows)
			x.values.Store(true)
		case v == admitted && sig.Kind != wire.SignalResult && sig.Kind != wire.SignalKeepalive:
			cost[core.LoadReports]++
		default:
			cost[core.LoadResults]++
		}
		if v != admitted {
			x.srv.metrics.signals[v].Inc()
			code = cmp.Or(code, verdictNames[v])
			refused = append(refused, wire.RefusedSignal{StreamKey: r.StreamKey, Number: number, Code: code, Reason: reason})
			x.complain(v, code, reason)
			if limit := limitOf(v, code); limit != "" {
				x.budget.Hit(limit, reason)
			}
		}
		number++
	}
	return refused, proxied, cost
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

// logAgentReport logs, once per session, a report of the agent on itself: a gap in which nothing was lost.
func (x *session) logAgentReport(g *wire.Gap) {
	news := []wire.GapCount{{Kind: wire.SignalKeepalive, Chunk: model.BuiltinChunk(model.KeepaliveCheck)}}
	if !x.reportLogged && slices.Equal(g.Counts, news) {
		x.reportLogged = true
		x.srv.cfg.Log.Warn("an agent reports on itself", "node", x.node.Name, "what", g.Reason)
	}
}

// verdict judges one signal; held is the agent's assignment, nil where that is not known. The view is asked for each
// result: a state may have been deleted since the last one.
func (x *session) verdict(sig *wire.Signal, held *directory.Assignment) (v verdict, code, reason string) {
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
	if most := x.budget.Limits().OutputBytes; len(r.Output)+len(r.Extra) > most {
		return refusedOutput, "", fmt.Sprintf("output of %d bytes, at most %d", len(r.Output)+len(r.Extra), most)
	}
	if len(r.Extra) > 0 {
		if _, err := wire.DecodeExtra(r.Extra); err != nil {
			return refusedMalformed, "", err.Error()
		}
	}
	known := x.definition(sig.Chunk, held).AsCheck()
	if known == nil {
		return refusedChunk, "", fmt.Sprintf("no definition %d", sig.Chunk)
	}
	if known.RoundRobin {
		x.robin = known.Unit
	}
	target := x.node.ID
	if sig.Node != 0 || known.Proxy {
		if reason := x.authorizeProxy(sig, known, held); reason != "" {
			return refusedProxy, "", reason
		}
		target = sig.Node
	}
	if code, reason := x.srv.cfg.View.Admit(target, known); code != "" {
		return refusedStates, code, reason
	}
	return admitted, "", ""
}

// otherVerdict judges a signal that is neither a keepalive nor a result: by its envelope, and a
// value block by its header.
func (x *session) otherVerdict(sig *wire.Signal, held *directory.Assignment) (v verdict, code, reason string) {
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
func (x *session) definition(id model.ChunkID, held *directory.Assignment) *model.Chunk {
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

// mayName reports whether a definition outside the assignment held, an older one for example, can be this node's:
// neither a check of the server itself nor one of another namespace, whose handlers would get its messages.
func (x *session) mayName(c *model.Chunk) bool {
	if x.node.ID == model.ServerNode {
		return c.Unit == model.WatchdogCheck
	}
	return c.Unit >= model.FirstCheck && (c.Namespace == x.node.Namespace || c.Namespace == model.SharedNamespace)
}

func find(chunks []*model.Chunk, id model.ChunkID) (int, bool) {
	return slices.BinarySearchFunc(chunks, id, func(c *model.Chunk, id model.ChunkID) int { return int(int64(c.ID) - int64(id)) })
}

// without encodes the batch again with a keepalive in place of each refused signal, and a signal with the node's id alone
// in place of each result about a proxy node, so that the numbers have no holes.
func without(body []byte, refused []wire.RefusedSignal, proxied []core.ProxyResult) []byte {
	var r wire.BatchReader
	if err := r.Reset(body); err != nil {
		panic("BUG: batch that was read once cannot be read again: " + err.Error())
	}
	b := wire.Batch{StreamKey: r.StreamKey, First: r.First, NowMs: r.NowMs}
	for number := r.First; number <= r.Last(); number++ {
		var sig wire.Signal
		if !r.Next(&sig) {
			r.SkipDamaged()
		}
		if len(refused) > 0 && refused[0].Number == number {
			sig, refused = wire.Signal{Kind: wire.SignalKeepalive, AtMs: r.NowMs}, refused[1:]
		}
		if len(proxied) > 0 && proxied[0].Number == number {
			sig, proxied = wire.Signal{Kind: sig.Kind, AtMs: sig.AtMs, Node: sig.Node}, proxied[1:]
		}
		b.Signals = append(b.Signals, sig)
	}
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
	if err != nil {
		panic("BUG: batch that was just encoded cannot be read: " + err.Error())
	}
	return body
}

// A token carries three values to Committed: the stream's slot, the bytes (in units of 64) and the last number.
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

// keep appends a batch to the journal. It waits while the session's window or the journal is full: so the reader stops.
func (x *session) keep(slot int, r *wire.BatchReader, size int, body []byte, signals int, refused []wire.RefusedSignal, proxied []core.ProxyResult) outcome {
	last := r.Last()
	t := token(slot, size, last)
	_, size, _ = untoken(t)
	if !x.Acquire(size, x.srv.cfg.Limits.UnackedBytes) {
		return displaced
	}
	defer x.Release()
	x.streams[slot].last = last
	x.refused = append(x.refused, refused...)
	x.Mu.Unlock()

	rec := x.srv.records.Get().(*core.Record)
	entries := rec.Entries(&core.Batch{Node: x.node.ID, Section: x.section, Stream: r.StreamKey, NowMs: r.NowMs, Body: body,
		Signals: signals, Proxied: proxied, Waiter: x, Token: t})
	err := x.srv.cfg.Journal.Append(x.srv.base, entries...)
	rec.Reset()
	x.srv.records.Put(rec)
	if err != nil {
		return x.broken(unkept, "the server cannot keep anything now")
	}
	return kept
}

// Committed implements journal.Waiter. It runs on the journal's goroutine and only marks the acknowledgement as due: one
// message acknowledges many commits.
func (x *session) Committed(t uint64, _ journal.Position, err error) {
	slot, size, last := untoken(t)
	l, bits := laneAck, dueAck
	x.Mu.Lock()
	x.Commit(size, err)
	if err == nil {
		st := &x.streams[slot]
		st.acked, st.fresh = max(st.acked, last), true
	} else {
		l, bits = lanePush, dueClose
	}
	put := x.dueLocked(l, bits)
	x.Mu.Unlock()
	if put {
		x.srv.outbox(l).put(x)
	}
}
