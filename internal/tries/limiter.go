package tries

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limiter throttles attempts per network that one person holds (an IPv4 address, or 64 bits of IPv6):
// a token bucket of Burst attempts, refilled by one per Interval.
type Limiter struct {
	now      func() time.Time
	mu       sync.Mutex // guards the fields below and all networks
	networks map[netip.Prefix]*network
	overflow *network  // shared by all networks that do not fit in the table
	swept    time.Time // time of the last sweep
}

// network is the token bucket of one network and its attempts in check.
type network struct {
	*rate.Limiter
	checking int           // attempts between Acquire and release
	released chan struct{} // closed at the next release; nil: no caller waits
	reported bool          // Acquire has returned first since the bucket was full
}

const (
	Burst    = 10              // attempts of a full bucket
	Interval = 3 * time.Second // between two refills by one
	// maxNetworks limits the table. A sweep removes full buckets; networks that find the table
	// full share the bucket overflow.
	maxNetworks = 10_000
)

// New returns a Limiter on which every network has a full bucket.
func New(now func() time.Time) *Limiter {
	return &Limiter{now: now, networks: map[netip.Prefix]*network{}, overflow: newNetwork()}
}

func newNetwork() *network { return &network{Limiter: rate.NewLimiter(rate.Every(Interval), Burst)} }

// Allow counts one attempt and reports whether it may go on.
func (l *Limiter) Allow(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.network(Network(address)).AllowN(l.now(), 1)
}

// Exhausted reports whether the next attempt would be refused. It counts none.
func (l *Limiter) Exhausted(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.networks[Network(address)]
	return n != nil && n.TokensAt(l.now()) < 1
}

// network returns the bucket of a network; the caller holds mu.
func (l *Limiter) network(prefix netip.Prefix) *network {
	if n := l.networks[prefix]; n != nil {
		return n
	}
	if now := l.now(); len(l.networks) >= maxNetworks && now.Sub(l.swept) >= Interval {
		l.swept = now
		for prefix, n := range l.networks {
			if n.checking == 0 && n.TokensAt(now) >= Burst {
				delete(l.networks, prefix)
			}
		}
	}
	if len(l.networks) >= maxNetworks {
		return l.overflow
	}
	n := newNetwork()
	l.networks[prefix] = n
	return n
}

// Network returns the network of an address that one person may hold: an IPv4 address or 64 bits of
// IPv6. All texts that are no address share the zero Prefix.
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
