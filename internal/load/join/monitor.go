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

// await waits until a condition holds, or the run ends. The condition is evaluated under the lock.
func (m *monitor) await(ctx context.Context, condition func() bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(m.ctx, func() { cancel(context.Cause(m.ctx)) })()
	return m.wait(ctx, condition)
}

// wait waits until a condition holds, also after the end of the run.
func (m *monitor) wait(ctx context.Context, condition func() bool) error {
	for {
		m.mu.Lock()
		ok, changed := condition(), m.changed
		m.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// change wakes the waiting goroutines. The caller holds the lock.
func (m *monitor) change() {
	close(m.changed)
	m.changed = make(chan struct{})
}
