package tries

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limiter slows down whoever tries secrets: ten at once, then one every three seconds,
// for each network that one person holds (an IPv4 address, or 64 bits of IPv6).
type Limiter struct {
	now   func() time.Time
	mu    sync.Mutex
	nets  map[netip.Prefix]*tried
	other *tried    // shared by all that find no place in nets
	swept time.Time // when those that rested were last looked for
}

// tried is what one network has left.
type tried struct {
	*rate.Limiter
	under int           // tries that are looked at
	ended chan struct{} // closed when one of them was; nil: nobody waits
	told  bool          // that it is tired, since it last had rested
}

const (
	AtOnce = 10              // so many tries has who has rested,
	Every  = 3 * time.Second // and then one more each time
	// maxNets bounds the table. What has rested gives way; beyond it all newcomers
	// share one limit.
	maxNets = 10_000
)

// New makes one; nobody has tried anything yet.
func New(now func() time.Time) *Limiter {
	return &Limiter{now: now, nets: map[netip.Prefix]*tried{}, other: newTried()}
}

func newTried() *tried { return &tried{Limiter: rate.NewLimiter(rate.Every(Every), AtOnce)} }

// Allow counts one try.
func (l *Limiter) Allow(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of(Network(address)).AllowN(l.now(), 1)
}

// Tired says whether the next try will be refused, and counts none.
func (l *Limiter) Tired(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.nets[Network(address)]
	return one != nil && one.TokensAt(l.now()) < 1
}

func (l *Limiter) of(net netip.Prefix) *tried {
	if one := l.nets[net]; one != nil {
		return one
	}
	if now := l.now(); len(l.nets) >= maxNets && now.Sub(l.swept) >= Every {
		l.swept = now
		for net, one := range l.nets {
			if one.under == 0 && one.TokensAt(now) >= AtOnce {
				delete(l.nets, net)
			}
		}
	}
	if len(l.nets) >= maxNets {
		return l.other
	}
	one := newTried()
	l.nets[net] = one
	return one
}

// Network is what one person may hold; what is no address is one network.
func Network(address string) netip.Prefix {
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
