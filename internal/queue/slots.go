package queue

import (
	"context"
	"sync/atomic"
)

// Slots lets only so many in at the same time.
type Slots struct {
	name     string
	policy   Policy
	places   chan struct{}
	passed   atomic.Uint64
	overflow atomic.Uint64
}

// NewSlots makes slots as the known queue of that name says, and registers them.
func NewSlots(r *Registry, name string) *Slots {
	capacity, policy := r.Bounds(name)
	s := &Slots{name: name, policy: policy, places: make(chan struct{}, capacity)}
	r.Register(name, s.info)
	return s
}

// Enter takes a place: when there is none it waits (Block, until ctx ends) or returns
// ErrFull. Leave gives it back.
func (s *Slots) Enter(ctx context.Context) error {
	select {
	case s.places <- struct{}{}:
		s.passed.Add(1)
		return nil
	default:
	}
	s.overflow.Add(1)
	if s.policy != Block {
		return ErrFull
	}
	select {
	case s.places <- struct{}{}:
		s.passed.Add(1)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Leave gives the place back.
func (s *Slots) Leave() { <-s.places }

func (s *Slots) info() Info {
	return Info{
		Name: s.name, Capacity: int64(cap(s.places)), Depth: int64(len(s.places)), Unit: "items",
		Policy: s.policy, Passed: s.passed.Load(), Overflow: s.overflow.Load(),
	}
}
