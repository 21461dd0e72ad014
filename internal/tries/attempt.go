package tries

import (
	"context"
	"errors"
)

// ErrExhausted means that a network has no attempts left for now.
var ErrExhausted = errors.New("too many wrong secrets from this network")

// Acquire waits until one more attempt of the address's network may be checked. A network has at most
// its remaining attempts in check: of ten thousand at once, ten are checked. The caller calls release
// once, with the outcome; a right secret costs no attempt. Acquire fails with ErrExhausted if the network
// has no attempts left, and first is true for the first such failure since its burst was full; or with
// the error of ctx.
func (l *Limiter) Acquire(ctx context.Context, address string) (release func(wrong bool), first bool, err error) {
	for {
		n, wait, first := l.enter(address)
		switch {
		case n == nil && wait == nil:
			return nil, first, ErrExhausted
		case n != nil:
			return func(wrong bool) { l.release(n, wrong) }, false, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// enter adds an attempt to its network and returns the network. If all remaining attempts are in check,
// it returns wait, which is closed when one of them is released; if none remain, neither.
func (l *Limiter) enter(address string) (n *network, wait <-chan struct{}, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = l.network(Network(address))
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

func (l *Limiter) release(n *network, wrong bool) {
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
