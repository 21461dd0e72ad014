// Package pause is a sleep that ends with a context: whoever waits can be stopped at any time.
// Goroutines: none. Locks: none.
package pause

import (
	"context"
	"time"
)

// For waits so long, at most until ctx ends; the error is that of ctx.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err()
}
