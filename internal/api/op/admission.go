package op

import (
	"context"
	"errors"
	"net/http"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
)

// Turns bounds the cost of expensive requests of one kind: two are at work, a bounded number waits
// with nothing but its connection, the others are refused.
type Turns struct {
	places  chan struct{}
	waiting *queue.Slots // those at work included
}

// NewTurns returns Turns whose bound is the queue of this name.
func NewTurns(name string, r *queue.Registry) *Turns {
	return &Turns{places: make(chan struct{}, 2), waiting: queue.NewSlots(r, name)}
}

// Enter waits for a place, which leave gives back. false: the queue is full, or ctx ended.
func (t *Turns) Enter(ctx context.Context) (leave func(), ok bool) {
	if t.waiting.Enter(ctx) != nil {
		return nil, false
	}
	select {
	case t.places <- struct{}{}:
		return func() { <-t.places; t.waiting.Leave() }, true
	case <-ctx.Done():
		t.waiting.Leave()
		return nil, false
	}
}

// InSlots answers a request in one of the slots, or refuses it.
func InSlots(slots *queue.Slots, w http.ResponseWriter, r *http.Request, next http.Handler) {
	if err := slots.Enter(r.Context()); err != nil {
		if errors.Is(err, queue.ErrFull) {
			WriteError(w, Full())
		}
		return
	}
	defer slots.Leave()
	next.ServeHTTP(w, r)
}

// Full is the error of a request when all slots are taken.
func Full() *model.Error {
	return model.Errorf(model.Unavailable, "the server answers as many requests as it may").
		WithHint("try again; muster get queues shows how many wait, --queues raises the bound")
}
