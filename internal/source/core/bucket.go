package core

import (
	"sync"
	"time"
)

// Bucket is a token bucket that may go into debt: it takes a batch whole, and the session then waits until the debt is
// paid. So a limit never loses a result that an agent has spooled, and a node over its limit delays only itself.
type Bucket struct {
	mu     sync.Mutex
	tokens float64
	at     int64 // of tokens, ns of a monotonic clock; zero: full
}

// Spend takes n tokens of a bucket that fills at rate per second and holds burst of it, and returns the time until its
// debt is paid.
func (b *Bucket) Spend(n int, rate float64, burst time.Duration, now int64) time.Duration {
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

// Refund gives n tokens back.
func (b *Bucket) Refund(n int) {
	b.mu.Lock()
	b.tokens += float64(n)
	b.mu.Unlock()
}

// IdleSince returns the time of the last Spend.
func (b *Bucket) IdleSince() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at
}
