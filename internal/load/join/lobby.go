package join

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"net"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/version"
)

// helloWithin is for how long somebody may take to say the secret, and mostStrangers how
// many may be at it at once.
const (
	helloWithin   = 10 * time.Second
	mostStrangers = 64
)

// accept lets others in until the listener is closed.
func (l *Lead) accept() {
	strangers := make(chan struct{}, mostStrangers)
	for {
		c, err := l.listener.Accept()
		if err != nil {
			return
		}
		select {
		case strangers <- struct{}{}:
		default:
			_ = c.Close()
			continue
		}
		go func() {
			defer func() { <-strangers }()
			l.greet(&conn{Conn: c})
		}()
	}
}

// greet reads a hello, and lets its sender in or says why not.
func (l *Lead) greet(c *conn) {
	_ = c.SetDeadline(time.Now().Add(helloWithin))
	kind, body, err := readFrame(c.Conn, mostHello)
	h, err := parseHello(kind, body, err)
	if err == nil {
		err = l.admit(h)
	}
	if err != nil {
		l.say("refused %s: %v", c.RemoteAddr(), err)
		_ = c.send(kindRefused, failure(err))
		_ = c.Close()
		return
	}
	_ = c.SetDeadline(time.Time{})
	p := &peer{conn: c, name: h.Name, machine: h.Machine, seconds: map[int]*observe.CheckSecond{}, stretches: map[int]*load.Stretch{}}
	l.mu.Lock()
	room := len(l.peers) < l.loaders-1 && l.ctx.Err() == nil
	if room {
		l.peers = append(l.peers, p)
		l.readers.Go(func() { l.read(p) })
		l.change()
	}
	n := len(l.peers)
	l.mu.Unlock()
	if !room {
		_ = c.send(kindRefused, failure(model.Errorf(model.Conflict, "the run has all of its %d loaders", l.loaders)))
		_ = c.Close()
		return
	}
	l.say("loader %d of %d: %s%s", n+1, l.loaders, p.name, where(p.machine == machineID()))
}

func where(here bool) string {
	if here {
		return " (this machine)"
	}
	return ""
}

func parseHello(kind byte, body []byte, err error) (h hello, _ error) {
	if err != nil {
		return h, model.Errorf(model.Invalid, "it said nothing that a loader says: %w", err)
	}
	if kind != kindHello || json.Unmarshal(body, &h) != nil {
		return h, model.Errorf(model.Invalid, "it said nothing that a loader says")
	}
	return h, nil
}

// admit says whether who said hello may join.
func (l *Lead) admit(h hello) error {
	switch {
	case h.Version != Version:
		return model.Errorf(model.Unsupported, "the loader that leads speaks version %d of the protocol (it is muster %s), and this one version %d (muster %s)", Version, version.Get().Version, h.Version, cmp.Or(h.Build, "?")).
			WithHint("use the same version on both machines")
	case subtle.ConstantTimeCompare(h.Secret, l.secret[:]) != 1:
		return model.Errorf(model.Unauthenticated, "the token is of another run").WithHint("paste the token that this run printed: it is new for each")
	}
	return nil
}

// read hears one follower until it leaves.
func (l *Lead) read(p *peer) {
	for {
		kind, body, err := p.conn.receive(mostFrame)
		if err == nil {
			err = l.hear(p, kind, body)
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
