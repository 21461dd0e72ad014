package join

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// Lead is the loader that leads a run. It implements load.Others.
type Lead struct {
	loaders   int // all, this one included
	token     Token
	listener  net.Listener
	base      time.Time // of its clock
	end       context.CancelCauseFunc
	say       func(format string, args ...any)
	readers   sync.WaitGroup
	closeOnce sync.Once

	awaited
	peers     []*peer // those that have joined, in order of their numbers
	questions uint64  // about clocks
	done      *over   // the run is over: nobody is lost any more
	onStop    func(who string)
}

// peer is one follower. What it said is guarded by the lead's lock.
type peer struct {
	conn    *conn
	number  int // from 1, once all have joined
	name    string
	machine string

	clock     offset
	answer    clock
	answered  time.Duration
	prepared  *prepared
	arrived   *load.Arrived
	presence  load.Presence
	seconds   map[int]*observe.CheckSecond // that nobody has taken yet
	stretches map[int]*load.Stretch
	measured  *load.Measured
	finished  bool
}

// Listen opens the address that others join at, for a run of so many loaders. The run is
// to be played within Context, which ends with ctx, and when a follower is lost. say hears
// who joins, and who was refused. The caller closes it.
func Listen(ctx context.Context, address string, loaders int, say func(format string, args ...any)) (*Lead, error) {
	certificate, sum, err := newCertificate()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, model.Errorf(model.Unavailable, "listen for other loaders: %w", err).WithHint("--listen-join 127.0.0.1:0, or an address of this machine that they reach")
	}
	l := &Lead{loaders: loaders, base: time.Now(), say: say, onStop: func(string) {}, awaited: awaited{changed: make(chan struct{})},
		listener: tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}})}
	l.token = Token{Address: listener.Addr().String(), Sum: sum}
	_, _ = rand.Read(l.token.Secret[:]) // never fails
	l.ctx, l.end = context.WithCancelCause(ctx)
	context.AfterFunc(l.ctx, l.hangUp)
	return l, nil
}

// Token is what the others join with.
func (l *Lead) Token() string { return l.token.String() }

// Context ends when the run cannot go on; its cause says why.
func (l *Lead) Context() context.Context { return l.ctx }

// OnStop hears which follower wants the run to end its present phase. Call it before Gather.
func (l *Lead) OnStop(ask func(who string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onStop = ask
}

// Gather waits until all have joined.
func (l *Lead) Gather() error {
	go l.serve()
	l.readers.Go(l.live)
	err := l.await(l.ctx, func() bool {
		for i, p := range l.peers {
			if len(l.peers) == l.loaders-1 {
				p.number = i + 1
			}
		}
		return len(l.peers) == l.loaders-1
	})
	_ = l.listener.Close() // who comes now is too late
	if err != nil {
		return err
	}
	for _, p := range l.all() {
		if err := p.conn.send(kindWelcome, welcome{Number: p.number, Of: l.loaders}); err != nil {
			return l.broken(l.ctx, p, err)
		}
	}
	return l.compare(l.ctx)
}

// live says every second that this loader lives.
func (l *Lead) live() {
	turn := time.NewTicker(aliveEvery)
	defer turn.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-turn.C:
		}
		l.tell(kindAlive, nil)
	}
}

// tell says the same to all. Who does not hear it is lost, which its reader notes.
func (l *Lead) tell(kind string, body any) {
	for _, p := range l.all() {
		_ = p.conn.send(kind, body)
	}
}

func (l *Lead) all() []*peer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*peer(nil), l.peers...)
}

// since is the lead's clock.
func (l *Lead) since() time.Duration { return time.Since(l.base) }

// Over tells the others that all is compared: their agents may leave.
func (l *Lead) Over(rep *report.Report) {
	done := over{OK: rep.OK(), Stopped: rep.OnlyStopped(), Verdict: rep.Verdict}
	l.mu.Lock()
	l.done = &done
	l.mu.Unlock()
	l.tell(kindOver, done)
}

// Close ends what is open; a run that is not over ends for the others, too.
func (l *Lead) Close() {
	l.closeOnce.Do(func() {
		l.end(model.Errorf(model.Unavailable, "the loader that leads has left the run"))
		l.hangUp()
		l.readers.Wait()
	})
}

// hangUp tells all why the run is over, and ends the connections.
func (l *Lead) hangUp() {
	_ = l.listener.Close()
	l.mu.Lock()
	peers, done := append([]*peer(nil), l.peers...), l.done
	l.mu.Unlock()
	for _, p := range peers {
		if done == nil {
			_ = p.conn.send(kindFailed, failure(reason(l.ctx, "the loader that leads")))
		}
		_ = p.conn.Close()
	}
}

// Fail ends the run for all, and returns why it could not be played: who was lost, where
// somebody was, else err.
func (l *Lead) Fail(err error) error {
	l.end(err)
	var said *model.Error
	if errors.As(context.Cause(l.ctx), &said) {
		return said
	}
	return err
}

// reason is why a context ended, for others; who is whose it is.
func reason(ctx context.Context, who string) error {
	var said *model.Error
	if err := context.Cause(ctx); errors.As(err, &said) {
		return said
	}
	return model.Errorf(model.Unavailable, "%s was interrupted", who)
}

var _ load.Others = (*Lead)(nil)
