package join

import (
	"context"
	"sync"
)

// awaited is what is known of the other end, and whoever waits until it is so.
type awaited struct {
	ctx     context.Context // of the run
	mu      sync.Mutex      // guards what is known
	changed chan struct{}   // closed at every change
}

// await waits until something is true, which is asked under the lock.
func (a *awaited) await(ctx context.Context, ok func() bool) error {
	for {
		a.mu.Lock()
		done, changed := ok(), a.changed
		a.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-a.ctx.Done():
			return context.Cause(a.ctx)
		case <-changed:
		}
	}
}

// change wakes who awaits something. Caller holds the lock.
func (a *awaited) change() {
	close(a.changed)
	a.changed = make(chan struct{})
}
