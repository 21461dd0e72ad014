package join

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/version"
)

// helloWithin is for how long somebody may take to say the secret.
const helloWithin = 10 * time.Second

// joinPath is the address of the request with which a follower joins: the lead answers 101, and both send messages from then
// on.
const joinPath = "/join"

// serve lets others in until the listener is closed.
func (l *Lead) serve() {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+joinPath, l.greet)
	server := &http.Server{Handler: mux, ReadTimeout: helloWithin, MaxHeaderBytes: mostHello, ErrorLog: log.New(io.Discard, "", 0)}
	_ = server.Serve(l.listener)
}

// greet lets the sender of a hello in, or says why not.
func (l *Lead) greet(w http.ResponseWriter, r *http.Request) {
	refuse := func(err error) {
		l.say("refused %s: %v", r.RemoteAddr, err)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(model.ClassOf(err).HTTP())
		_ = json.NewEncoder(w).Encode(failure(err))
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostHello))
	if err != nil {
		refuse(model.Errorf(model.Invalid, "it said nothing that a loader says: %w", err))
		return
	}
	h, err := parseHello(data)
	if err != nil {
		refuse(err)
		return
	}
	if err := l.admit(h, r.Header.Get("Authorization")); err != nil {
		refuse(err)
		return
	}
	l.mu.Lock()
	room := len(l.peers) < l.loaders-1 && l.ctx.Err() == nil
	l.mu.Unlock()
	if !room {
		refuse(model.Errorf(model.Conflict, "the run has all of its %d loaders", l.loaders))
		return
	}
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", protocol)
	w.WriteHeader(http.StatusSwitchingProtocols)
	c, rest, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // it has hung up
	}
	_ = c.SetDeadline(time.Time{})
	p := &peer{conn: newConn(c, rest.Reader), name: h.Name, machine: h.Machine, seconds: map[int]*observe.CheckSecond{}, stretches: map[int]*load.Stretch{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.peers) >= l.loaders-1 || l.ctx.Err() != nil { // another one was faster
		_ = p.conn.send(kindFailed, failure(model.Errorf(model.Conflict, "the run has all of its %d loaders", l.loaders)))
		_ = c.Close()
		return
	}
	l.peers = append(l.peers, p)
	l.readers.Go(func() { l.read(p) })
	l.change()
	l.say("loader %d of %d: %s%s", len(l.peers)+1, l.loaders, p.name, where(p.machine == machineID()))
}

func parseHello(data []byte) (h hello, err error) {
	if json.Unmarshal(data, &h) != nil {
		return h, model.Errorf(model.Invalid, "it said nothing that a loader says")
	}
	return h, nil
}

func where(here bool) string {
	if here {
		return " (this machine)"
	}
	return ""
}

// admit returns an error if the loader that sent hello may not join. The token comes first: others learn nothing about the run.
func (l *Lead) admit(h hello, authorization string) error {
	switch {
	case subtle.ConstantTimeCompare([]byte(authorization), []byte(l.token.authorization())) != 1:
		return model.Errorf(model.Unauthenticated, "the token is of another run").WithHint("paste the token that this run printed: it is new for each")
	case h.Version != Version:
		return model.Errorf(model.Unsupported, "the loader that leads speaks version %d of the protocol (it is muster %s), and this one version %d (muster %s)", Version, version.Get().Version, h.Version, cmp.Or(h.Build, "?")).
			WithHint("use the same version on both machines")
	}
	return nil
}

// read hears one follower until it leaves.
func (l *Lead) read(p *peer) {
	for {
		m, err := p.conn.receive()
		if err == nil {
			err = l.hear(p, &m)
		}
		if err != nil {
			l.lose(p, err)
			return
		}
	}
}

// lose takes note of a follower that is gone. Before all have joined another may come in
// its place; later the run ends.
func (l *Lead) lose(p *peer, err error) {
	_ = p.conn.Close()
	l.mu.Lock()
	early := p.number == 0
	if early {
		for i, x := range l.peers {
			if x == p {
				l.peers = append(l.peers[:i], l.peers[i+1:]...)
				break
			}
		}
		l.change()
	}
	over := l.done != nil
	l.mu.Unlock()
	switch {
	case over:
	case early:
		l.say("%s left before the run began: %v", p.name, err)
	default:
		_ = l.broken(l.ctx, p, err)
	}
}

// broken ends the run because of a follower; the error names it, unless the run had ended
// before.
func (l *Lead) broken(ctx context.Context, p *peer, err error) error {
	if e, said := err.(*told); said {
		l.end(e.of(p.who(l) + ": "))
	} else {
		l.end(model.Errorf(model.Unavailable, "%s was lost: %s", p.who(l), plain(err)).WithHint("see what became of it there; its agents' results are in nobody's ledger, so the run is over"))
	}
	return context.Cause(ctx)
}

// told is what the other end gave as its reason.
type told struct{ failed }

func (t *told) Error() string { return t.Message }

// plain says what became of a connection.
func plain(err error) string {
	if e, ok := err.(net.Error); ok && e.Timeout() {
		return "it said nothing for " + silence.String()
	}
	return err.Error()
}
