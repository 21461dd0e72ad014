package react

import (
	"context"
	"fmt"
	"sync"

	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/store/history"
)

// outboxDepth counts the undelivered messages of each handler, and bounds them: it is the queue "deliveries",
// whose items are rows of the outbox.
type outboxDepth struct {
	limit int // per handler

	mu       sync.Mutex
	pending  map[history.HandlerRef]int
	passed   uint64
	overflow uint64
}

func newOutboxDepth(queues *queue.Registry) *outboxDepth {
	most, policy := queues.Bounds("deliveries")
	d := &outboxDepth{limit: int(most), pending: map[history.HandlerRef]int{}}
	queues.Register("deliveries", func() queue.Info {
		d.mu.Lock()
		defer d.mu.Unlock()
		info := queue.Info{Name: "deliveries", Capacity: most, Unit: "items", Policy: policy, Passed: d.passed, Overflow: d.overflow}
		for _, n := range d.pending {
			info.Depth = max(info.Depth, int64(n))
		}
		return info
	})
	return d
}

// load counts the messages that wait since before the start.
func (d *outboxDepth) load(ctx context.Context, store history.Store) error {
	pending, err := store.Pending(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = pending
	return nil
}

// of returns the number of undelivered messages of a handler.
func (d *outboxDepth) of(ref history.HandlerRef) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pending[ref]
}

// handlers lists the handlers with undelivered messages.
func (d *outboxDepth) handlers() (list []history.HandlerRef) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for ref := range d.pending {
		list = append(list, ref)
	}
	return list
}

// bound makes dead letters of the deliveries beyond the limit of their handler.
func (d *outboxDepth) bound(list []history.Delivery) {
	more := map[history.HandlerRef]int{}
	for i := range list {
		one := &list[i]
		if one.State != "" {
			continue
		}
		if n := d.of(one.Handler) + more[one.Handler]; n >= d.limit {
			one.State, one.Ended = history.Dead, one.Created
			one.LastError = fmt.Sprintf("handler %s has %d undelivered messages, the limit is %d: this one was not sent", one.Handler.Name, n, d.limit)
			continue
		}
		more[one.Handler]++
	}
}

// count adds deliveries that were written to the outbox.
func (d *outboxDepth) count(list []history.Delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range list {
		switch list[i].State {
		case "", history.Pending:
			d.passed++
			d.pending[list[i].Handler]++
		case history.Dead:
			d.overflow++
		}
	}
}

// revived counts dead letters that are pending again.
func (d *outboxDepth) revived(ref history.HandlerRef, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n > 0 {
		d.pending[ref] += n
		d.passed += uint64(n)
	}
}

// settled counts a delivery that is delivered or dead.
func (d *outboxDepth) settled(ref history.HandlerRef) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending[ref]--; d.pending[ref] <= 0 {
		delete(d.pending, ref)
	}
}

// deliverySlots hold the messages under way, so that none is started twice and no handler gets more than
// its limit at the same time. They are in memory only: after a crash a message is tried again with the same
// key.
type deliverySlots struct {
	limit func(history.HandlerRef) int // messages that a handler gets at the same time

	mu       sync.Mutex
	underway map[int64]bool
	busy     map[history.HandlerRef]int
	// finished stay under way until the next query of the outbox begins: a query that ran while the outcome
	// was recorded still shows them as waiting.
	finished []int64
}

// reserve gives a message a slot; false: it has one already, or its handler has no more.
func (s *deliverySlots) reserve(one *history.Delivery) bool {
	most := s.limit(one.Handler)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.underway[one.ID] || s.busy[one.Handler] >= most {
		return false
	}
	s.underway[one.ID] = true
	s.busy[one.Handler]++
	return true
}

// free gives a slot back.
func (s *deliverySlots) free(one *history.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = append(s.finished, one.ID)
	if s.busy[one.Handler]--; s.busy[one.Handler] == 0 {
		delete(s.busy, one.Handler)
	}
}

const (
	// maxDue bounds one query of the outbox: several times the messages of one handler.
	maxDue = 4 * perSocket
	// minDue is the least that a query asks for.
	minDue = 8
)

// beginQuery begins a query of the outbox. It returns the handlers without a free slot, and how many rows the
// others can use; messages under way are among those rows. Each message that ends causes a query, so its cost
// must not grow with the messages that wait.
func (s *deliverySlots) beginQuery(handlers []history.HandlerRef) (full []history.HandlerRef, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.finished {
		delete(s.underway, id)
	}
	s.finished = s.finished[:0]
	for ref, n := range s.busy {
		if n >= s.limit(ref) {
			full = append(full, ref)
		}
	}
	for _, ref := range handlers {
		if most := s.limit(ref); s.busy[ref] < most {
			n += most
		}
	}
	return full, min(max(n, minDue), maxDue)
}

// outcomes records attempts. Those that end during a write share the next transaction, whose fsync costs the
// same for one or many.
type outcomes struct {
	store   history.Store
	mu      sync.Mutex
	waiting []outcome
	writing bool
}

type outcome struct {
	history.Outcome
	written chan error // capacity 1
}

// record returns when the attempt is in the store. A caller that finds no write in progress writes for all
// that wait.
func (o *outcomes) record(ctx context.Context, id int64, a history.Attempt) error {
	one := outcome{history.Outcome{ID: id, Attempt: a}, make(chan error, 1)}
	o.mu.Lock()
	o.waiting = append(o.waiting, one)
	if o.writing {
		o.mu.Unlock()
		return <-one.written
	}
	o.writing = true
	for len(o.waiting) > 0 {
		some := o.waiting
		o.waiting = nil
		o.mu.Unlock()
		list := make([]history.Outcome, len(some))
		for i := range some {
			list[i] = some[i].Outcome
		}
		err := o.store.RecordAttempts(ctx, list...)
		for i := range some {
			some[i].written <- err
		}
		o.mu.Lock()
	}
	o.writing = false
	o.mu.Unlock()
	return <-one.written
}

// assetWaits holds the deliveries that failed because an asset of their command or mutator was absent. They
// are tried again when an asset arrives. In memory only: after a restart they wait for their retry time.
type assetWaits struct {
	mu       sync.Mutex
	arrivals uint64         // how many assets came
	waiting  map[int64]bool // by id
	due      []int64        // to be tried now
}

// maxAssetWaits bounds the memory of waiting deliveries; more than are tried within an hour.
const maxAssetWaits = 1 << 17

// started returns the number of arrivals before an attempt; add compares with it.
func (l *assetWaits) started(id int64) (since uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, id)
	return l.arrivals
}

// add records that an attempt failed for an absent asset, once the outcome is in the store. If an asset
// arrived since the attempt started, the delivery is due at once.
func (l *assetWaits) add(id int64, since uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case since != l.arrivals:
		l.due = append(l.due, id)
	case len(l.waiting) < maxAssetWaits:
		if l.waiting == nil {
			l.waiting = map[int64]bool{}
		}
		l.waiting[id] = true
	}
}

// release makes all waiting deliveries due. False: none waits.
func (l *assetWaits) release() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrivals++
	for id := range l.waiting {
		l.due = append(l.due, id)
	}
	clear(l.waiting)
	return len(l.due) > 0
}

// drain empties the list of due deliveries, and returns it.
func (l *assetWaits) drain() (due []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	due, l.due = l.due, nil
	return due
}

// requeue puts deliveries back that could not be made due.
func (l *assetWaits) requeue(due []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due = append(l.due, due...)
}

// AssetArrived makes deliveries due that wait for an asset. It does not block.
func (r *Reactor) AssetArrived() {
	if r.deliver.assetWaits.release() {
		r.deliver.signal()
	}
}

// retryAssetWaits makes deliveries due in the store whose asset arrived.
func (d *deliverer) retryAssetWaits(ctx context.Context) {
	due := d.assetWaits.drain()
	if len(due) == 0 {
		return
	}
	if err := d.store.MakeDue(ctx, due, d.now()); err != nil && ctx.Err() == nil {
		d.assetWaits.requeue(due)
		d.log.Warn("messages that waited for an asset could not be made due; trying again", "err", err)
	}
}
