package core

import (
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Record builds the journal entries of one batch in memory that it reuses: one entry for the node, and one for each
// result about a proxy node, which is kept with that node. All are one commit.
type Record struct {
	data []byte
	list [1]journal.Entry
	more []journal.Entry
}

// ProxyResult is a result about a proxy node. Its number stays with the node that sent it, so that it never counts twice.
type ProxyResult struct {
	directory.ProxyNode
	Signal []byte // encoded
	Number uint64
}

// Batch is a batch for the journal.
type Batch struct {
	Node    model.NodeID // that sent it
	Section journal.Section
	Stream  wire.StreamKey
	NowMs   uint64
	Body    []byte // of the Batch frame
	Signals int    // results about proxy nodes included
	Proxied []ProxyResult
	Waiter  journal.Waiter
	Token   uint64
}

// Entries returns the entries of a batch. They belong to the record and are valid until Reset.
func (rec *Record) Entries(b *Batch) []journal.Entry {
	rec.data = append(wire.AppendBatchRecord(rec.data[:0], b.Node), b.Body...)
	rec.list[0] = journal.Entry{Section: b.Section, Data: rec.data, Waiter: b.Waiter, Token: b.Token, Signals: b.Signals - len(b.Proxied)}
	if len(b.Proxied) == 0 {
		return rec.list[:]
	}
	own := len(rec.data)
	ends := make([]int, len(b.Proxied))
	for i := range b.Proxied {
		p := &b.Proxied[i]
		rec.data = wire.AppendRecord(rec.data, &wire.Record{Kind: wire.RecordProxyResult, Node: p.ID, ProxyResult: &wire.ProxyResult{
			StreamKey: b.Stream, Number: p.Number, By: b.Node, Namespace: p.Namespace, NowMs: b.NowMs, Signal: p.Signal,
		}})
		ends[i] = len(rec.data)
	}
	rec.list[0].Data = rec.data[:own:own]
	rec.more = append(rec.more[:0], rec.list[0])
	for i, from := 0, own; i < len(b.Proxied); i++ {
		rec.more = append(rec.more, journal.Entry{Section: SectionOf(b.Proxied[i].UID), Data: rec.data[from:ends[i]:ends[i]], Signals: 1})
		from = ends[i]
	}
	return rec.more
}

// Reset lets go of the batch's waiter.
func (rec *Record) Reset() {
	rec.list[0] = journal.Entry{}
	clear(rec.more)
}
