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

// Prefixes of Config.State: in a session, and before the machine has an identity.
const (
	Connected = "connected"
	Waits     = "waits to join"
)

// identity loads the node's identity, or enrols the machine. It repeats while no server answers or
// no person has accepted the machine, and fails at the first refusal. Nil without an error: ctx ended.
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
		delay, retry := RetryJoin(err, wait)
		if !retry {
			return nil, err
		}
		a.cfg.State(Waits + ": " + oneLine(err))
		a.cfg.Log.Warn("cannot join yet, trying again", "err", err, "in", delay)
		if pause.For(ctx, delay) != nil {
			return nil, nil
		}
	}
}

// RetryJoin returns whether another Join can succeed after err, and the delay before it: wait with
// jitter, or the one that the server named.
func RetryJoin(err error, wait time.Duration) (delay time.Duration, retry bool) {
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

// enrolment returns the request of this machine: with its token, or, to be accepted by a person, to
// the servers and the CA of its settings or of an earlier request. anyCA: where no CA is named,
// the first one that a server shows is trusted.
func (c *Config) enrolment(anyCA bool) (pki.EnrolConfig, error) {
	dial := c.Dial
	if dial == nil {
		dial = link.NewDialer(nil)
	}
	enrol := pki.EnrolConfig{StateDir: c.StateDir, Dial: dial, Now: c.Machine.Now, Request: pki.EnrolRequest{
		Name: c.Name, MachineID: c.Machine.ID, Labels: c.Labels, Facts: c.Machine.Facts(), Groups: c.Groups,
	}}
	before, missing := pki.LoadJoinState(c.StateDir)
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
			WithHint("on the server: muster node token; here, with the token that it prints: muster-agent join TOKEN")
	}
	if len(c.Servers) > 0 {
		enrol.Token.Addresses = c.Servers
	}
	return enrol, nil
}

// Join makes this machine a node and asks each server once. already: it is a node of that identity
// since before. Without a token the machine asks to be accepted (pki.PendingError). Without a CA it
// trusts the first one that a server shows, and calls trusted before it sends anything. No agent may
// run on the state folder.
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
	folder, err := lock(c.StateDir)
	if err != nil {
		return nil, false, err
	}
	defer folder.Close()
	enrol, err := c.enrolment(true)
	if err != nil {
		return nil, false, err
	}
	enrol.Trusted = trusted
	id, err = pki.Enrol(ctx, enrol)
	return id, false, err
}

// sameServer returns an error where the identity is of another server than the settings name.
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
		WithHint("to leave that server: systemctl stop muster-agent; muster-agent reset-identity --state-dir %s; then join again", c.StateDir)
}
