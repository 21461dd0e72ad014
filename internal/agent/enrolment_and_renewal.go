package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"math/rand/v2"
	"sync/atomic"
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

// loadOrEnrolIdentity loads the node's key and certificate from the state folder, or enrols the machine. It repeats
// while no server answers or no person has accepted the machine, and fails at the first refusal. Nil without an
// error: ctx ended.
func (a *Agent) loadOrEnrolIdentity(ctx context.Context) (*pki.Identity, error) {
	id, err := pki.LoadIdentity(a.cfg.StateDir)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	enrol, err := a.cfg.enrolmentRequest(false)
	if err != nil {
		return nil, err
	}
	enrol.Trusted = func(ca [32]byte) {
		a.cfg.Log.Warn("the agent trusts the first CA that a server sent", "ca", pki.FormatSum(ca))
	}
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
		a.cfg.State(Waits + ": " + errorOnOneLine(err))
		a.cfg.Log.Warn("cannot join yet; the agent retries", "err", err, "in", delay)
		if pause.For(ctx, delay) != nil {
			return nil, nil
		}
	}
}

// RetryJoin reports whether a failed Join may succeed later, and returns the delay before the next attempt.
func RetryJoin(err error, wait time.Duration) (delay time.Duration, retry bool) {
	var pending *pki.PendingError
	if errors.As(err, &pending) && pending.RetryAfter > 0 {
		wait = max(pending.RetryAfter, time.Second)
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

// enrolmentRequest returns the agent's request to join the server. Without a join token in the settings, a person must
// accept the machine. anyCA: where no CA is named, the first one that a server shows is trusted.
func (c *Config) enrolmentRequest(anyCA bool) (pki.EnrolConfig, error) {
	enrol := pki.EnrolConfig{StateDir: c.StateDir, Dial: c.Dial, Now: c.Machine.Now, Request: pki.EnrolRequest{
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
		return enrol, model.Errorf(model.Unauthenticated, "this machine has not joined a server yet: %s has no identity", c.StateDir).
			WithHint("on the server: muster node token; on this machine, with the printed token: muster-agent join TOKEN")
	}
	if len(c.Servers) > 0 {
		enrol.Token.Addresses = c.Servers
	}
	return enrol, nil
}

// Join enrols the local machine with the first server that accepts the machine. It tries each server once. already:
// the machine was a node before. Without a token the machine asks to be accepted (pki.PendingError). Without a CA it
// trusts the first one that a server sends, and calls trusted before it sends anything. No agent may run on the state
// folder.
func Join(ctx context.Context, c Config, trusted func(ca [32]byte)) (id *pki.Identity, already bool, err error) {
	if c, err = c.withDefaults(); err != nil {
		return nil, false, err
	}
	id, err = pki.LoadIdentity(c.StateDir)
	if err == nil {
		return id, true, c.checkSameServer(id)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	folder, err := lockStateFolder(c.StateDir)
	if err != nil {
		return nil, false, err
	}
	defer folder.Close()
	enrol, err := c.enrolmentRequest(true)
	if err != nil {
		return nil, false, err
	}
	enrol.Trusted = trusted
	id, err = pki.Enrol(ctx, enrol)
	return id, false, err
}

// checkSameServer returns an error if the stored identity was issued by another server than the settings name.
func (c *Config) checkSameServer(id *pki.Identity) error {
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
	return model.Errorf(model.Conflict, "this machine is already node %s of another server, which has the CA %s", id.Name, pki.FormatSum(id.CASum)).
		WithHint("to leave that server: systemctl stop muster-agent; muster-agent reset-identity --state-dir %s; then join again", c.StateDir)
}

// renewalCheckEvery is the longest period between two checks of the certificate's end; a short-lived
// certificate is checked more often.
const renewalCheckEvery = time.Hour

// renewalPause is the shortest time between two attempts: every connection with an expired certificate
// requests one.
const renewalPause = 20 * time.Second

// credentials holds the agent's current key and certificate. The next session uses a renewed certificate.
type credentials struct {
	id      atomic.Pointer[pki.Identity]
	tls     atomic.Pointer[tls.Config] // with the session tickets of this certificate
	servers atomic.Pointer[[]string]   // the servers to ask for a renewal, as of the last session

	renewNow chan struct{} // capacity 1: a server refused the certificate as expired, or its node as unknown
}

// setIdentity replaces the agent's key and certificate, and the TLS settings that the next session uses.
func (c *credentials) setIdentity(id *pki.Identity, now func() time.Time) {
	c.id.Store(id)
	c.tls.Store(link.TLSConfig(id, now))
}

// checkRefusal starts a certificate renewal if the server refused the certificate as expired, or the node as unknown.
func (c *credentials) checkRefusal(err error) {
	var refused *link.RefusedError
	if !pki.Expired(err) && !(errors.As(err, &refused) && refused.Code == "unknown") {
		return
	}
	pause.Wake(c.renewNow)
}

// keepCertificateValid renews the certificate until ctx ends. A renewal is due when two thirds of the certificate's
// life are over, or when a server refuses it as expired. The present session continues; the next one uses the new
// certificate. A server restored from an old backup does not know the node: the agent asks it again until a person
// accepts the node, which keeps its id and its spool.
func (a *Agent) keepCertificateValid(ctx context.Context) {
	c := &a.credentials
	timer := time.NewTimer(0)
	defer timer.Stop()
	pending := false // a person must accept the node
	for {
		due := pending
		select {
		case <-timer.C:
		case <-c.renewNow:
			due = true
		case <-ctx.Done():
			return
		}
		period := min(renewalCheckEvery, pki.Lifetime(c.id.Load())/24)
		if due || !a.serverTime().Before(pki.RenewAt(c.id.Load())) {
			retry := a.renewCertificate(ctx, pending)
			if pending = retry > 0; pending {
				timer.Reset(retry)
				continue
			}
			if pause.For(ctx, min(period, renewalPause)) != nil {
				return
			}
		}
		next := period/2 + rand.N(period)
		if due := pki.RenewAt(c.id.Load()).Sub(a.serverTime()); due > 0 {
			next = min(next, due)
		}
		timer.Reset(next)
	}
}

// renewCertificate requests a renewed certificate from the server and logs success or failure. A positive retry is
// the pause before the next request, because a person must accept the node. wasPending says that a person had to
// accept the node at the last attempt, too.
func (a *Agent) renewCertificate(ctx context.Context, wasPending bool) (retry time.Duration) {
	next, err := pki.Renew(ctx, pki.RenewConfig{
		Identity: a.credentials.id.Load(), StateDir: a.cfg.StateDir, Servers: *a.credentials.servers.Load(), Dial: a.cfg.Dial, Now: a.cfg.Machine.Now,
		Request: pki.EnrolRequest{Name: *a.name.Load(), MachineID: a.cfg.Machine.ID, Labels: a.cfg.Labels, Facts: a.facts.lastMeasured(), Groups: a.cfg.Groups},
	})
	var pending *pki.PendingError
	class := model.ClassOf(err)
	passes := class == model.Unavailable || class == model.Internal || class == model.Limited
	switch {
	case ctx.Err() != nil:
		return 0
	case err == nil:
	case errors.As(err, &pending):
		if !wasPending {
			a.cfg.Log.Warn("the server does not know this node; an operator must accept the node again; the spool keeps its results",
				"server", pending.Server, "key", pending.Key, "hint", "on the server: muster node list --pending; muster node accept "+*a.name.Load())
		}
		a.cfg.State("waits for an operator to accept the machine again: " + errorOnOneLine(err))
		retry, _ = RetryJoin(err, pending.RetryAfter)
		return retry
	case wasPending && passes:
		retry, _ = RetryJoin(err, 30*time.Second)
		return retry
	case passes:
		a.cfg.Log.Warn("cannot renew the certificate; the agent retries", "until", a.credentials.id.Load().Certificate.Leaf.NotAfter, "err", err)
		return 0
	default:
		a.cfg.Log.Error("the server refused to renew this machine's certificate", "until", a.credentials.id.Load().Certificate.Leaf.NotAfter, "err", err)
		return 0
	}
	a.credentials.setIdentity(next, a.cfg.Machine.Now)
	a.cfg.Log.Info("certificate renewed", "until", next.Certificate.Leaf.NotAfter)
	if !a.connected.Load() {
		pause.Wake(a.retryNow)
	}
	return 0
}
