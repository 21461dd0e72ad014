package react

import (
	"context"
	"sync"

	"github.com/muster-fleet/muster/internal/store/history"
)

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
