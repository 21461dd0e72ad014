package link

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"time"

	"github.com/muster-fleet/muster/internal/wire"
)

// Source is what an agent has to send: its spool. Run calls it from one goroutine
// at a time, except Acked (from the reader) and Notify.
type Source interface {
	// Streams and Backlog are for Hello.
	Streams() []wire.StreamRange
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
	Assigned(held *Assignment)
	RunNow(r *wire.Run)
	Turn(t *wire.Turn)
	Reply(x *wire.Exchange)
}

// Requests is what an agent wants to know of its server. It leaves at once.
type Requests interface {
	// Ready has a value after there is something to ask.
	Ready() <-chan struct{}
	// Next is what is to be asked now; false: nothing. Ready does not tell of what is left.
	Next() (wire.Exchange, bool)
}

// RunOutputs is what an agent says of runs that it was asked for. It waits for what Source
// has to send.
type RunOutputs interface {
	// Ready has a value after something can be sent.
	Ready() <-chan struct{}
	// Next is the next piece, with at most so many bytes of output; false: there is none.
	// What it refers to is valid until the next call. Ready does not tell of what is left.
	Next(most int) (wire.RunOutput, bool)
}

// RunConfig adds to Config what a long-lived agent needs.
type RunConfig struct {
	Config
	Servers []string // the agent's own, host:port in order of preference
	// TLS is asked before each session for what it uses in the place of Config.TLS: a
	// certificate may be another by then. Nil: Config.TLS.
	TLS          func() *tls.Config
	SavedServers []string          // what the last session said: tried first; each Welcome replaces it
	Hello        func() wire.Hello // all but Node, Protocol, Session, Streams, Backlog, assignment held
	// Facts is what is true of the machine now, Remeasured has a value after it changed: a
	// session that was told otherwise is told again. Nil: Hello said all.
	Facts      func() wire.Facts
	Remeasured <-chan struct{}
	Held       *Assignment       // from the last life; nil: none
	Stats      func() wire.Stats // the agent about itself, all but BytesSent; nil: it says nothing
	Linger     time.Duration     // at most this long until a frame leaves; default 500 ms
	Backoff    Backoff
	// HomeAfter is how long a session with another than the first server lasts, with
	// jitter, before the first is tried again; default 10 min.
	HomeAfter  time.Duration
	Rand       func() float64 // jitter, in [0, 1); nil: rand.Float64
	RunOutputs RunOutputs     // nil: none
	Requests   Requests       // nil: none
	// RetryNow has a value when the next attempt need not wait any longer. Nil: never.
	RetryNow <-chan struct{}
}

// Backoff is exponential with full jitter: the n-th wait is uniform in
// [0, min(Max, First·2ⁿ)), and never shorter than what the server asked for.
type Backoff struct {
	First, Max time.Duration // defaults 1 s, 60 s
}

// Run keeps a session open until ctx ends, and then says Bye. It returns early only
// for a refusal that no retry can mend (*RefusedError with RetryMs zero).
func Run(ctx context.Context, cfg RunConfig, source Source, events Events) error {
	r := &runner{
		cfg: cfg, base: cfg.Config.complete(), source: source, events: events,
		told: cfg.SavedServers, held: cfg.Held, acked: make(chan struct{}, 1),
	}
	r.began = r.base.Now()
	r.cfg.Linger = cmp.Or(cfg.Linger, 500*time.Millisecond)
	r.cfg.HomeAfter = cmp.Or(cfg.HomeAfter, homeAfter)
	for n, next := 0, 0; ; {
		servers := r.order()
		if len(servers) == 0 {
			return errors.New("BUG: agent without a server to connect to")
		}
		server := servers[next%len(servers)]
		welcomed, err := r.session(ctx, server)
		if ctx.Err() != nil {
			return nil
		}
		r.events.Disconnected(server, ended(err))
		wait, give := r.cfg.Backoff.wait(err, n, r.random())
		if give {
			return err
		}
		if n++; welcomed { // begin again with the server preferred
			n, next = 1, 0
		} else {
			next++
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-cfg.RetryNow:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// wait is how long to wait before attempt n+1 after err; give: not at all.
func (b Backoff) wait(err error, n int, random float64) (wait time.Duration, give bool) {
	first, most := cmp.Or(b.First, time.Second), cmp.Or(b.Max, time.Minute)
	span := most
	if n < 16 {
		span = min(most, first<<n)
	}
	wait = time.Duration(random * float64(span))
	var refused *RefusedError
	var leaving *LeavingError
	switch {
	case errors.As(err, &refused):
		if refused.RetryMs == 0 {
			return 0, true
		}
		wait = max(wait, time.Duration(refused.RetryMs)*time.Millisecond)
	case errors.As(err, &leaving):
		wait = max(wait, leaving.Retry)
	}
	return wait, false
}
