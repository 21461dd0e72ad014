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
