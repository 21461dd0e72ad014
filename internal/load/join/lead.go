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
	"strconv"
	"time"

	"golang.org/x/net/netutil"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/version"
)

// Lead is the loader that leads a run. It implements load.Joint (lead_joint.go).
type Lead struct {
	load.Alone
	loaders     int // all, this one included
	token       Token
	listener    net.Listener
	server      *http.Server
	base        time.Time // of its clock
	end         context.CancelCauseFunc
	say         func(format string, args ...any)
	uncertainty time.Duration // of the clocks of the followers

	monitor
	peers  []*peer // in order of their numbers, once all have joined
	over   bool    // no peer is lost any more
	onStop func(who string)
}

// peer is one follower. The lock of the lead guards it.
type peer struct {
	hello
	number  int     // from 1, once all have joined
	orders  []order // all so far
	fetched int     // of them, by the follower
	lost    bool
	silent  *time.Timer

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
	context.AfterFunc(l.ctx, l.orderEnd)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /join", l.serveJoin)
	mux.HandleFunc("GET /orders", l.serveOrders)
	mux.HandleFunc("POST /report", l.serveReport)
	mux.HandleFunc("GET /clock", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, l.now()) })
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
	err := l.await(l.ctx, func() bool {
		if len(l.peers) < l.loaders-1 || slices.ContainsFunc(l.peers, func(p *peer) bool { return p.clock == nil }) {
			return false
		}
		for i, p := range l.peers {
			p.number = i + 1
		}
		return true
	})
	_ = l.listener.Close()
	return err
}

// authorized refuses requests without the secret of the token. It reads nothing else of them.
func (l *Lead) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(l.token.authorization())) != 1 {
			l.refuse(w, r, model.Errorf(model.Unauthenticated, "the token is of another run").WithHint("paste the token that this run printed: it is new for each"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// answer writes a value as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// reading is the answer to a follower. Each piece that the follower takes resets the timer of its silence.
type reading struct {
	http.ResponseWriter
	by *peer
}

// Write writes in pieces. A plan with the keys of many agents takes minutes on a slow network.
func (r reading) Write(data []byte) (n int, err error) {
	for piece := range slices.Chunk(data, 64<<10) {
		k, err := r.ResponseWriter.Write(piece)
		if n += k; err != nil {
			return n, err
		}
		r.by.silent.Reset(silence)
	}
	return n, nil
}

// refuse answers a request with an error, and reports the refusal.
func (l *Lead) refuse(w http.ResponseWriter, r *http.Request, err error) {
	l.say("refused %s: %v", r.RemoteAddr, err)
	answer(w, model.ClassOf(err).HTTP(), failureOf(err))
}

// serveJoin admits a follower.
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
	p := &peer{hello: h}
	p.silent = time.AfterFunc(silence, func() { l.lose(p, errSilent) })
	n, ok := l.add(p)
	if !ok {
		p.silent.Stop()
		l.refuse(w, r, model.Errorf(model.Conflict, "the run has all of its %d loaders", l.loaders))
		return
	}
	where := ""
	if p.Machine == machineID() {
		where = " (this machine)"
	}
	l.say("loader %d of %d: %s%s", n, l.loaders, p.Name, where)
	w.WriteHeader(http.StatusNoContent)
}

// add adds a follower to the run, and returns its place, or false if the run is full.
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

// find returns the follower of a request, and resets the timer of its silence. It refuses a request of an unknown follower,
// and returns nil.
func (l *Lead) find(w http.ResponseWriter, r *http.Request) *peer {
	for _, p := range l.all() {
		if p.ID == r.Header.Get(loaderHeader) {
			p.silent.Reset(silence)
			return p
		}
	}
	l.refuse(w, r, model.Errorf(model.NotFound, "this loader has not joined the run, or was lost"))
	return nil
}

// serveOrders answers with the orders of a follower from a number on, or with none after a second.
func (l *Lead) serveOrders(w http.ResponseWriter, r *http.Request) {
	p := l.find(w, r)
	if p == nil {
		return
	}
	from, err := strconv.Atoi(r.FormValue("from"))
	if err != nil || from < 0 {
		l.refuse(w, r, model.Errorf(model.Invalid, "GET /orders?from=%s: want a number", r.FormValue("from")))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), longPoll)
	defer cancel()
	_ = l.wait(ctx, func() bool { return len(p.orders) > from })
	if r.Context().Err() != nil { // the follower has gone
		l.lose(p, r.Context().Err())
		return
	}
	l.mu.Lock()
	from = min(from, len(p.orders))
	list := p.orders[from:]
	clear(p.orders[:from]) // the follower has them, and a plan is large
	l.mu.Unlock()
	answer(reading{w, p}, http.StatusOK, list)
	l.mu.Lock()
	defer l.mu.Unlock()
	p.fetched = max(p.fetched, from+len(list))
	l.change()
}

// send adds an order for a follower.
func (l *Lead) send(p *peer, o order) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.orders = append(p.orders, o)
	l.change()
}

// sendAll adds an order for all followers.
func (l *Lead) sendAll(o order) {
	for _, p := range l.all() {
		l.send(p, o)
	}
}

// orderEnd tells the followers why the run ended before it was over.
func (l *Lead) orderEnd() {
	l.mu.Lock()
	over := l.over
	l.mu.Unlock()
	if !over {
		l.sendAll(order{Failed: failureOf(causeOf(l.ctx, "the loader that leads"))})
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

// lose ends the run because of a follower, unless it is over. Before all have joined, another follower may join in its stead.
func (l *Lead) lose(p *peer, err error) {
	l.mu.Lock()
	over, early, again := l.over, p.number == 0, p.lost
	p.lost = true
	if early {
		l.peers = slices.DeleteFunc(l.peers, func(x *peer) bool { return x == p })
	}
	l.change()
	l.mu.Unlock()
	p.silent.Stop()
	var reported *model.Error
	switch {
	case again || over || l.ctx.Err() != nil:
	case early:
		l.say("%s left before the run began: %v", p.Name, err)
	case errors.As(err, &reported):
		e := model.Errorf(reported.Class, "%s: %s", p.who(l), reported.Message)
		e.Hint = reported.Hint
		l.end(e)
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

// Close ends the run for all, unless it is over. It waits until the followers know, at most ten seconds, and closes the
// connections.
func (l *Lead) Close() {
	l.end(model.Errorf(model.Unavailable, "the loader that leads has left the run"))
	ctx, cancel := context.WithTimeout(context.Background(), silence)
	defer cancel()
	_ = l.wait(ctx, func() bool {
		return !slices.ContainsFunc(l.peers, func(p *peer) bool {
			return !p.lost && (len(p.orders) == 0 || !p.orders[len(p.orders)-1].last() || p.fetched < len(p.orders))
		})
	})
	_ = l.server.Shutdown(ctx)
	_ = l.server.Close()
}

// last reports whether no order follows.
func (o *order) last() bool { return o.Over != nil || o.Failed != nil }

// Fail ends the run for all, and returns the first reason.
func (l *Lead) Fail(err error) error {
	l.end(err)
	var first *model.Error
	if errors.As(context.Cause(l.ctx), &first) {
		return first
	}
	return err
}
