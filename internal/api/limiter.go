package api

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limiter slows down whoever tries secrets: ten at once, then one every three seconds,
// for each network that one person holds (an IPv4 address, or 64 bits of IPv6).
type limiter struct {
	now   func() time.Time
	mu    sync.Mutex
	nets  map[netip.Prefix]*rate.Limiter
	other *rate.Limiter // shared by all that find no place in nets
	swept time.Time     // when those that rested were last looked for
}

const (
	triesAtOnce = 10
	triesEvery  = 3 * time.Second
	// maxNets bounds the table. What has rested gives way; beyond it all newcomers
	// share one limit.
	maxNets = 10_000
)

func newLimiter(now func() time.Time) *limiter {
	return &limiter{now: now, nets: map[netip.Prefix]*rate.Limiter{}, other: newTries()}
}

func newTries() *rate.Limiter { return rate.NewLimiter(rate.Every(triesEvery), triesAtOnce) }

// allow counts one try.
func (l *limiter) allow(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of(network(address)).AllowN(l.now(), 1)
}

// tired says whether the next try will be refused, and counts none.
func (l *limiter) tired(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.nets[network(address)]
	return one != nil && one.TokensAt(l.now()) < 1
}

func (l *limiter) of(net netip.Prefix) *rate.Limiter {
	if one := l.nets[net]; one != nil {
		return one
	}
	if now := l.now(); len(l.nets) >= maxNets && now.Sub(l.swept) >= triesEvery {
		l.swept = now
		for net, one := range l.nets {
			if one.TokensAt(now) >= triesAtOnce {
				delete(l.nets, net)
			}
		}
	}
	if len(l.nets) >= maxNets {
		return l.other
	}
	one := newTries()
	l.nets[net] = one
	return one
}

// network is what one person may hold; what is no address is one network.
func network(address string) netip.Prefix {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return netip.Prefix{}
	}
	ip = ip.Unmap().WithZone("")
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits)
	return p
}
