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

// order returns the servers to try: first the last Welcome's, then the agent's own, so that a wrong
// list in Welcome locks no agent out.
func (r *runner) order() []string {
	list := slices.Clone(r.told)
	for _, own := range r.cfg.Servers {
		if !slices.Contains(list, own) {
			list = append(list, own)
		}
	}
	return list
}

// defaultHomeAfter is the default of RunConfig.HomeAfter.
const defaultHomeAfter = 10 * time.Minute

// errPreferredAnswers ends a session because the first server of the order answers again.
var errPreferredAnswers = errors.New("the preferred server answers again")

// watchPreferred tries the first server of the order periodically while the session is with another
// one, and reports on preferred when a TLS handshake succeeds.
func (r *runner) watchPreferred(ctx context.Context, server string, preferred chan<- struct{}) {
	for {
		if pause.For(ctx, time.Duration((0.5+r.random())*float64(r.cfg.HomeAfter))) != nil {
			return
		}
		first := r.first.Load()
		if first == nil || *first == server {
			continue
		}
		if err := r.base.handshake(ctx, *first); err != nil {
			r.base.Log.Debug("the preferred server does not answer yet", "server", *first, "err", err)
			continue
		}
		select {
		case preferred <- struct{}{}:
		default:
		}
		return
	}
}

// handshake connects to a server, verifies its certificate and disconnects.
func (c *Config) handshake(ctx context.Context, addr string) error {
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
	return tls.Client(nc, withServerName(c.TLS, addr)).HandshakeContext(ctx)
}
