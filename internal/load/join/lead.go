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
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/version"
)

// Lead is the loader that leads a run. It implements load.Joint.
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
	stream *http.ResponseController
	number int // from 1, once all have joined
	orders outbox[order]
	lost   bool

	prepared *string
	arrived  *load.Joined
	lines    []observe.Line // until Lines takes them
	finished bool
}

const (
	mostLines = 1 << 21 // that a follower reported and nobody took: more than one process has agents
	soon      = 300 * time.Millisecond
)

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
	context.AfterFunc(l.ctx, func() { l.sendAll(order{Failed: failureOf(causeOf(l.ctx, "the loader that leads"))}) })
	mux := http.NewServeMux()
	mux.HandleFunc("POST /join", l.serveJoin)
	mux.HandleFunc("GET /clock", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, l.now()) })
	l.server = &http.Server{Handler: l.authorized(mux), ReadHeaderTimeout: silence, IdleTimeout: silence, MaxHeaderBytes: 16 << 10,
		ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}}}
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

// Gather waits until all have joined. Then nobody can connect any more.
func (l *Lead) Gather() error {
	err := l.await(l.ctx, func() bool {
		if len(l.peers) < l.loaders-1 {
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

// refuse answers a request with an error, and reports the refusal.
func (l *Lead) refuse(w http.ResponseWriter, r *http.Request, err error) {
	l.say("refused %s: %v", r.RemoteAddr, err)
	answer(w, model.ClassOf(err).HTTP(), failureOf(err))
}

// serveJoin admits a follower, takes its messages and sends it orders, until it leaves.
func (l *Lead) serveJoin(w http.ResponseWriter, r *http.Request) {
	p := &peer{stream: http.NewResponseController(w)}
	in := newReader(r.Body, mostMessage, func() { _ = p.stream.SetReadDeadline(time.Now().Add(silence)) })
	if err := in.next(&p.hello); err != nil {
		l.refuse(w, r, model.Errorf(model.Invalid, "the body of POST /join is not that of a loader"))
		return
	}
	if p.Version != Version {
		l.refuse(w, r, model.Errorf(model.Unsupported, "the lead has version %d of the protocol (muster %s), and this loader has version %d (muster %s)",
			Version, version.Get().Version, p.Version, cmp.Or(p.Build, "?")).WithHint("use the same version on both machines"))
		return
	}
	n, ok := l.add(p)
	if !ok {
		l.refuse(w, r, model.Errorf(model.Conflict, "the run has all of its %d loaders", l.loaders))
		return
	}
	where := ""
	if p.Machine == machineID() {
		where = " (this machine)"
	}
	l.say("loader %d of %d: %s%s", n, l.loaders, p.Name, where)
	var sending sync.WaitGroup
	ctx, stop := context.WithCancel(r.Context())
	sending.Go(func() { _ = p.orders.send(ctx, &l.monitor, w, p.stream.Flush) }) // whoever does not get them is silent, too
	l.lose(p, l.hear(p, in))
	stop()
	_ = p.stream.SetWriteDeadline(time.Now()) // an order to a follower that is gone
	sending.Wait()
}

// hear takes the messages of a follower until its connection ends, and returns the reason.
func (l *Lead) hear(p *peer, in *reader) error {
	for {
		var m message
		if err := in.next(&m); err != nil {
			return err
		}
		if err := l.take(p, &m); err != nil {
			return err
		}
	}
}

// add adds a follower to the run, and returns its place, or false if the run is full.
func (l *Lead) add(p *peer) (place int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.peers) >= l.loaders-1 || l.ctx.Err() != nil {
		return 0, false
	}
	l.peers = append(l.peers, p)
	p.orders.put(&l.monitor, order{}, false) // it is admitted
	return len(l.peers) + 1, true
}

// take stores a message of a follower.
func (l *Lead) take(p *peer, m *message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.change()
	switch {
	case m.Prepared != nil:
		p.prepared = m.Prepared
	case m.Arrived != nil:
		p.arrived = m.Arrived
	case m.Line != nil:
		line := m.Line
		if !line.OfFollower() {
			return fmt.Errorf("a line of the log that is not a follower's")
		}
		if len(p.lines) >= mostLines {
			return fmt.Errorf("more than the run asks for")
		}
		// A line with more fields would be applied as one of the lead's.
		p.lines = append(p.lines, observe.Line{At: line.At, Loader: p.number, Check: line.Check, Edge: line.Edge, Kept: line.Kept})
	case m.Finished:
		p.finished = true
	case m.Stop:
		go l.onStop(p.who(l))
	case m.Failed != nil:
		return m.Failed.AsModel()
	}
	return nil
}

// send adds an order for a follower.
func (l *Lead) send(p *peer, o order) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.orders.put(&l.monitor, o, o.Over != nil || o.Failed != nil)
}

// sendAll adds an order for all followers.
func (l *Lead) sendAll(o order) {
	for _, p := range l.all() {
		l.send(p, o)
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
	var reported *model.Error
	switch {
	case again || over || l.ctx.Err() != nil:
	case early:
		l.say("%s left before the run began: %s", p.Name, lossOf(err))
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

// Connect waits until all are prepared to play the same plan, and has their agents connect.
func (l *Lead) Connect(ctx context.Context, hash string) error {
	for _, p := range l.all() {
		if err := l.await(ctx, func() bool { return p.prepared != nil }); err != nil {
			return err
		}
		if *p.prepared != hash {
			return model.Errorf(model.Unsupported, "%s would play another plan than this one: the two programs differ", p.who(l)).
				WithHint("use the same version on both machines")
		}
	}
	l.sendAll(order{Connect: true})
	return nil
}

// Ready waits until all agents have their checks, and returns the followers.
func (l *Lead) Ready(ctx context.Context, _ load.Arrived) (list []load.Joined, err error) {
	for _, p := range l.all() {
		if err := l.await(ctx, func() bool { return p.arrived != nil }); err != nil {
			return nil, err
		}
		x := *p.arrived
		x.Number, x.Name, x.Here = p.number, p.Name, p.Machine == machineID()
		list, l.uncertainty = append(list, x), max(l.uncertainty, x.Clock)
	}
	return list, nil
}

// Begin announces the beginning of the timetable to all, and returns it.
func (l *Lead) Begin(context.Context) (time.Time, error) {
	at := l.now() + soon + 4*l.uncertainty
	l.sendAll(order{Begin: &at})
	return l.base.Add(at), nil
}

// Follow replaces the timetable of the others.
func (l *Lead) Follow(from time.Duration, spans []plan.Part) {
	l.sendAll(order{Score: &score{from, spans}})
}

// Renamed tells the loader of an agent its new name.
func (l *Lead) Renamed(member int, name string) {
	if owner := member % l.loaders; owner > 0 {
		l.send(l.all()[owner-1], order{Renamed: &renamed{member, name}})
	}
}

// Lines returns the lines of the logs of all since the last call.
func (l *Lead) Lines() (list []observe.Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.peers {
		list = append(list, p.lines...)
		p.lines = nil
	}
	return list
}

// Finish waits until the logs of all are complete.
func (l *Lead) Finish(ctx context.Context) error {
	for _, p := range l.all() {
		if err := l.await(ctx, func() bool { return p.finished }); err != nil {
			return err
		}
	}
	return nil
}

// Over tells the followers that the run is judged, so that their agents may disconnect.
func (l *Lead) Over(rep *report.Report) {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.sendAll(order{Over: &over{OK: rep.OK(), Stopped: rep.OnlyStopped(), Verdict: rep.Verdict}})
}

// Close ends the run for all, unless it is over. It waits until the followers know and have left, at most ten seconds, and closes
// the connections.
func (l *Lead) Close() {
	l.end(model.Errorf(model.Unavailable, "the loader that leads has left the run"))
	ctx, cancel := context.WithTimeout(context.Background(), silence)
	defer cancel()
	_ = l.server.Shutdown(ctx)
	_ = l.server.Close()
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

var _ load.Joint = (*Lead)(nil)
