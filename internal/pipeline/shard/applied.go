package shard

import (
	"context"
	"fmt"

	"github.com/muster-fleet/muster/internal/journal"
)

// waiter is a WaitApplied in progress.
type waiter struct {
	number uint64
	done   chan struct{}
}

// Applied is the position up to which every partition is applied and every reducer has
// returned from EndCommit.
func (s *Shard) Applied() journal.Position {
	number := s.workers[0].applied.Load()
	for _, w := range s.workers[1:] {
		number = min(number, w.applied.Load())
	}
	return journal.Position{Log: s.log.Load(), Number: number}
}

// WaitApplied waits until Applied reaches p, ctx ends or the shard stops.
func (s *Shard) WaitApplied(ctx context.Context, p journal.Position) error {
	if s.Applied().Number >= p.Number {
		return nil
	}
	w := waiter{p.Number, make(chan struct{})}
	s.waitMu.Lock()
	s.waiting = append(s.waiting, w)
	s.waits.Store(int32(len(s.waiting)))
	s.waitMu.Unlock()
	s.wake() // it may have been applied in between
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
	case <-s.life.Done():
	}
	s.waitMu.Lock()
	for i := range s.waiting {
		if s.waiting[i].done == w.done {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			break
		}
	}
	s.waits.Store(int32(len(s.waiting)))
	s.waitMu.Unlock()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("wait for commit %d to be applied: %w", p.Number, err)
	}
	return ErrStopped
}

// wake ends the waits whose position is applied.
func (s *Shard) wake() {
	if s.waits.Load() == 0 {
		return
	}
	s.waitMu.Lock()
	defer s.waitMu.Unlock()
	applied := s.Applied().Number
	kept := s.waiting[:0]
	for _, w := range s.waiting {
		if w.number <= applied {
			close(w.done)
		} else {
			kept = append(kept, w)
		}
	}
	clear(s.waiting[len(kept):])
	s.waiting = kept
	s.waits.Store(int32(len(kept)))
}
