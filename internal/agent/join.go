package agent

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/pki"
)

// How Config.State begins: while there is a session, and while there is no identity yet.
const (
	Connected = "connected"
	Waits     = "waits to join"
)

// identity loads who this node is, or enrols it: again and again while no server answers
// or nobody has accepted it, at most once where one says no. Nil: ctx ended.
func (a *Agent) identity(ctx context.Context) (*pki.Identity, error) {
	id, err := pki.LoadIdentity(a.cfg.StateDir)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	enrol, err := a.cfg.enrolment(false)
	if err != nil {
		return nil, err
	}
	enrol.Trusted = func(ca [32]byte) { a.cfg.Log.Warn("trusting the CA that came first", "ca", pki.SumText(ca)) }
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		id, err := pki.Enrol(ctx, enrol)
		if err == nil {
			a.cfg.Log.Info("joined", "node", id.Name, "id", id.Node, "namespace", id.Namespace)
			return id, nil
		}
		rest, again := Again(err, wait)
		if !again {
			return nil, err
		}
		a.cfg.State(Waits + ": " + oneLine(err))
		a.cfg.Log.Warn("cannot join yet, trying again", "err", err, "in", rest)
		if pause.For(ctx, rest) != nil {
			return nil, nil
		}
	}
}

// Again says whether asking again can help after an error of Join, and when: after wait,
// or when the server said so.
func Again(err error, wait time.Duration) (pause time.Duration, again bool) {
	var pending *pki.PendingError
	if errors.As(err, &pending) && pending.Again > 0 {
		wait = max(pending.Again, time.Second)
		return wait*3/4 + rand.N(wait/2), true
	}
	switch model.ClassOf(err) {
	case model.Unavailable, model.Internal:
		return wait/2 + rand.N(wait/2), true
	case model.Limited:
		return wait/2 + rand.N(time.Minute), true
	}
	return 0, false
}

// enrolment is what this machine asks with: its token, or, to be accepted by a person,
// the servers and the CA that it was told, or has asked before. anyCA: a CA that nobody
// named may be trusted because it comes first.
func (c *Config) enrolment(anyCA bool) (pki.EnrolConfig, error) {
	dial := c.Dial
	if dial == nil {
		dial = link.NewDialer(nil)
	}
	enrol := pki.EnrolConfig{StateDir: c.StateDir, Dial: dial, Now: c.Machine.Now, Request: pki.EnrolRequest{
		Name: c.Name, MachineID: c.Machine.ID, Labels: c.Labels, Facts: c.Machine.Facts(), Groups: c.Groups,
	}}
	before, missing := pki.LoadJoining(c.StateDir)
	switch {
	case c.Token != "":
		var err error
		if enrol.Token, err = pki.ParseToken(c.Token); err != nil {
			return enrol, err
		}
	case missing == nil:
		enrol.Token = pki.Token{Addresses: before.Servers, CA: c.CA}
	case len(c.Servers) > 0 && (anyCA || c.CA != [32]byte{}):
		enrol.Token.CA = c.CA
	default:
		return enrol, model.Errorf(model.Unauthenticated, "this machine has not joined a server yet: %s holds no identity", c.StateDir).
			WithHint("on the server: muster node token; here, what that prints: muster-agent join TOKEN")
	}
	if len(c.Servers) > 0 {
		enrol.Token.Addresses = c.Servers
	}
	return enrol, nil
}

// Join makes this machine a node, at once or not at all: it asks each server once. Who is
// a node already is told which one (already). Without a token the machine asks to be
// accepted (pki.PendingError); without a CA it trusts the one it sees first, and trusted
// hears of it before anything is sent. No agent may run on the state folder.
func Join(ctx context.Context, c Config, trusted func(ca [32]byte)) (id *pki.Identity, already bool, err error) {
	if c, err = c.withDefaults(); err != nil {
		return nil, false, err
	}
	id, err = pki.LoadIdentity(c.StateDir)
	if err == nil {
		return id, true, c.sameServer(id)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	held, err := lock(c.StateDir)
	if err != nil {
		return nil, false, err
	}
	defer held.Close()
	enrol, err := c.enrolment(true)
	if err != nil {
		return nil, false, err
	}
	enrol.Trusted = trusted
	id, err = pki.Enrol(ctx, enrol)
	return id, false, err
}

// sameServer refuses to call a machine joined that is a node of another server.
func (c *Config) sameServer(id *pki.Identity) error {
	wanted := c.CA
	if c.Token != "" {
		token, err := pki.ParseToken(c.Token)
		if err != nil {
			return err
		}
		wanted = token.CA
	}
	if wanted == ([32]byte{}) || wanted == id.CASum {
		return nil
	}
	return model.Errorf(model.Conflict, "this machine is node %s of another server already, which has the CA %s", id.Name, pki.SumText(id.CASum)).
		WithHint("if it shall leave that one: systemctl stop muster-agent; muster-agent reset-identity --state-dir %s; then join again", c.StateDir)
}
