package queue

import "context"

// Slots lets only so many in at the same time: a queue whose items are those within.
type Slots struct{ within *Queue[struct{}] }

// NewSlots makes slots as the known queue of that name says, and registers them.
func NewSlots(r *Registry, name string) *Slots {
	capacity, policy := r.Bounds(name)
	return &Slots{New[struct{}](r, name, int(capacity), policy)}
}

// Enter takes a place: when there is none it waits (Block, until ctx ends) or returns
// ErrFull. Leave gives it back.
func (s *Slots) Enter(ctx context.Context) error { return s.within.Put(ctx, struct{}{}) }

// Leave gives the place back.
func (s *Slots) Leave() { <-s.within.Items() }
