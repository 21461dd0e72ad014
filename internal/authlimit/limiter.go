// Package authlimit throttles attempts at secrets: passwords, join tokens, signatures. Each network that
// one person holds has a burst of attempts, then one every few seconds.
//
// In: addresses of peers. Out: whether an attempt may go on. Two ways to use a Limiter: Allow after a check counts failed
// attempts, for secrets whose check is cheap: a right one is never refused; Acquire also bounds the attempts that are checked at the
// same time, for secrets whose check is expensive (argon2): concurrent attempts then get no further than sequential
// ones. No goroutines; a Limiter has one lock. Start reading at limiter.go.
package authlimit

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limiter limits the attempts with wrong secrets from each network. Secrets are passwords and tokens; a network is an
// IPv4 address or an IPv6 /64.
type Limiter struct {
	now      func() time.Time
	mu       sync.Mutex // guards the fields below and all networks
	networks map[netip.Prefix]*networkBucket
	overflow *networkBucket // shared by all networks that do not fit in the table
	swept    time.Time      // time of the last sweep
}

// networkBucket holds the token bucket that counts a network's remaining attempts with wrong secrets. It also
// has the number of attempts that are being checked now.
type networkBucket struct {
	*rate.Limiter
	checking int           // attempts between Acquire and release
	released chan struct{} // closed at the next release; nil: no caller waits
	reported bool          // Acquire has reported the exhaustion since the bucket was last full
}

const (
	Burst    = 10              // attempts of a full bucket
	Interval = 3 * time.Second // between two refills by one
	// maxNetworks bounds the table of networks. A sweep removes full buckets; networks without a place in
	// the table share the bucket overflow.
	maxNetworks = 10_000
)

// New returns a Limiter in which all networks have all their attempts left.
func New(now func() time.Time) *Limiter {
	return &Limiter{now: now, networks: map[netip.Prefix]*networkBucket{}, overflow: newBucket()}
}

// newBucket returns a full token bucket, for a network without earlier attempts.
func newBucket() *networkBucket {
	return &networkBucket{Limiter: rate.NewLimiter(rate.Every(Interval), Burst)}
}

// Allow counts an attempt from an address, and reports whether the network had an attempt left. It reports
// whether the network of the address had an attempt left.
func (l *Limiter) Allow(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bucketOf(Network(address)).AllowN(l.now(), 1)
}

// bucketOf returns the token bucket with the remaining attempts of a network. The caller holds mu.
func (l *Limiter) bucketOf(prefix netip.Prefix) *networkBucket {
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
	n := newBucket()
	l.networks[prefix] = n
	return n
}

// Network returns the network, such as an IPv6 /64, to which an IP address belongs. The range is an IPv4
// address or an IPv6 /64. All texts that are not an address belong to the zero Prefix.
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

// ErrExhausted means that a network has no attempts left for now.
var ErrExhausted = errors.New("too many wrong secrets from this network")

// Acquire reserves one attempt to check a password or token for the network of an IP address. It waits while
// other attempts of this network are being checked. Of one network at most its remaining attempts are checked
// at the same time: of ten thousand concurrent attempts, ten are checked. The caller calls release once, with
// the outcome; a right secret costs no attempt. Acquire fails with ErrExhausted if the network has no attempts
// left, and first is true for the first such failure since its burst was full; or with the error of ctx.
func (l *Limiter) Acquire(ctx context.Context, address string) (release func(wrong bool), first bool, err error) {
	for {
		n, wait, first := l.startAttempt(address)
		switch {
		case n == nil && wait == nil:
			return nil, first, ErrExhausted
		case n != nil:
			return func(wrong bool) { l.endAttempt(n, wrong) }, false, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// startAttempt reserves one attempt for the network of an IP address, and returns the network's counter of
// attempts. If all remaining attempts are being checked, it returns wait instead, a channel that is closed when
// one of them is released. If no attempts remain, it returns neither.
func (l *Limiter) startAttempt(address string) (n *networkBucket, wait <-chan struct{}, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = l.bucketOf(Network(address))
	remaining := n.TokensAt(l.now())
	if remaining >= Burst {
		n.reported = false
	}
	switch {
	case remaining < 1:
		first, n.reported = !n.reported, true
		return nil, nil, first
	case n.checking < int(remaining):
		n.checking++
		return n, nil, false
	}
	if n.released == nil {
		n.released = make(chan struct{})
	}
	return nil, n.released, false
}

// endAttempt ends the check of one password or token, and uses up the attempt if wrong. If the secret was
// wrong, it takes a token from the network's bucket.
func (l *Limiter) endAttempt(n *networkBucket, wrong bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.checking--
	if wrong {
		n.AllowN(l.now(), 1)
	}
	if n.released != nil {
		close(n.released)
		n.released = nil
	}
}
