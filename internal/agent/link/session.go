package link

import (
	"context"
	"errors"
	"time"

	"github.com/muster-fleet/muster/internal/wire"
)

// Session is one connection to a server. Read belongs to one goroutine; every other
// method may be called from anywhere.
type Session struct{}

// Open connects to addr (host:port), says hello and waits for Welcome, which it
// hands to h. The error is a *RefusedError when the server said Refuse. held is the
// assignment that hello names (nil: none).
func Open(ctx context.Context, cfg *Config, addr string, hello *wire.Hello, held *Held, h Handler) (*Session, error) {
	return nil, errors.New("not yet")
}

// Read handles what comes in until the session ends, and says why it ended.
func (s *Session) Read() error { return errors.New("not yet") }

// Send writes one batch now, setting its NowMs. ErrFull when more than the allowed
// bytes are unacknowledged: send it again after Acked.
func (s *Session) Send(b *wire.Batch) error { return errors.New("not yet") }

// Tick pings after silence, and closes a dead session; call it every few seconds.
func (s *Session) Tick(now time.Time) {}

// Unacked is the number of bytes sent and not yet acknowledged.
func (s *Session) Unacked() int { return 0 }

// Bye announces a planned end and closes.
func (s *Session) Bye(reason string) {}

// Close ends the session at once. Read returns.
func (s *Session) Close() {}

var (
	// ErrFull: too much is unacknowledged.
	ErrFull = errors.New("too much is unacknowledged")
	// ErrEnded: the session is over.
	ErrEnded = errors.New("session has ended")
)
