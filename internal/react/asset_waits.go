package react

import (
	"context"
	"sync"
)

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
