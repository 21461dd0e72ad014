package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/pause"
)

// order is the servers to try: those that the last session told of, and behind them the
// agent's own. A wrong list told to a fleet locks nobody out.
func (r *runner) order() []string {
	list := slices.Clone(r.told)
	for _, own := range r.cfg.Servers {
		if !slices.Contains(list, own) {
			list = append(list, own)
		}
	}
	return list
}

// homeAfter is how long a session with another than the first server lasts before the
// first is tried again; with jitter, so that a fleet returns by and by.
const homeAfter = 10 * time.Minute

// errHome ends a session because the first server answers again.
var errHome = errors.New("the first server answers again")

// lookHome tries the first server of the order from time to time, while the session is
// with another one, and says so when it answers: it shakes hands and goes away.
func (r *runner) lookHome(ctx context.Context, server string, home chan<- struct{}) {
	for {
		if pause.For(ctx, time.Duration((0.5+r.random())*float64(r.cfg.HomeAfter))) != nil {
			return
		}
		first := r.first.Load()
		if first == nil || *first == server {
			continue
		}
		if err := r.base.knock(ctx, *first); err != nil {
			r.base.Log.Debug("the first server does not answer yet", "server", *first, "err", err)
			continue
		}
		select {
		case home <- struct{}{}:
		default:
		}
		return
	}
}

// knock sees whether a server answers and is ours.
func (c *Config) knock(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, c.Handshake)
	defer cancel()
	nc, err := c.Dial(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("connect to server %s: %w", addr, err)
	}
	defer nc.Close()
	if c.TLS == nil {
		return nil
	}
	return tls.Client(nc, named(c.TLS, addr)).HandshakeContext(ctx)
}
