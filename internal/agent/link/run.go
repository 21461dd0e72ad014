package link

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Source is what an agent has to send: its spool. Run calls it from one goroutine
// at a time, except Acked (from the reader) and Notify.
type Source interface {
	// Streams and Backlog are for Hello.
	Streams() []wire.StreamHeld
	Backlog() uint64
	// Resume begins a session: everything above last is to be sent (again).
	Resume(last []wire.StreamLast) error
	// Next fills b with the next consecutive signals of one stream (live first) or
	// with a gap; false: nothing to send. What b refers to is valid until the next call.
	Next(b *wire.Batch, maxBytes, maxSignals int) (bool, error)
	// Waiting is how many signals Next would give, and whether one of them must leave
	// at once (a status changed).
	Waiting() (signals int, urgent bool)
	// Notify has a value after something was added.
	Notify() <-chan struct{}
	// Keepalive adds a keepalive signal: nothing was sent for the keepalive interval.
	Keepalive() error
	// Acked drops what the server keeps, and what it refused for good.
	Acked(ack *wire.Ack)
}

// Events is what the rest of the agent hears. All are called from the reader's goroutine.
type Events interface {
	Connected(server string, w *wire.Welcome)
	Disconnected(server string, err error)
	Assigned(held *Held)
	RunNow(chunk model.ChunkID)
}

// RunConfig adds to Config what a long-lived agent needs.
type RunConfig struct {
	Config
	Servers []string          // host:port in order of preference; Welcome may replace them
	Hello   func() wire.Hello // all but Node, Protocol, Session, Streams, Backlog, assignment held
	Held    *Held             // from the last life; nil: none
	Linger  time.Duration     // at most this long until a frame leaves; default 500 ms
	Backoff Backoff
	Rand    *rand.Rand // jitter; nil: the runtime's
}

// Backoff is exponential with full jitter: the n-th wait is uniform in
// [0, min(Max, First·2ⁿ)), and never shorter than what the server asked for.
type Backoff struct {
	First, Max time.Duration // defaults 1 s, 60 s
}

// Run keeps a session open until ctx ends, and then says Bye. It returns early only
// for a refusal that no retry can mend (*RefusedError with RetryMs zero).
func Run(ctx context.Context, cfg RunConfig, source Source, events Events) error {
	return errors.New("not yet")
}
