package react

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is exponential with full jitter above half of it.
func backoff(attempt int, first, most time.Duration) time.Duration {
	d := min(first<<min(attempt, 20), most)
	if d <= 0 {
		d = most
	}
	return d/2 + rand.N(d/2+1)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
