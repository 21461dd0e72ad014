package link

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/wire"
)

// Source is the agent's queue of unsent results on disk, the spool. Its signals are numbered messages, such as
// results. Run calls its methods from one goroutine at a time, except Acked (from the reader) and Notify.
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

// Events has the functions that Run calls to tell the agent about sessions and messages of the server. Run
// calls one at a time.
type Events interface {
	Connected(server string, w *wire.Welcome)
	Disconnected(server string, err error)
	Assigned(s *Session, a *Assignment)
	RunNow(s *Session, r *wire.Run)
	RoundRobinRuns(s *Session, t *wire.RoundRobinRuns)
	Reply(s *Session, x *wire.Exchange)
}

// Outbox is a queue of messages to the server outside the spool, such as outputs of requested runs.
type Outbox[T any] interface {
	// Ready has a value after a message was added; call Next until it returns false.
	Ready() <-chan struct{}
	// Next returns the next message, with at most maxBytes of output. Its bytes are valid until the next call.
	Next(maxBytes int) (message T, ok bool)
}

// RunConfig has the settings of Run, such as servers, delays and callbacks. Config has the settings of each session.
type RunConfig struct {
	Config
	Servers []string // the agent's own, host:port in order of preference
	// TLS returns the configuration of the next session, with a certificate that may have been renewed.
	// Nil: Config.TLS.
	TLS          func() *tls.Config
	SavedServers []string          // servers of the last Welcome, which Run tries first
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
	Rand       func() float64         // jitter, in [0, 1); nil: rand.Float64
	RunOutputs Outbox[wire.RunOutput] // outputs of requested runs, sent after the signals of Source; nil: none
	Requests   Outbox[wire.Exchange]  // requests to the server, sent at once; nil: none
	// RetryNow has a value when the next attempt to connect must not wait. Nil: never.
	RetryNow <-chan struct{}
}

// Backoff computes the delays between connection attempts, which are random and grow exponentially.
type Backoff struct {
	First, Max time.Duration // defaults 1 s, 60 s
}

// Run keeps the agent connected until ctx ends. It opens a session and reopens lost sessions. It returns early only
// for a refusal that forbids a retry (*RefusedError with RetryMs zero).
func Run(ctx context.Context, cfg RunConfig, source Source, events Events) error {
	r := &sessionRunner{
		cfg: cfg, base: cfg.Config.withDefaults(), source: source, Events: events,
		welcomeServers: cfg.SavedServers, assignment: cfg.Assignment, acked: make(chan struct{}, 1),
	}
	r.startedAt = r.base.Now()
	r.cfg.Linger = cmp.Or(cfg.Linger, 500*time.Millisecond)
	r.cfg.HomeAfter = cmp.Or(cfg.HomeAfter, defaultHomeAfter)
	for n, next := 0, 0; ; {
		servers := r.serverOrder()
		if len(servers) == 0 {
			return errors.New("BUG: agent without a server to connect to")
		}
		server := servers[next%len(servers)]
		welcomed, err := r.runSession(ctx, server)
		if ctx.Err() != nil {
			return nil
		}
		r.Disconnected(server, explainLostConnection(err))
		wait, stop := r.cfg.Backoff.delayAfter(err, n, r.randomFraction())
		if stop {
			return err
		}
		if n++; welcomed { // start again with the preferred server
			n, next = 1, 0
		} else {
			next++
		}
		select {
		case <-time.After(wait):
		case <-cfg.RetryNow:
		case <-ctx.Done():
			return nil
		}
	}
}

// delayAfter returns the delay before the next connection attempt, after n attempts and the last error. stop: there is
// no further attempt.
func (b Backoff) delayAfter(err error, n int, random float64) (delayAfter time.Duration, stop bool) {
	span := min(cmp.Or(b.Max, time.Minute), cmp.Or(b.First, time.Second)<<min(n, 16))
	delayAfter = time.Duration(random * float64(span))
	var refused *RefusedError
	var leaving *ServerStoppingError
	switch {
	case errors.As(err, &refused):
		if refused.RetryMs == 0 {
			return 0, true
		}
		delayAfter = max(delayAfter, time.Duration(refused.RetryMs)*time.Millisecond)
	case errors.As(err, &leaving):
		delayAfter = max(delayAfter, leaving.Retry)
	}
	return delayAfter, false
}

// serverOrder returns the servers in the order of connection attempts. The servers of the last message Welcome come
// first, then those in the settings.
func (r *sessionRunner) serverOrder() []string {
	isListed := func(server string) bool { return slices.Contains(r.welcomeServers, server) }
	return slices.Concat(r.welcomeServers, slices.DeleteFunc(slices.Clone(r.cfg.Servers), isListed))
}

// defaultHomeAfter is the default of RunConfig.HomeAfter.
const defaultHomeAfter = 10 * time.Minute

// errPreferredAnswers ends a session because the first server of the order answers again.
var errPreferredAnswers = errors.New("the preferred server is available again")

// pollPreferred tests periodically whether the preferred server can be reached again. It then sends a value on the
// channel `preferred`.
func (r *sessionRunner) pollPreferred(ctx context.Context, server string, preferred chan<- struct{}) {
	for {
		if pause.For(ctx, time.Duration((0.5+r.randomFraction())*float64(r.cfg.HomeAfter))) != nil {
			return
		}
		first := r.preferredServer.Load()
		if first == nil || *first == server {
			continue
		}
		if err := r.base.tryServer(ctx, *first); err != nil {
			r.base.Log.Debug("the preferred server is not available yet", "server", *first, "err", err)
			continue
		}
		pause.Wake(preferred)
		return
	}
}

// tryServer connects to a server, verifies its certificate and closes the connection.
func (c *Config) tryServer(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, c.Handshake)
	defer cancel()
	nc, err := c.Dial(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("connect to server %s: %w", addr, err)
	}
	defer nc.Close()
	_, err = tlsHandshake(ctx, nc, c.TLS, addr)
	return err
}

// Bounds of BackPressure, whatever the server sends: a server that needs more repeats it, and a faulty
// one silences agents for minutes only.
const (
	maxLinger = time.Minute
	maxSlow   = 5 * time.Minute
)

// Pace computes how long the agent collects results before sending a batch. The time is longer while the server asks
// for back-pressure. Times count from any start of the owner's clock. The zero Pace is the usual one. It is not safe
// for concurrent use.
type Pace struct{ linger, first, until time.Duration }

// ApplyBackPressure stores the server's newest request to send results later. It replaces earlier requests; `now` is
// the time of arrival. share is a random number from 0 to 1: the first batch after a usual pace leaves after this
// share of the linger, because all agents get the message at once and would send together.
func (p *Pace) ApplyBackPressure(now time.Duration, m *wire.BackPressure, share float64) {
	if m.LingerMs == 0 || m.LastsMs == 0 { // the usual pace again
		*p = Pace{}
		return
	}
	slow := p.IsSlowed(now)
	if p.linger = min(time.Duration(m.LingerMs)*time.Millisecond, maxLinger); !slow {
		p.first = now + time.Duration(share*float64(p.linger))
	}
	p.until = now + min(time.Duration(m.LastsMs)*time.Millisecond, maxSlow)
}

// IsSlowed reports whether the server's back-pressure is active. Urgent results then wait too.
func (p *Pace) IsSlowed(now time.Duration) bool { return p.lingerAt(now) > 0 }

// lingerAt returns how long a result waits for further results in the same batch, under back-pressure.
func (p *Pace) lingerAt(arrival time.Duration) time.Duration {
	return max(0, p.linger-max(0, arrival-p.until)/wire.BackPressureEasing)
}

// SendTime returns the latest time to send a result, from its arrival time and the usual waiting time. A linger that began under back-pressure outlasts the back-pressure, so that the agents of a fleet do not send
// at the same moment.
func (p *Pace) SendTime(arrival, usual time.Duration) time.Duration {
	due := arrival + p.lingerAt(arrival)
	if arrival <= p.first {
		due = min(due, p.first)
	}
	return max(arrival+usual, due)
}

const (
	statsDelay = 4 * time.Second // longest delay of the first Stats of a session; the shortest is 1 s
	statsEvery = time.Minute     // mean period
)

// statsSchedule has the due time of the session's next Stats message, which carries the agent's counters.
type statsSchedule struct {
	at    time.Time
	first bool // no Stats were sent in this session
}

// newStatsSchedule returns the schedule of Stats messages (the agent's counters) in a new session. The first is due at
// a random time, so that a fleet does not send at once.
func (r *sessionRunner) newStatsSchedule(now time.Time) statsSchedule {
	return statsSchedule{now.Add(time.Second + time.Duration(r.randomFraction()*float64(statsDelay-time.Second))), true}
}

// due reports whether the agent should send its Stats message now. batchSent: a batch has just left.
func (a statsSchedule) due(now time.Time, batchSent bool) bool {
	return (batchSent || a.first) && !now.Before(a.at)
}

// wakeTime returns the earlier of the given time and the due time of the session's first Stats message. Stats
// has the agent's counters.
func (a statsSchedule) wakeTime(other time.Time) time.Time {
	if !a.first {
		return other
	}
	return earlierTime(other, a.at)
}

// sendStats sends the agent's counters to the server if the message Stats is due.
func (r *sessionRunner) sendStats(s *Session, next *statsSchedule, now time.Time, batchSent bool) error {
	if !next.due(now, batchSent) {
		return nil
	}
	*next = statsSchedule{at: now.Add(time.Duration((0.75 + r.randomFraction()/2) * float64(statsEvery)))}
	x := r.cfg.Stats()
	x.BytesSent = r.earlierSentBytes + s.Sent()
	return s.Stats(&x)
}
