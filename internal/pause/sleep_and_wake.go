// Package pause sleeps until a time is over or a context ends, so that every sleeper can be
// stopped. No goroutines and no locks.
package pause

import (
	"context"
	"time"
)

// For sleeps for a duration, but returns early if ctx ends. It returns the error of ctx.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err()
}

// Wake wakes the goroutine that receives from a channel of capacity 1, and never blocks. If the channel is full
// already, it does nothing.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
