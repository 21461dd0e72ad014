package collect

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/muster-fleet/muster/internal/item"
)

const (
	// itemTimeout bounds the collection of one item. A dead file server blocks the system call for ever.
	itemTimeout = 3 * time.Second
	// maxWaiting bounds the collections that wait for a disk or a program at the same time, and separately those that
	// wait for the network and for answers to HTTP requests.
	maxWaiting = 8
)

// slowCollectors runs collectors that may wait for a disk, a program or the network. Each runs in its own goroutine,
// with a time limit.
type slowCollectors struct {
	// Slots: silent servers delay no disk, and HTTP requests, which may have longer time-outs, no other item.
	local, network, requests *semaphore.Weighted

	mu      sync.Mutex
	pending map[string]*collectorResult // by id: a collection that has not answered is not begun again
}

// collectorResult is the value or error that a collector returned in its own goroutine. done is closed when it
// is there.
type collectorResult struct {
	done  chan struct{}
	value item.Value
	err   error
}

// measure runs a collector in a goroutine of its own. It waits for the answer, at most the item's time-out.
func (w *slowCollectors) measure(ctx context.Context, m *machine, of *groupItem) (item.Value, error) {
	slots := w.local
	if of.solo {
		slots = w.requests
	} else if strings.HasPrefix(of.key.Name, "net.") || strings.HasPrefix(of.key.Name, "web.") || strings.HasPrefix(of.key.Name, "icmp") {
		slots = w.network
	}
	if err := slots.Acquire(ctx, 1); err != nil {
		return item.Value{}, err
	}
	defer slots.Release(1)
	ctx, cancel := context.WithTimeout(ctx, of.timeout)
	defer cancel()
	a := w.startCollector(ctx, m, of)
	select {
	case <-a.done:
		return a.value, a.err
	case <-ctx.Done():
		return item.Value{}, fmt.Errorf("%s: no answer in %s", of.text, of.timeout)
	}
}

// startCollector returns the collector call that still runs for an item, or starts a call if none runs.
func (w *slowCollectors) startCollector(ctx context.Context, m *machine, of *groupItem) *collectorResult {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.pending[of.id]; a != nil {
		return a
	}
	a := &collectorResult{done: make(chan struct{})}
	w.pending[of.id] = a
	go func() {
		a.value, a.err = of.collector.measure(ctx, m, &of.key)
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.pending, of.id)
		close(a.done)
	}()
	return a
}
