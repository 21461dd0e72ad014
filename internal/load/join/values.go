package join

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
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

// outbox holds the values for the other side that are not written yet.
type outbox[T any] struct {
	list []T
	full bool // no value follows
}

// put adds a value, unless an earlier one was the last. The caller holds the monitor's lock.
func (b *outbox[T]) put(m *monitor, v T, last bool) {
	if !b.full {
		b.list, b.full = append(b.list, v), last
		m.change()
	}
}

// send writes the values of an outbox in their order, until the last one is written or ctx ends. In each second without a value it
// writes an empty one.
func (b *outbox[T]) send(ctx context.Context, m *monitor, out io.Writer, flush func() error) error {
	encoder := json.NewEncoder(out)
	for {
		within, cancel := context.WithTimeout(ctx, time.Second)
		_ = m.wait(within, func() bool { return len(b.list) > 0 || b.full })
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.mu.Lock()
		list, full := b.list, b.full
		b.list = nil
		m.mu.Unlock()
		if len(list) == 0 && !full {
			list = make([]T, 1)
		}
		for i := range list {
			if err := encoder.Encode(&list[i]); err != nil {
				return err
			}
		}
		if err := flush(); err != nil || full {
			return err
		}
	}
}

// reader reads the values of the other side.
type reader struct {
	in      io.Reader
	most    int    // bytes of a value
	alive   func() // restarts the timer that ends a silent connection
	left    int    // bytes that the present value may still have
	decoder *json.Decoder
}

// newReader returns a reader of values with at most this number of bytes.
func newReader(in io.Reader, most int, alive func()) *reader {
	r := &reader{in: in, most: most, alive: alive}
	r.decoder = json.NewDecoder(r)
	return r
}

// Read reads bytes of values, and allows the other side another span of silence.
func (r *reader) Read(data []byte) (int, error) {
	if r.left <= 0 {
		return 0, model.Errorf(model.TooLarge, "a message of more than %d bytes", r.most)
	}
	r.alive()
	n, err := r.in.Read(data[:min(len(data), r.left)])
	r.left -= n
	return n, err
}

// next decodes the next value.
func (r *reader) next(v any) error {
	r.left = r.most
	return r.decoder.Decode(v)
}
