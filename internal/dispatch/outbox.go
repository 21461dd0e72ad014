package dispatch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/store/history"
)

// outbox tracks in memory the messages to send, which are rows of a database table. It limits the undelivered
// messages of each handler (the queue "deliveries"). It knows the messages under way, so that no message is
// sent twice at the same time and no handler gets more messages than its slots. It also knows the messages that
// wait for an asset. The rows of the table decide: after a crash a message is sent again with the same key.
type outbox struct {
	limit int                          // most undelivered messages of one handler
	slots func(history.HandlerRef) int // returns the most messages that a handler gets at the same time

	mu       sync.Mutex
	pending  map[history.HandlerRef]int // number of undelivered messages by handler
	passed   uint64
	overflow uint64

	unmarked map[string]bool // keys of messages whose transaction the journal does not know yet (Options.MarkRecorded)
	underway map[int64]bool
	busy     map[history.HandlerRef]int // number of messages under way by handler
	// finished lists messages that count as under way until the next query of the outbox begins: a query that ran while
	// their result was recorded still returns them as waiting.
	finished []int64

	arrivals     uint64         // number of assets that have arrived
	withoutAsset map[int64]bool // ids of messages whose asset is missing
	due          []int64        // ids of messages whose asset arrived, to be made due in the store
}

// maxAssetWaits is the most messages that wait for assets in memory, more than are attempted within an hour.
const maxAssetWaits = 1 << 17

// newOutbox returns an empty outbox with the limits that the settings give the queue named deliveries.
func newOutbox(queues *queue.Registry, slots func(history.HandlerRef) int) *outbox {
	most, policy := queues.Bounds("deliveries")
	o := &outbox{limit: int(most), slots: slots, pending: map[history.HandlerRef]int{}, unmarked: map[string]bool{}, underway: map[int64]bool{},
		busy: map[history.HandlerRef]int{}, withoutAsset: map[int64]bool{}}
	queues.Register("deliveries", func() queue.Info {
		o.mu.Lock()
		defer o.mu.Unlock()
		info := queue.Info{Name: "deliveries", Capacity: most, Unit: "items", Policy: policy, Passed: o.passed, Overflow: o.overflow}
		for _, n := range o.pending {
			info.Depth = max(info.Depth, int64(n))
		}
		return info
	})
	return o
}

// load reads the number of waiting messages of each handler from the database at the server's start.
func (o *outbox) load(ctx context.Context, store history.Store) error {
	pending, err := store.Pending(ctx)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending = pending
	return nil
}

// undelivered returns the number of undelivered messages of a handler.
func (o *outbox) undelivered(ref history.HandlerRef) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pending[ref]
}

// prepare registers new messages before the transaction of their rows, and gives up messages to an overloaded
// handler. A dead letter is a message that was given up. None is sent before add.
func (o *outbox) prepare(list []history.Delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	more := map[history.HandlerRef]int{}
	for i := range list {
		one := &list[i]
		o.unmarked[one.Key] = true
		if one.State != "" {
			continue
		}
		if n := o.pending[one.Handler] + more[one.Handler]; n >= o.limit {
			one.State, one.Ended = history.Dead, one.Created
			one.LastError = fmt.Sprintf("handler %s has %d undelivered messages, the limit is %d: this one was not sent", one.Handler.Name, n, o.limit)
			continue
		}
		more[one.Handler]++
	}
}

// add lets stored messages be sent from now on, and counts the waiting messages of each handler. Their
// transaction is committed and noted in the journal.
func (o *outbox) add(list []history.Delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range list {
		delete(o.unmarked, list[i].Key)
		switch list[i].State {
		case "", history.Pending:
			o.passed++
			addCount(o.pending, list[i].Handler, 1)
		case history.Dead:
			o.overflow++
		}
	}
}

// countReplayed adds dead letters that are sent again to the count of their handler's waiting messages.
func (o *outbox) countReplayed(ref history.HandlerRef, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n > 0 {
		addCount(o.pending, ref, n)
		o.passed += uint64(n)
	}
}

const (
	// maxDue is the most rows of one query of the outbox: several times the messages of one handler.
	maxDue = 4 * perSocket
	// minDue is the fewest rows that a query asks for.
	minDue = 8
)

// beginQuery starts a query for due messages, and returns how many messages may be sent now. Messages written during
// the query cause another query. It returns the handlers without a free slot, and the number of rows that the other
// handlers can use; messages under way are among those rows. A query follows each message that ends, so its cost must
// not grow with the number of waiting messages.
func (o *outbox) beginQuery() (full []history.HandlerRef, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range o.finished {
		delete(o.underway, id)
	}
	o.finished = o.finished[:0]
	for ref, n := range o.busy {
		if n >= o.slots(ref) {
			full = append(full, ref)
		}
	}
	for ref := range o.pending {
		if most := o.slots(ref); o.busy[ref] < most {
			n += most
		}
	}
	return full, min(max(n, minDue), maxDue)
}

// reserve reserves one of the handler's sending slots for a message, and reports whether one was free. It returns false
// if the message has one already, if none is free, or if the journal does not have the transaction of the message yet.
// The caller passes arrivals to release.
func (o *outbox) reserve(one *history.Delivery) (arrivals uint64, ok bool) {
	most := o.slots(one.Handler)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.underway[one.ID] || o.unmarked[one.Key] || o.busy[one.Handler] >= most {
		return 0, false
	}
	delete(o.withoutAsset, one.ID)
	o.underway[one.ID] = true
	o.busy[one.Handler]++
	return o.arrivals, true
}

// attemptOutcome says whether a message after an attempt is done, to be retried, or waiting for an asset. It is
// done, to be retried, or waiting for an asset.
type attemptOutcome int

const (
	unsettled    attemptOutcome = iota // the message is tried again
	settled                            // the message is delivered or dead
	missingAsset                       // the message is tried again, at once when its missing asset arrives
)

// release gives back the handler's sending slot after an attempt to send a message. If an asset arrived since
// reserve, a message that lacked an asset is due at once.
func (o *outbox) release(one *history.Delivery, as attemptOutcome, arrivals uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished = append(o.finished, one.ID)
	addCount(o.busy, one.Handler, -1)
	switch {
	case as == settled:
		addCount(o.pending, one.Handler, -1)
	case as == missingAsset && arrivals != o.arrivals:
		o.due = append(o.due, one.ID)
	case as == missingAsset && len(o.withoutAsset) < maxAssetWaits:
		o.withoutAsset[one.ID] = true
	}
}

// addCount adds n to the count of one handler in a map of counts. An entry that becomes zero is deleted.
func addCount(counts map[history.HandlerRef]int, ref history.HandlerRef, n int) {
	if counts[ref] += n; counts[ref] == 0 {
		delete(counts, ref)
	}
}

// AssetArrived schedules for now the messages that waited for a missing asset (program archive). It does not block.
func (r *Dispatcher) AssetArrived() {
	o := r.deliver.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	o.arrivals++
	o.due = slices.AppendSeq(o.due, maps.Keys(o.withoutAsset))
	if clear(o.withoutAsset); len(o.due) > 0 {
		pause.Wake(r.deliver.wake)
	}
}

// retryAssetWaits makes stored messages due now if the missing asset (program archive) of each has arrived.
func (d *deliverer) retryAssetWaits(ctx context.Context) {
	o := d.outbox
	o.mu.Lock()
	due := o.due
	o.due = nil
	o.mu.Unlock()
	if len(due) == 0 {
		return
	}
	if err := d.opts.Store.MakeDue(ctx, due, d.opts.Now()); err != nil && ctx.Err() == nil {
		o.mu.Lock()
		o.due = append(o.due, due...)
		o.mu.Unlock()
		d.opts.Logger.Warn("cannot release messages that waited for an asset; the server retries", "err", err)
	}
}

// attemptWriter writes the results of attempts to send messages to the database, several in one transaction.
// Attempts that end during a write share the next transaction, because one fsync costs the same for one attempt
// or many.
type attemptWriter struct {
	store   history.Store
	mu      sync.Mutex
	pending []history.DeliveryAttempt
	written []chan error // gets the result of the write, one channel for each of waiting; capacity 1
	writing bool
}

// record writes the result of one attempt to send a message, and returns after the transaction is committed. A
// caller that finds no write in progress writes for all callers that wait.
func (o *attemptWriter) record(ctx context.Context, id int64, a history.Attempt) error {
	written := make(chan error, 1)
	o.mu.Lock()
	o.pending, o.written = append(o.pending, history.DeliveryAttempt{ID: id, Attempt: a}), append(o.written, written)
	for !o.writing && len(o.pending) > 0 {
		list, callers := o.pending, o.written
		o.pending, o.written, o.writing = nil, nil, true
		o.mu.Unlock()
		err := o.store.RecordAttempts(ctx, list...)
		for _, caller := range callers {
			caller <- err
		}
		o.mu.Lock()
		o.writing = false
	}
	o.mu.Unlock()
	return <-written
}
