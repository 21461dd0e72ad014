package core

import (
	"context"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Appender is the interface to the journal, for requests that wait until their entries are on disk.
type Appender interface {
	Append(ctx context.Context, entries ...journal.Entry) error
}

// AppendDurably appends entries to the journal in one commit, and returns the position of the durable commit.
func AppendDurably(ctx context.Context, j Appender, entries []journal.Entry) (journal.Position, error) {
	w := make(commitWaiter, 1)
	entries[len(entries)-1].Waiter = w
	if err := j.Append(ctx, entries...); err != nil {
		return journal.Position{}, err
	}
	select {
	case o := <-w:
		return o.at, o.err
	case <-ctx.Done():
		return journal.Position{}, ctx.Err()
	}
}

// commitWaiter is a channel for the outcome of one journal write, a position or an error.
type commitWaiter chan commitOutcome

// commitOutcome is what the journal reports about one write, either its journal position or an error.
type commitOutcome struct {
	at  journal.Position
	err error
}

// Committed sends the journal position or the error of the commit to the waiting request.
func (w commitWaiter) Committed(_ uint64, at journal.Position, err error) {
	w <- commitOutcome{at, err}
}

// BatchEntry encodes a batch of results from a node as an entry for the journal.
func BatchEntry(section journal.Section, node model.NodeID, batch *wire.Batch) journal.Entry {
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, batch))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return journal.Entry{Section: section, Data: append(wire.AppendBatchRecord(nil, node), body...), Signals: len(batch.Signals)}
}
