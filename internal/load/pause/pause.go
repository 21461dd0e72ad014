// Package pause is a sleep that ends with a context: what a run waits with, so that it can be
// stopped at any time. Goroutines: none. Locks: none.
package pause

import (
	"context"
	"time"
)

// For waits so long, at most until ctx ends.
func For(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
