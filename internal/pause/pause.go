// Package pause sleeps until a time is over or a context ends, so that every sleeper can be
// stopped. No goroutines and no locks.
package pause

import (
	"context"
	"time"
)

// For sleeps for d, or until ctx ends, and returns the error of ctx.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err()
}

// Wake sends a value to a channel of capacity 1 unless it is full, so that its receiver wakes up once.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
