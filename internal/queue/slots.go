package queue

import "context"

// Slots is a counting semaphore with the name, capacity and policy of a queue.
type Slots struct{ taken *Queue[struct{}] }

// NewSlots returns slots of the queue kind of that name, and registers them. An unknown name panics.
func NewSlots(r *Registry, name string) *Slots {
	capacity, policy := r.Bounds(name)
	return &Slots{New[struct{}](r, name, int(capacity), policy)}
}

// Enter takes a slot. If none is free, Enter waits until ctx ends (Block) or returns
// ErrFull. Every successful Enter needs one Leave.
func (s *Slots) Enter(ctx context.Context) error { return s.taken.Put(ctx, struct{}{}) }

// Leave returns a slot.
func (s *Slots) Leave() { <-s.taken.Items() }
