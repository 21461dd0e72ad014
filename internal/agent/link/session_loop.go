package link

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/wire"
)

const (
	tickEvery  = 5 * time.Second // period of Session.Tick
	frameBytes = 128 << 10       // longest batch: a backlog must not delay live signals for long
	frameFull  = 200             // signals that fill a frame: it is sent at once
)

// sessionRunner keeps the agent connected and handles the server's messages. It opens one session after another.
type sessionRunner struct {
	cfg    RunConfig
	base   *Config
	source Source
	Events // receives the messages that runner does not handle itself

	welcomeServers  []string               // servers of the last Welcome
	preferredServer atomic.Pointer[string] // the first server to try, for pollPreferred
	assignment      *Assignment            // in force; nil: none
	startedAt       time.Time              // with its monotonic reading

	server           string
	keepalive        time.Duration
	acked            chan struct{} // capacity 1: an acknowledgement freed the window, or the pace changed
	paceMu           sync.Mutex
	pace             Pace   // its times count from sessionRunner.began
	earlierSentBytes uint64 // bytes that earlier sessions sent

	facts      wire.Facts // the facts that the server has from this session
	batch      wire.Batch
	batchWaits bool // the batch is not sent yet, because the window is full
}

// randomFraction returns a random number between 0 and 1.
func (r *sessionRunner) randomFraction() float64 {
	if r.cfg.Rand != nil {
		return r.cfg.Rand()
	}
	return rand.Float64()
}

// runSession runs one session from the connection to its end. welcomed is true if the server accepted the session.
func (r *sessionRunner) runSession(ctx context.Context, server string) (welcomed bool, err error) {
	if r.cfg.TLS != nil {
		r.base.TLS = r.cfg.TLS()
	}
	hello := r.cfg.Hello()
	hello.Streams, hello.Backlog = r.source.Streams(), r.source.Backlog()
	r.server, r.batchWaits = server, false
	r.facts = wire.Facts{Labels: hello.Labels, Facts: hello.Facts, Groups: hello.Groups}
	s, err := Open(ctx, r.base, server, &hello, r.assignment, r)
	if err != nil {
		return false, err
	}
	ended, preferred := make(chan error, 1), make(chan struct{}, 1)
	go func() { ended <- s.Read() }()
	watchCtx, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { r.pollPreferred(watchCtx, server, preferred) })
	err = r.sendUntilEnd(ctx, s, ended, preferred)
	stop()
	watcher.Wait()
	if errors.Is(err, errPreferredAnswers) {
		s.Bye("the agent returns to the preferred server")
		<-ended
		r.assignment = s.Assignment()
		return true, err
	}
	if ctx.Err() != nil {
		_, _ = r.sendBatches(s) // the last results; unacknowledged ones are sent again after the next start
		_ = r.sendRunOutputs(s)
		s.Bye("the agent stops")
	} else {
		s.Close()
	}
	if read := <-ended; err == nil || errors.Is(err, ErrSessionEnded) {
		err = read // the reader knows the cause of the end
	}
	r.assignment = s.Assignment()
	r.earlierSentBytes += s.Sent()
	return true, err
}

// sendUntilEnd sends results, keepalives, outputs of requested runs, requests, facts and Stats messages until the
// session ends. It returns nil when the reader has ended, and leaves its error in ended.
func (r *sessionRunner) sendUntilEnd(ctx context.Context, s *Session, ended chan error, preferred <-chan struct{}) error {
	now := r.base.Now()
	sent, tick := now, now.Add(tickEvery)
	stats := r.newStatsSchedule(now)
	var oldest time.Time // arrival of the oldest unsent signal; zero: no signal is unsent
	timer := time.NewTimer(0)
	defer timer.Stop()
	var outputs, requests <-chan struct{}
	if r.cfg.RunOutputs != nil {
		outputs = r.cfg.RunOutputs.Ready()
	}
	if r.cfg.Requests != nil {
		requests = r.cfg.Requests.Ready()
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			ended <- err
			return nil
		case <-preferred:
			return errPreferredAnswers
		case <-r.source.Notify():
		case <-r.acked:
		case <-outputs:
		case <-requests:
			if err := r.sendRequests(s); err != nil {
				return err
			}
		case <-s.windowOpened:
		case <-timer.C:
		case <-r.cfg.FactsChanged:
			if err := r.sendFacts(s); err != nil {
				return err
			}
		}
		now = r.base.Now()
		if !now.Before(tick) {
			s.Tick(now)
			tick = now.Add(tickEvery)
		}
		if r.keepalive > 0 && now.Sub(sent) >= r.keepalive {
			if err := r.source.Keepalive(); err != nil {
				return err
			}
			sent, oldest = now, now.Add(-time.Hour)
		}
		signals, urgent := r.source.Unsent()
		switch {
		case signals == 0 && !r.batchWaits:
			oldest = time.Time{}
		case oldest.IsZero():
			oldest = now
		}
		due, slowed := r.sendTime(now, oldest)
		if r.batchWaits || signals > 0 && (!slowed && (urgent || signals >= frameFull) || !now.Before(due)) {
			sentAny, err := r.sendBatches(s)
			if err != nil {
				return err
			}
			if sentAny {
				sent = now
			}
			oldest, due = time.Time{}, time.Time{}
		}
		if err := r.sendRunOutputs(s); err != nil {
			return err
		}
		next := tick
		if r.cfg.Stats != nil {
			if err := r.sendStats(s, &stats, now, sent == now); err != nil {
				return err
			}
			next = stats.wakeTime(next)
		}
		if r.keepalive > 0 {
			next = earlierTime(next, sent.Add(r.keepalive))
		}
		if !due.IsZero() {
			next = earlierTime(next, due)
		}
		timer.Reset(max(next.Sub(now), time.Millisecond))
	}
}

// earlierTime returns the earlier of two times.
func earlierTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// sendRequests sends all waiting requests to the server.
func (r *sessionRunner) sendRequests(s *Session) error {
	for {
		x, ok := r.cfg.Requests.Next(0)
		if !ok {
			return nil
		}
		if err := s.SendRequest(&x); err != nil {
			return err
		}
	}
}

// sendFacts sends the machine's facts, labels and groups if the server has older values.
func (r *sessionRunner) sendFacts(s *Session) error {
	now := r.cfg.Facts()
	if maps.Equal(now.Facts, r.facts.Facts) && maps.Equal(now.Labels, r.facts.Labels) && slices.Equal(now.Groups, r.facts.Groups) {
		return nil
	}
	r.facts = now
	return s.SendFacts(&now)
}

// sendTime returns the latest time to send the next batch of results. The time depends on the arrival of the oldest
// unsent result; zero means that nothing is unsent. slowed reports back-pressure, which delays urgent signals, too.
func (r *sessionRunner) sendTime(now, oldest time.Time) (due time.Time, slowed bool) {
	r.paceMu.Lock()
	defer r.paceMu.Unlock()
	if !oldest.IsZero() {
		due = r.startedAt.Add(r.pace.SendTime(oldest.Sub(r.startedAt), r.cfg.Linger))
	}
	return due, r.pace.IsSlowed(now.Sub(r.startedAt))
}

// setPace applies the server's message BackPressure (send more slowly) and wakes the sending goroutine. slowed: it was
// under back-pressure before.
func (r *sessionRunner) setPace(m *wire.BackPressure) (slowed bool) {
	now := r.base.Now().Sub(r.startedAt)
	r.paceMu.Lock()
	slowed = r.pace.IsSlowed(now)
	r.pace.ApplyBackPressure(now, m, r.randomFraction())
	r.paceMu.Unlock()
	pause.Wake(r.acked)
	return slowed
}

// sendBatches sends batches of results until all are sent or too many bytes are unacknowledged. sent is true if it sent
// at least one batch.
func (r *sessionRunner) sendBatches(s *Session) (sent bool, err error) {
	for {
		if !r.batchWaits {
			most := s.MaxBatch() - frameRoom
			more, err := r.source.Next(&r.batch, min(frameBytes, most), wire.MaxSignals)
			if err != nil || !more {
				return sent, err
			}
			shortenResult(&r.batch, most)
		}
		err := s.Send(&r.batch)
		if r.batchWaits = errors.Is(err, ErrWindowFull); r.batchWaits {
			return sent, nil
		}
		if err != nil {
			return sent, err
		}
		sent = true
	}
}

// runOutputBytes is the longest output in one RunOutput, so that results wait for one piece at most.
const runOutputBytes = 16 << 10

// sendRunOutputs sends output of requested runs until too much output is unacknowledged. Urgent results go first.
func (r *sessionRunner) sendRunOutputs(s *Session) error {
	for r.cfg.RunOutputs != nil && s.maySendOutput() {
		ran, ok := r.cfg.RunOutputs.Next(min(runOutputBytes, s.MaxBatch()-frameRoom))
		if !ok {
			return nil
		}
		if err := s.SendRunOutput(&ran); err != nil {
			return err
		}
		if signals, urgent := r.source.Unsent(); urgent || signals >= frameFull {
			if _, err := r.sendBatches(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// frameRoom is the longest head of a frame in bytes: the frame without the body of its signal.
const frameRoom = 256

// shortenResult shortens a result above the server's maximum message size. It drops samples and extra fields first, then the
// end of the output. Such a result was spooled before the limit was known, and would block all later signals.
func shortenResult(b *wire.Batch, most int) {
	if len(b.Signals) != 1 || len(b.Signals[0].Body) <= most || b.Signals[0].Kind != wire.SignalResult {
		return
	}
	var r wire.Result
	if r.Decode(b.Signals[0].Body) != nil {
		return // malformed: the server refuses it
	}
	if r.Extra, r.Samples = nil, nil; len(r.Output) > most {
		keep := max(most, 0)
		for keep > 0 && !utf8.RuneStart(r.Output[keep]) {
			keep--
		}
		r.Cut += uint64(len(r.Output) - keep)
		r.Output = r.Output[:keep]
	}
	b.Signals[0] = wire.ResultSignal(b.Signals[0], r)
}

// OpenedSession stores the settings for the new session from Welcome, the server's first message.
func (r *sessionRunner) OpenedSession(_ *Session, w *wire.Welcome) {
	r.keepalive = time.Duration(w.KeepaliveMs) * time.Millisecond
	r.setPace(&wire.BackPressure{})
	r.welcomeServers = slices.Clone(w.Servers)
	r.preferredServer.Store(&r.serverOrder()[0])
	if err := r.source.Resume(w.Last); err != nil {
		r.base.Log.Error("resume the spool", "error", err)
	}
	r.Connected(r.server, w)
}

// Acked removes acknowledged results from the spool and wakes the goroutine that sends more
func (r *sessionRunner) Acked(_ *Session, ack *wire.Ack) {
	r.source.Acked(ack)
	pause.Wake(r.acked)
}

// BackPressure slows down or speeds up the sending of batches, as the server requests.
func (r *sessionRunner) BackPressure(_ *Session, m *wire.BackPressure) {
	level := slog.LevelInfo
	if r.setPace(m) { // the server repeats a BackPressure that holds
		level = slog.LevelDebug
	}
	r.base.Log.Log(context.Background(), level, "back-pressure: the server asks for fewer, larger batches", "lingerMs", m.LingerMs, "lastsMs", m.LastsMs, "reason", m.Reason)
}

// ServerStops logs that the server ends the session because of its own stop.
func (r *sessionRunner) ServerStops(_ *Session, retry time.Duration, reason string) {
	r.base.Log.Info("the server ended the session", "retry", retry, "reason", reason)
}
