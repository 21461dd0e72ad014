package muster

import (
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// batch handles a batch in five stages: decode it, find its stream, judge each signal, append it to the journal, pay for
// it.
func (x *session) batch(body []byte) outcome {
	r := x.srv.batches.Get().(*wire.BatchReader)
	defer x.srv.batches.Put(r)
	if err := r.Reset(body); err != nil {
		return x.violation(malformed, err.Error())
	}
	if r.Signals > x.srv.cfg.Limits.BatchSignals {
		return x.violation(oversized, fmt.Sprintf("%d signals in one batch, at most %d", r.Signals, x.srv.cfg.Limits.BatchSignals))
	}
	if r.Last() > maxNumber {
		return x.violation(malformed, "a number larger than all streams have")
	}
	slot, ok := x.streamIndex(r.StreamKey)
	if !ok {
		return x.violation(streams, fmt.Sprintf("more than %d streams in one session", maxStreams))
	}
	last := x.streams[slot].last
	switch {
	case r.Last() <= last: // sent again: kept already, or waiting for its commit
		x.acknowledgeAgain(slot)
		return repeated
	case r.First > last+1:
		return x.violation(hole, fmt.Sprintf("numbers %d to %d are missing and no gap explains them", last+1, r.First-1))
	}
	signals, size := r.Signals, len(body)
	refused, proxied, cost := x.judge(r)
	if len(refused)+len(proxied) > 0 {
		body = replaceSignals(body, refused, proxied)
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
	x.charge(&cost)
	return kept
}

// streamIndex returns the index of a stream and adds a new one. Only the reader adds streams.
func (x *session) streamIndex(key wire.StreamKey) (int, bool) {
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
	x.streams[slot].due = true
	put := x.srv.acks.AddLocked(x, dueAck)
	x.Mu.Unlock()
	if put {
		x.srv.acks.Put(x)
	}
}

// replaceSignals encodes the batch again with a keepalive in place of each refused signal, and a signal with the node's id alone
// in place of each result about a proxy node, so that the numbers have no holes.
func replaceSignals(body []byte, refused []wire.RefusedSignal, proxied []core.ProxyResult) []byte {
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
	entries := rec.Entries(&core.Batch{Node: x.Node.ID, Section: x.Section, Stream: r.StreamKey, NowMs: r.NowMs, Body: body,
		Signals: signals, Proxied: proxied, Waiter: x, Token: t})
	err := x.srv.cfg.Journal.Append(x.srv.life.Base, entries...)
	rec.Reset()
	x.srv.records.Put(rec)
	if err != nil {
		return x.violation(unkept, "the server cannot write its journal now")
	}
	return kept
}

// Committed implements journal.Waiter. It runs on the journal's goroutine and only marks the acknowledgement as due: one
// message acknowledges many commits.
func (x *session) Committed(t uint64, _ journal.Position, err error) {
	slot, size, last := untoken(t)
	x.Mu.Lock()
	x.Commit(size, err)
	if err == nil {
		st := &x.streams[slot]
		st.acked, st.due = max(st.acked, last), true
	}
	o, due := x.srv.acks, dueAck
	if err != nil {
		o, due = x.srv.pushes, dueClose
	}
	put := o.AddLocked(x, due)
	x.Mu.Unlock()
	if put {
		o.Put(x)
	}
}
