package follow

import (
	"log/slog"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/wire"
)

// View is the part of *event.View that lines need.
type View interface {
	VerdictOn(node model.NodeID, check model.CheckID, stream, number uint64, received int64) (event.Verdict, bool)
	Applied() journal.Position
}

// reader takes the results out of commits.
type reader struct {
	words  *words
	view   View
	log    *slog.Logger
	record wire.Record
	batch  wire.BatchReader
	signal wire.Signal
	body   wire.Result // of signal
	result result
	take   func(*result) // of those that the handler is told of
	shadow uint64        // results of which nothing is sent
}

// commit hands each result of a commit to take, in order.
func (x *reader) commit(c journal.Commit) error {
	x.result = result{at: c.Position(), received: c.Received()}
	for _, section := range c.Sections() {
		if err := c.Entries(section, x.entry); err != nil {
			return err
		}
	}
	return nil
}

// entry extracts the results of one entry. It skips malformed entries, which the view logs.
func (x *reader) entry(data []byte) error {
	if kind := wire.RecordKind(data[0]); kind != wire.RecordBatch && kind != wire.RecordServerResult && kind != wire.RecordProxyResult {
		return nil
	}
	rec := &x.record
	if rec.Decode(data) != nil {
		return nil
	}
	r := &x.result
	r.id, r.ranBy, r.extra, r.key, r.number, r.duration = rec.Node, nil, nil, wire.StreamKey{}, 0, 0
	switch rec.Kind {
	case wire.RecordBatch:
		return x.batched(rec)
	case wire.RecordServerResult:
		r.status, r.output, r.executed = rec.ServerResult.Status, rec.ServerResult.Output, r.received
		x.one(rec.ServerResult.Chunk)
	case wire.RecordProxyResult:
		p := rec.ProxyResult
		if x.signal.Decode(p.Signal) == nil && x.signal.Kind == wire.SignalResult {
			r.ranBy, r.key, r.number = x.words.node(p.By), p.StreamKey, p.Number
			x.signalled(p.NowMs)
		}
	}
	return nil
}

func (x *reader) batched(rec *wire.Record) error {
	b := &x.batch
	if b.Reset(rec.Batch) != nil || b.Gap != nil {
		return nil
	}
	x.result.key = b.StreamKey
	for number := b.First; b.Next(&x.signal); number++ {
		if x.signal.Kind == wire.SignalResult && x.signal.Node == 0 { // else it is no result, or stands with whom it speaks of
			x.result.number = number
			x.signalled(b.NowMs)
		}
	}
	return nil
}

func (x *reader) signalled(nowMs uint64) {
	r, s := &x.result, &x.signal
	if x.body.Decode(s.Body) != nil {
		return
	}
	r.status, r.output, r.extra, r.duration = x.body.Status, x.body.Output, x.body.Extra, x.body.DurationMs
	r.executed = r.received
	if s.AtMs < nowMs {
		const year = uint64(366 * 24 * time.Hour / time.Millisecond) // as the view has it: nothing is older
		r.executed -= int64(min(nowMs-s.AtMs, year)) * int64(time.Millisecond)
	}
	x.one(s.Chunk)
}

// one hands on the result, if the handler is told of it.
func (x *reader) one(chunk model.ChunkID) {
	r := &x.result
	r.node, r.check = x.words.node(r.id), x.words.check(chunk)
	if r.node != nil && r.check != nil {
		switch {
		case r.node.shadow:
			x.shadow++
		case x.words.chosen(r):
			r.now, r.newest = x.view.VerdictOn(r.id, r.check.id, uint64(r.key.Stream), r.number, r.received)
			x.take(r)
		}
	}
	r.index++
}
