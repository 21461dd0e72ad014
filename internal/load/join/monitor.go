package join

import (
	"context"
	"sync"
)

// monitor guards the state of one side, and wakes goroutines that wait for a change of it.
type monitor struct {
	ctx     context.Context // of the run
	mu      sync.Mutex
	changed chan struct{} // closed at every change
}

// await waits until a condition holds. The condition is evaluated under the lock.
func (m *monitor) await(ctx context.Context, condition func() bool) error {
	for {
		m.mu.Lock()
		ok, changed := condition(), m.changed
		m.mu.Unlock()
		if ok {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if m.ctx.Err() != nil {
			return context.Cause(m.ctx)
		}
		select {
		case <-ctx.Done():
		case <-m.ctx.Done():
		case <-changed:
		}
	}
}

// change wakes the waiting goroutines. The caller holds the lock.
func (m *monitor) change() {
	close(m.changed)
	m.changed = make(chan struct{})
}
