package api

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limiter slows down whoever tries passwords: ten at once, then one every three
// seconds, for each address.
type limiter struct {
	now   func() time.Time
	mu    sync.Mutex
	addrs map[string]*rate.Limiter
}

// maxAddrs bounds the table: beyond it everybody begins anew, which costs an
// attacker with that many addresses nothing and us no memory.
const maxAddrs = 10_000

func newLimiter(now func() time.Time) *limiter {
	return &limiter{now: now, addrs: map[string]*rate.Limiter{}}
}

func (l *limiter) allow(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.addrs[address]
	if one == nil {
		if len(l.addrs) >= maxAddrs {
			clear(l.addrs)
		}
		one = rate.NewLimiter(rate.Every(3*time.Second), 10)
		l.addrs[address] = one
	}
	return one.AllowN(l.now(), 1)
}
