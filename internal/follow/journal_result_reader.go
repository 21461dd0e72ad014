package follow

import (
	"log/slog"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/wire"
)

// EventStates is the interface by which readers of results look up an event's state after a result. Type
// *event.View implements it for the readers of results (followers). They need the state of an event after a
// result
type EventStates interface {
	StateAfterResult(node model.NodeID, check model.CheckID, stream, number uint64, received int64) (event.ResultState, bool)
	Applied() journal.Position
}

// resultReader decodes the check results in commits of the journal.
type resultReader struct {
	names        *nameCache
	view         EventStates
	log          *slog.Logger
	record       wire.Record
	batch        wire.BatchReader
	signal       wire.Signal
	body         wire.Result // of signal
	result       streamedResult
	handleResult func(*streamedResult) // is called for each result that the handler gets
	shadow       uint64                // results that are not sent, of namespaces with notifications: shadow
}

// readCommit passes each result in a journal commit to a function, in order.
func (x *resultReader) readCommit(c journal.Commit) error {
	x.result = streamedResult{at: c.Position(), received: c.Received()}
	for _, section := range c.Sections() {
		if err := c.Entries(section, x.readEntry); err != nil {
			return err
		}
	}
	return nil
}

// readEntry reads the check results in one entry of a journal commit. It skips malformed entries; the view logs
// them.
func (x *resultReader) readEntry(data []byte) error {
	if kind := wire.RecordKind(data[0]); kind != wire.RecordBatch && kind != wire.RecordServerResult && kind != wire.RecordProxyResult {
		return nil
	}
	rec := &x.record
	if rec.Decode(data) != nil {
		return nil
	}
	r := &x.result
	r.nodeID, r.ranBy, r.extra, r.key, r.number, r.duration = rec.Node, nil, nil, wire.StreamKey{}, 0, 0
	switch rec.Kind {
	case wire.RecordBatch:
		return x.readBatch(rec)
	case wire.RecordServerResult:
		r.status, r.output, r.executed = rec.ServerResult.Status, rec.ServerResult.Output, r.received
		x.selectResult(rec.ServerResult.Definition)
	case wire.RecordProxyResult:
		p := rec.ProxyResult
		if x.signal.Decode(p.Signal) == nil && x.signal.Kind == wire.SignalResult {
			r.ranBy, r.key, r.number = x.names.nodeText(p.By), p.StreamKey, p.Number
			x.readResultSignal(p.NowMs)
		}
	}
	return nil
}

// readBatch reads the check results in a batch from an agent, except results about proxy nodes. Results about
// proxy nodes have journal entries of their own.
func (x *resultReader) readBatch(rec *wire.Record) error {
	b := &x.batch
	if b.Reset(rec.Batch) != nil || b.Gap != nil {
		return nil
	}
	x.result.key = b.StreamKey
	for number := b.First; b.Next(&x.signal); number++ {
		if x.signal.Kind == wire.SignalResult && x.signal.Node == 0 { // a result about a proxy node has an entry of its own
			x.result.number = number
			x.readResultSignal(b.NowMs)
		}
	}
	return nil
}

// readResultSignal decodes the check result in one signal (message part) of an agent's batch.
func (x *resultReader) readResultSignal(nowMs uint64) {
	r, s := &x.result, &x.signal
	if x.body.Decode(s.Body) != nil {
		return
	}
	r.status, r.output, r.extra, r.duration = x.body.Status, x.body.Output, x.body.Extra, x.body.DurationMs
	r.executed = r.received
	if s.AtMs < nowMs {
		const year = uint64(366 * 24 * time.Hour / time.Millisecond) // the view accepts no older results
		r.executed -= int64(min(nowMs-s.AtMs, year)) * int64(time.Millisecond)
	}
	x.selectResult(s.Definition)
}

// selectResult adds the node, check and event to a result, and forwards only results for the handler. The
// result gets its node, check and event state.
func (x *resultReader) selectResult(definition model.DefinitionID) {
	r := &x.result
	r.node, r.check = x.names.nodeText(r.nodeID), x.names.checkText(definition)
	if r.node != nil && r.check != nil {
		switch {
		case r.node.shadow:
			x.shadow++
		case x.names.selectsResult(r):
			r.verdict, r.isNewest = x.view.StateAfterResult(r.nodeID, r.check.id, uint64(r.key.Stream), r.number, r.received)
			x.handleResult(r)
		}
	}
	r.index++
}
