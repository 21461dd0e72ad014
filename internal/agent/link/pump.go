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

	"github.com/muster-fleet/muster/internal/wire"
)

const (
	tickEvery  = 5 * time.Second // looks after the connection
	frameBytes = 128 << 10       // of one batch at most: a backlog must not hold up what is live
	frameFull  = 200             // signals that make a frame worth sending at once
)

// runner is the state of Run between sessions, and the Handler of each.
type runner struct {
	cfg    RunConfig
	base   *Config
	source Source
	events Events
	told   []string               // servers, as the last session told
	first  atomic.Pointer[string] // of the order, for lookHome
	held   *Assignment
	began  time.Time // with its monotonic reading

	server    string
	keepalive time.Duration
	acked     chan struct{} // room again, or another pace
	paceMu    sync.Mutex
	pace      Pace   // on the clock that began with the runner
	sent      uint64 // bytes, by sessions before this one

	facts   wire.Facts // what this session knows of the machine
	batch   wire.Batch
	waiting bool // batch was not sent: too much is unacknowledged
}

func (r *runner) random() float64 {
	if r.cfg.Rand != nil {
		return r.cfg.Rand()
	}
	return rand.Float64()
}

// session is one connection from dial to end; welcomed says whether it opened.
func (r *runner) session(ctx context.Context, server string) (welcomed bool, err error) {
	if r.cfg.TLS != nil {
		r.base.TLS = r.cfg.TLS()
	}
	hello := r.cfg.Hello()
	hello.Streams, hello.Backlog = r.source.Streams(), r.source.Backlog()
	r.server, r.waiting = server, false
	r.facts = wire.Facts{Labels: hello.Labels, Facts: hello.Facts, Groups: hello.Groups}
	s, err := Open(ctx, r.base, server, &hello, r.held, r)
	if err != nil {
		return false, err
	}
	ended, home := make(chan error, 1), make(chan struct{}, 1)
	go func() { ended <- s.Read() }()
	looks, stop := context.WithCancel(ctx)
	var looking sync.WaitGroup
	looking.Go(func() { r.lookHome(looks, server, home) })
	err = r.pump(ctx, s, ended, home)
	stop()
	looking.Wait()
	if errors.Is(err, errHome) {
		s.Bye("the agent returns to its first server")
		<-ended
		r.held = s.Held()
		return true, err
	}
	if ctx.Err() != nil {
		_, _ = r.drain(s) // the last results; what is not acknowledged is sent again at the next start
		_ = r.answer(s)
		s.Bye("the agent stops")
	} else {
		s.Close()
	}
	if read := <-ended; err == nil || errors.Is(err, ErrSessionEnded) {
		err = read // it knows why
	}
	r.held = s.Held()
	r.sent += s.Sent()
	return true, err
}

// pump sends what the source has until the session ends. It returns nil when the
// reader has ended, leaving its error in ended.
func (r *runner) pump(ctx context.Context, s *Session, ended chan error, home <-chan struct{}) error {
	now := r.base.Now()
	sent, tick := now, now.Add(tickEvery)
	about := r.aboutItself(now)
	var lingering time.Time // since when something waits; zero: nothing does
	timer := time.NewTimer(0)
	defer timer.Stop()
	var answers <-chan struct{}
	if r.cfg.RunOutputs != nil {
		answers = r.cfg.RunOutputs.Ready()
	}
	var asks <-chan struct{}
	if r.cfg.Requests != nil {
		asks = r.cfg.Requests.Ready()
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			ended <- err
			return nil
		case <-home:
			return errHome
		case <-r.source.Notify():
		case <-r.acked:
		case <-answers:
		case <-asks:
			if err := r.askAll(s); err != nil {
				return err
			}
		case <-s.room:
		case <-timer.C:
		case <-r.cfg.Remeasured:
			if err := r.tellFacts(s); err != nil {
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
			sent, lingering = now, now.Add(-time.Hour)
		}
		signals, urgent := r.source.Waiting()
		switch {
		case signals == 0 && !r.waiting:
			lingering = time.Time{}
		case lingering.IsZero():
			lingering = now
		}
		due, slow := r.due(now, lingering)
		if r.waiting || signals > 0 && (urgent && !slow || signals >= frameFull && !slow || !now.Before(due)) {
			any, err := r.drain(s)
			if err != nil {
				return err
			}
			if any {
				sent = now
			}
			lingering, due = time.Time{}, time.Time{}
		}
		if err := r.answer(s); err != nil {
			return err
		}
		if about.due(now, sent == now) {
			if err := about.tell(s, now); err != nil {
				return err
			}
		}
		timer.Reset(about.wait(now, r.next(now, tick, sent, due)))
	}
}

// askAll asks what the agent wants to know.
func (r *runner) askAll(s *Session) error {
	for {
		x, ok := r.cfg.Requests.Next()
		if !ok {
			return nil
		}
		if err := s.Exchange(&x); err != nil {
			return err
		}
	}
}

// tellFacts says anew what is true of the machine, where the session knows otherwise.
func (r *runner) tellFacts(s *Session) error {
	now := r.cfg.Facts()
	if maps.Equal(now.Facts, r.facts.Facts) && maps.Equal(now.Labels, r.facts.Labels) && slices.Equal(now.Groups, r.facts.Groups) {
		return nil
	}
	r.facts = now
	return s.SendFacts(&now)
}

// next is how long nothing is to be done by itself.
func (r *runner) next(now, tick, sent, due time.Time) time.Duration {
	wait := tick.Sub(now)
	if r.keepalive > 0 {
		wait = min(wait, r.keepalive-now.Sub(sent))
	}
	if !due.IsZero() {
		wait = min(wait, due.Sub(now))
	}
	return max(wait, time.Millisecond)
}

// due is when what waits since lingering leaves (zero: nothing waits), and whether nothing
// leaves before that.
func (r *runner) due(now, lingering time.Time) (due time.Time, slow bool) {
	r.paceMu.Lock()
	defer r.paceMu.Unlock()
	if !lingering.IsZero() {
		due = r.began.Add(r.pace.Due(lingering.Sub(r.began), r.cfg.Linger))
	}
	return due, r.pace.Slow(now.Sub(r.began))
}

// ask changes the pace, and has the pump look at it; slow: it was slow before.
func (r *runner) ask(m *wire.BackPressure) (slow bool) {
	now := r.base.Now().Sub(r.began)
	r.paceMu.Lock()
	slow = r.pace.Slow(now)
	r.pace.Ask(now, m, r.random())
	r.paceMu.Unlock()
	select {
	case r.acked <- struct{}{}:
	default:
	}
	return slow
}

// drain sends until the source is empty or the server has enough to acknowledge.
func (r *runner) drain(s *Session) (any bool, err error) {
	for {
		if !r.waiting {
			most := s.MaxBatch() - frameRoom
			more, err := r.source.Next(&r.batch, min(frameBytes, most), wire.MaxSignals)
			if err != nil || !more {
				return any, err
			}
			fit(&r.batch, most)
		}
		err := s.Send(&r.batch)
		r.waiting = errors.Is(err, ErrWindowFull)
		switch {
		case r.waiting:
			return any, nil
		case err != nil:
			return any, err
		}
		any = true
	}
}

// answerPiece is how much output one answer carries at most, in bytes: results that come
// meanwhile wait for no more than that.
const answerPiece = 16 << 10

// answer sends what was asked for, until it is all sent, something more urgent has come, or
// the server has enough of it on its way.
func (r *runner) answer(s *Session) error {
	for r.cfg.RunOutputs != nil && s.answerable() {
		ran, ok := r.cfg.RunOutputs.Next(min(answerPiece, s.MaxBatch()-frameRoom))
		if !ok {
			return nil
		}
		if err := s.Answer(&ran); err != nil {
			return err
		}
		if signals, urgent := r.source.Waiting(); urgent || signals >= frameFull {
			if _, err := r.drain(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// frameRoom is what a frame needs beside the output of its one signal, at most.
const frameRoom = 256

// fit shortens a result that no frame of this server can carry: first its extra fields go, then
// the end of its output. It was spooled before the limit was known, and must not hold up for ever
// what follows it.
func fit(b *wire.Batch, most int) {
	if len(b.Signals) != 1 || len(b.Signals[0].Body) <= most || b.Signals[0].Kind != wire.SignalResult {
		return
	}
	var r wire.Result
	if r.Decode(b.Signals[0].Body) != nil {
		return // the server refuses it
	}
	if r.Extra = nil; len(r.Output) > most {
		keep := max(most, 0)
		for keep > 0 && !utf8.RuneStart(r.Output[keep]) {
			keep--
		}
		r.Cut += uint64(len(r.Output) - keep)
		r.Output = r.Output[:keep]
	}
	b.Signals[0] = wire.ResultSignal(b.Signals[0], r)
}

// Welcomed implements Handler.
func (r *runner) Welcomed(_ *Session, w *wire.Welcome) {
	r.keepalive = time.Duration(w.KeepaliveMs) * time.Millisecond
	r.ask(&wire.BackPressure{})
	r.told = append([]string(nil), w.Servers...)
	r.first.Store(&r.order()[0])
	if err := r.source.Resume(w.Last); err != nil {
		r.base.Log.Error("resume the spool", "error", err)
	}
	r.events.Connected(r.server, w)
}

// Assigned implements Handler.
func (r *runner) Assigned(_ *Session, held *Assignment) { r.events.Assigned(held) }

// Acked implements Handler.
func (r *runner) Acked(_ *Session, ack *wire.Ack) {
	r.source.Acked(ack)
	select {
	case r.acked <- struct{}{}:
	default:
	}
}

// RunNow implements Handler.
func (r *runner) RunNow(_ *Session, asked *wire.Run) { r.events.RunNow(asked) }

// Turn implements Handler.
func (r *runner) Turn(_ *Session, t *wire.Turn) { r.events.Turn(t) }

// Reply implements Handler.
func (r *runner) Reply(_ *Session, x *wire.Exchange) { r.events.Reply(x) }

// BackPressure implements Handler.
func (r *runner) BackPressure(_ *Session, m *wire.BackPressure) {
	level := slog.LevelInfo
	if r.ask(m) { // it is said again and again while it is needed
		level = slog.LevelDebug
	}
	r.base.Log.Log(context.Background(), level, "server asks for rarer batches", "lingerMs", m.LingerMs, "lastsMs", m.LastsMs, "reason", m.Reason)
}

// Leaving implements Handler.
func (r *runner) Leaving(_ *Session, retry time.Duration, reason string) {
	r.base.Log.Info("server goes away", "retry", retry, "reason", reason)
}
