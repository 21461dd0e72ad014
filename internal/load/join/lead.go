package join

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/version"
)

// Lead is the loader that leads a run. It implements load.Joint (follower_reports.go).
type Lead struct {
	load.Alone
	loaders     int // all, this one included
	token       Token
	listener    net.Listener
	server      *http.Server
	base        time.Time // of its clock
	end         context.CancelCauseFunc
	say         func(format string, args ...any)
	requests    sync.WaitGroup
	once        sync.Once
	uncertainty time.Duration // of the clocks of the followers

	monitor
	peers  []*peer // in order of their numbers, once all have joined
	over   bool    // no peer is lost any more
	closed bool    // no request is served any more
	onStop func(who string)
}

// peer is one follower. The lock of the lead guards its reports.
type peer struct {
	hello
	number int           // from 1, once all have joined
	orders chan order    // for its stream
	gone   chan struct{} // closed with its stream
	leave  context.CancelCauseFunc
	silent *time.Timer

	clock    *time.Duration
	prepared *string
	arrived  *load.Arrived
	lines    []observe.Line // until Lines takes them
	finished bool
}

// Listen opens an address for the followers of a run with this number of loaders. The run is played within Context: it
// ends with ctx, and when a follower is lost. say reports who joins and who is refused. The caller closes the lead.
func Listen(ctx context.Context, address string, loaders int, say func(format string, args ...any)) (*Lead, error) {
	certificate, sum, err := newCertificate()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, model.Errorf(model.Unavailable, "listen for other loaders: %w", err).WithHint("--listen-join 127.0.0.1:0, or an address of this machine that they reach")
	}
	l := &Lead{loaders: loaders, base: time.Now(), say: say, onStop: func(string) {}, monitor: monitor{changed: make(chan struct{})}, token: Token{Address: listener.Addr().String(), Sum: sum}}
	_, _ = rand.Read(l.token.Secret[:]) // never fails
	l.ctx, l.end = context.WithCancelCause(ctx)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /join", l.serveJoin)
	mux.HandleFunc("POST /report", l.serveReport)
	mux.HandleFunc("GET /clock", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(l.now()) })
	l.server = &http.Server{Handler: l.authorized(mux), ReadTimeout: silence, MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}}}
	l.listener = netutil.LimitListener(listener, mostConnections)
	go func() { _ = l.server.ServeTLS(l.listener, "", "") }() // with HTTP/2: a follower has one connection
	return l, nil
}

// Token returns the argument of muster load join.
func (l *Lead) Token() string { return l.token.String() }

// Context ends when the run cannot go on; its cause is the reason.
func (l *Lead) Context() context.Context { return l.ctx }

// OnStop sets the function that a request to end the present phase calls. Call it before Gather.
func (l *Lead) OnStop(ask func(who string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onStop = ask
}

// Gather waits until all have joined and compared their clocks. Then nobody can connect any more.
func (l *Lead) Gather() error {
	var peers []*peer
	err := l.await(l.ctx, func() bool {
		if len(l.peers) < l.loaders-1 {
			return false
		}
		peers = slices.Clone(l.peers)
		for i, p := range peers {
			p.number = i + 1
		}
		return true
	})
	if err != nil {
		return err
	}
	for _, p := range peers {
		p.send(order{Welcome: &welcome{Number: p.number, Of: l.loaders}})
	}
	err = l.await(l.ctx, func() bool { return !slices.ContainsFunc(peers, func(p *peer) bool { return p.clock == nil }) })
	_ = l.listener.Close()
	return err
}

// authorized refuses requests without the secret of the token. It reads nothing else of them.
func (l *Lead) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l.enter() {
			writeFailure(w, model.Errorf(model.Unavailable, "the run is over"))
			return
		}
		defer l.requests.Done()
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(l.token.authorization())) != 1 {
			l.refuse(w, r, model.Errorf(model.Unauthenticated, "the token is of another run").WithHint("paste the token that this run printed: it is new for each"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuse answers a request with an error, and reports the refusal.
func (l *Lead) refuse(w http.ResponseWriter, r *http.Request, err error) {
	l.say("refused %s: %v", r.RemoteAddr, err)
	writeFailure(w, err)
}

// writeFailure writes an error as the answer.
func writeFailure(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(model.ClassOf(err).HTTP())
	_ = json.NewEncoder(w).Encode(newFailure(err))
}

// serveJoin admits a follower, and streams its orders until it leaves or the run is over.
func (l *Lead) serveJoin(w http.ResponseWriter, r *http.Request) {
	h, err := decode[hello](http.MaxBytesReader(w, r.Body, mostMessage))
	if err != nil || h.ID == "" {
		l.refuse(w, r, model.Errorf(model.Invalid, "the body of POST /join is not that of a loader"))
		return
	}
	if h.Version != Version {
		l.refuse(w, r, model.Errorf(model.Unsupported, "the lead has version %d of the protocol (muster %s), and this loader has version %d (muster %s)", Version, version.Get().Version, h.Version, cmp.Or(h.Build, "?")).
			WithHint("use the same version on both machines"))
		return
	}
	ctx, leave := context.WithCancelCause(r.Context())
	p := &peer{hello: h, orders: make(chan order, 16), gone: make(chan struct{}), leave: leave}
	p.silent = time.AfterFunc(silence, func() { leave(errSilent) })
	defer p.silent.Stop()
	n, ok := l.add(p)
	if !ok {
		l.refuse(w, r, model.Errorf(model.Conflict, "the run has all of its %d loaders", l.loaders))
		return
	}
	l.say("loader %d of %d: %s%s", n, l.loaders, p.Name, locality(p.Machine == machineID()))
	err = l.stream(ctx, w, p)
	close(p.gone)
	l.lose(p, err)
}

// enter counts a request that Close waits for; it returns false after Close. The server does not wait for the handlers
// of HTTP/2.
func (l *Lead) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.requests.Add(1)
	}
	return !l.closed
}

// add adds a follower to the run, and returns its index, or false if the run is full.
func (l *Lead) add(p *peer) (place int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.peers) >= l.loaders-1 || l.ctx.Err() != nil {
		return 0, false
	}
	l.peers = append(l.peers, p)
	l.change()
	return len(l.peers) + 1, true
}

// stream writes orders until the follower leaves or the run is over.
func (l *Lead) stream(ctx context.Context, w http.ResponseWriter, p *peer) error {
	control := http.NewResponseController(w)
	write := func(o order) error {
		data, err := json.Marshal(o)
		if err == nil && len(data) > mostMessage {
			err = model.Errorf(model.TooLarge, "an order of %d bytes: at most %d are allowed", len(data), mostMessage)
		}
		if err != nil {
			return err
		}
		_ = control.SetWriteDeadline(time.Now().Add(silence))
		if _, err := w.Write(data); err != nil {
			return err
		}
		return control.Flush()
	}
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	err := write(order{})
	for err == nil {
		select {
		case o := <-p.orders:
			err = write(o)
		case <-alive.C:
			err = write(order{})
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.ctx.Done():
			return l.leaveTaking(p, write)
		}
	}
	return err
}

// leaveTaking writes a follower the remaining orders, and the reason if the run is not over.
func (l *Lead) leaveTaking(p *peer, write func(order) error) error {
	for {
		select {
		case o := <-p.orders:
			if err := write(o); err != nil {
				return err
			}
			continue
		default:
		}
		l.mu.Lock()
		over := l.over
		l.mu.Unlock()
		if over {
			return nil
		}
		return write(order{Failed: newFailure(causeOf(l.ctx, "the loader that leads"))})
	}
}

// send queues an order; a full queue blocks until the follower reads, or is lost.
func (p *peer) send(o order) {
	select {
	case p.orders <- o:
	case <-p.gone:
	}
}

// sendAll queues an order for all followers.
func (l *Lead) sendAll(o order) {
	for _, p := range l.all() {
		p.send(o)
	}
}

// all returns the followers.
func (l *Lead) all() []*peer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.peers)
}

// now returns the time by the lead's clock.
func (l *Lead) now() time.Duration { return time.Since(l.base) }

// lose handles the end of a follower's stream. Before all have joined, another follower may join in its stead; later the run ends.
func (l *Lead) lose(p *peer, err error) {
	l.mu.Lock()
	over, early := l.over, p.number == 0
	if early {
		l.peers = slices.DeleteFunc(l.peers, func(x *peer) bool { return x == p })
		l.change()
	}
	l.mu.Unlock()
	var reported *peerFailure
	switch {
	case over || l.ctx.Err() != nil:
	case early:
		l.say("%s left before the run began: %v", p.Name, err)
	case errors.As(err, &reported):
		l.end(reported.from(p.who(l) + ": "))
	default:
		l.end(model.Errorf(model.Unavailable, "%s was lost: %s", p.who(l), lossOf(err)).WithHint("see its own output; the results of its agents are in no ledger, so the run is over"))
	}
}

// who names a follower, with its number.
func (p *peer) who(l *Lead) string {
	return fmt.Sprintf("loader %d of %d (%s)", p.number+1, l.loaders, p.Name)
}

// Over tells the followers that the run is judged, so that their agents may disconnect.
func (l *Lead) Over(rep *report.Report) {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.sendAll(order{Over: &over{OK: rep.OK(), Stopped: rep.OnlyStopped(), Verdict: rep.Verdict}})
}

// Close ends the run for all, unless it is over, and closes the connections.
func (l *Lead) Close() {
	l.once.Do(func() {
		l.mu.Lock()
		l.closed = true
		l.end(model.Errorf(model.Unavailable, "the loader that leads has left the run"))
		l.mu.Unlock()
		l.requests.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), silence)
		defer cancel()
		_ = l.server.Shutdown(ctx)
		_ = l.server.Close()
	})
}

// Fail ends the run for all, and returns the first reason.
func (l *Lead) Fail(err error) error {
	l.end(err)
	var first *model.Error
	if errors.As(context.Cause(l.ctx), &first) {
		return first
	}
	return err
}

// causeOf returns the reason why a context ended, to send it to the other side.
func causeOf(ctx context.Context, who string) error {
	var e *model.Error
	if errors.As(context.Cause(ctx), &e) {
		return e
	}
	return model.Errorf(model.Unavailable, "%s was interrupted", who)
}

// locality returns where a follower runs, in words.
func locality(here bool) string {
	if here {
		return " (this machine)"
	}
	return ""
}
