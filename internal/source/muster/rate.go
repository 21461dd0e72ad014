package muster

import (
	"sync"
	"time"
)

// bucket is a token bucket that may go into debt: a batch is taken as it is, and
// the session then waits until the debt is paid. So nothing that an agent spooled is
// ever lost to a limit, and who is over it delays only himself.
type bucket struct {
	mu     sync.Mutex
	tokens float64
	at     int64 // of tokens, ns of a clock that nobody sets; zero: full
}

// take takes n tokens of a bucket that fills at rate per second and holds burst of
// it, and returns how long to wait before the next.
func (b *bucket) take(n int, rate float64, burst time.Duration, now int64) time.Duration {
	if rate <= 0 {
		return 0
	}
	full := rate * burst.Seconds()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at == 0 {
		b.tokens = full
	} else {
		b.tokens = min(full, b.tokens+float64(now-b.at)/1e9*rate)
	}
	b.at = now
	b.tokens -= float64(n)
	if b.tokens >= 0 {
		return 0
	}
	return time.Duration(-b.tokens / rate * float64(time.Second))
}
