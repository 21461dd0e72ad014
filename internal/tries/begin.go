package tries

import (
	"context"
	"errors"
)

// ErrTired is why nothing more is looked at for now.
var ErrTired = errors.New("too many wrong secrets were shown")

// Begin waits until one more secret of a network may be looked at: as many at a time as it may try,
// so that whoever shows ten thousand at once has ten of them looked at. end hears once how it ended;
// a right one costs nothing. Where too many were wrong the error is ErrTired, and first says
// that this was told nobody yet since the network last had rested.
func (l *Limiter) Begin(ctx context.Context, address string) (end func(wrong bool), first bool, err error) {
	for {
		one, wait, first := l.enter(address)
		switch {
		case one == nil && wait == nil:
			return nil, first, ErrTired
		case one != nil:
			return func(wrong bool) { l.leave(one, wrong) }, false, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// enter takes a place. Without one, wait is closed when another one's look has ended, or there is
// nothing to wait for.
func (l *Limiter) enter(address string) (one *tried, wait <-chan struct{}, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one = l.of(Network(address))
	left := one.TokensAt(l.now())
	if left >= AtOnce {
		one.told = false
	}
	switch {
	case left < 1:
		first, one.told = !one.told, true
		return nil, nil, first
	case one.under < int(left):
		one.under++
		return one, nil, false
	}
	if one.ended == nil {
		one.ended = make(chan struct{})
	}
	return nil, one.ended, false
}

func (l *Limiter) leave(one *tried, wrong bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one.under--
	if wrong {
		one.AllowN(l.now(), 1)
	}
	if one.ended != nil {
		close(one.ended)
		one.ended = nil
	}
}
