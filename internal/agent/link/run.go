package link

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"time"

	"github.com/muster-fleet/muster/internal/wire"
)

// Source is the spool as the link reads it. Run calls it from one goroutine at a time, except Acked
// (from the reader) and Notify.
type Source interface {
	// Streams and Backlog fill Hello.
	Streams() []wire.StreamRange
	Backlog() uint64
	// Resume starts a session: the server has all numbers up to last, later ones are sent again.
	Resume(last []wire.StreamLast) error
	// Next fills b with the next consecutive signals of one stream (live first) or with a gap, and
	// returns false where there is nothing to send. b aliases memory that is valid until the next call.
	Next(b *wire.Batch, maxBytes, maxSignals int) (bool, error)
	// Unsent returns the number of unsent signals, and whether one of them must leave at once
	// (a status changed).
	Unsent() (signals int, urgent bool)
	// Notify has a value after a signal was added.
	Notify() <-chan struct{}
	// Keepalive adds a keepalive signal, after an interval without signals.
	Keepalive() error
	// Acked drops the signals that the server has, and those that it refused for good.
	Acked(ack *wire.Ack)
}

// Events are the callbacks into the agent. Run calls one at a time.
type Events interface {
	Connected(server string, w *wire.Welcome)
	Disconnected(server string, err error)
	Assigned(held *Assignment)
	RunNow(r *wire.Run)
	Turn(t *wire.Turn)
	Reply(x *wire.Exchange)
}

// Requests are the agent's requests to the server. They leave at once.
type Requests interface {
	// Ready has a value after a request was added.
	Ready() <-chan struct{}
	// Next returns the next request; false: there is none. Call it until then: Ready signals once.
	Next() (wire.Exchange, bool)
}

// RunOutputs are the outputs of requested runs. They leave after the signals of Source.
type RunOutputs interface {
	// Ready has a value after output was added.
	Ready() <-chan struct{}
	// Next returns the next piece, with at most maxBytes of output; false: there is none. The output is
	// valid until the next call. Call it until then: Ready signals once.
	Next(maxBytes int) (wire.RunOutput, bool)
}

// RunConfig adds to Config the settings of a long-lived agent.
type RunConfig struct {
	Config
	Servers []string // the agent's own, host:port in order of preference
	// TLS returns the configuration of the next session, with a certificate that may have been renewed.
	// Nil: Config.TLS.
	TLS          func() *tls.Config
	SavedServers []string          // of the last Welcome: tried first
	Hello        func() wire.Hello // without Node, Protocol, Session, Streams, Backlog, Assignment
	// Facts returns the present facts; FactsChanged has a value after they changed. Nil: the facts of
	// Hello never change.
	Facts        func() wire.Facts
	FactsChanged <-chan struct{}
	Assignment   *Assignment       // stored by the last run of the agent; nil: none
	Stats        func() wire.Stats // without BytesSent; nil: none are sent
	Linger       time.Duration     // longest delay of a frame; default 500 ms
	Backoff      Backoff
	// HomeAfter is the period in which a session with another server than the first tries that one, with
	// jitter; default 10 min.
	HomeAfter  time.Duration
	Rand       func() float64 // jitter, in [0, 1); nil: rand.Float64
	RunOutputs RunOutputs     // nil: none
	Requests   Requests       // nil: none
	// RetryNow has a value when the next attempt to connect must not wait. Nil: never.
	RetryNow <-chan struct{}
}

// Backoff is exponential with full jitter: the n-th wait is uniform in [0, min(Max, First·2ⁿ)), and
// never shorter than the server's RetryMs.
type Backoff struct {
	First, Max time.Duration // defaults 1 s, 60 s
}

// Run keeps a session open until ctx ends, and then sends Bye. It returns early only for a refusal
// that forbids a retry (*RefusedError with RetryMs zero).
func Run(ctx context.Context, cfg RunConfig, source Source, events Events) error {
	r := &runner{
		cfg: cfg, base: cfg.Config.complete(), source: source, events: events,
		told: cfg.SavedServers, held: cfg.Assignment, acked: make(chan struct{}, 1),
	}
	r.began = r.base.Now()
	r.cfg.Linger = cmp.Or(cfg.Linger, 500*time.Millisecond)
	r.cfg.HomeAfter = cmp.Or(cfg.HomeAfter, defaultHomeAfter)
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
		r.events.Disconnected(server, explainEnd(err))
		wait, stop := r.cfg.Backoff.wait(err, n, r.random())
		if stop {
			return err
		}
		if n++; welcomed { // start again with the preferred server
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

// wait returns the delay before attempt n+1 after err. stop: there is no further attempt.
func (b Backoff) wait(err error, n int, random float64) (wait time.Duration, stop bool) {
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
