package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/pki"
)

// renewalCheckEvery is the longest period between two looks at the certificate's end; a short-lived one
// is looked at more often.
const renewalCheckEvery = time.Hour

// renewalPause follows each attempt: every connection with an expired certificate reports it.
const renewalPause = 20 * time.Second

// credentials hold the present identity; the next session uses a renewed certificate.
type credentials struct {
	mu      sync.Mutex
	id      *pki.Identity
	tls     *tls.Config // with the session tickets of this certificate
	servers []string    // to ask, as of the last session

	refused chan struct{} // capacity 1: a server refused the certificate as expired, or its node as unknown
}

func (c *credentials) set(id *pki.Identity, now func() time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id, c.tls = id, link.TLSConfig(id, now)
}

// TLS returns the configuration of the next session.
func (c *credentials) TLS() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tls
}

func (c *credentials) identity() *pki.Identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id
}

func (c *credentials) setServers(servers []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers = servers
}

func (c *credentials) serverList() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers
}

// checkRefusal starts a renewal where a server refused the certificate as expired or the node as
// unknown.
func (c *credentials) checkRefusal(err error) {
	var refused *link.RefusedError
	if !pki.Expired(err) && !(errors.As(err, &refused) && refused.Code == "unknown") {
		return
	}
	select {
	case c.refused <- struct{}{}:
	default:
	}
}

// keepCertificate renews the certificate until ctx ends: when two thirds of its life are over, and
// when a server calls it expired, whatever this machine's clock says. The present session goes on;
// the next one shows the new certificate. A server restored from an old backup does not know the
// node: the agent asks it again until a person accepts the node, which keeps its id and its spool.
func (a *Agent) keepCertificate(ctx context.Context) {
	c := &a.credentials
	timer := time.NewTimer(0)
	defer timer.Stop()
	pending := false // a person must accept the node
	for {
		due := pending
		select {
		case <-timer.C:
		case <-c.refused:
			due = true
		case <-ctx.Done():
			return
		}
		period := min(renewalCheckEvery, pki.Life(c.identity())/24)
		if due || !a.serverTime().Before(pki.RenewAt(c.identity())) {
			retry := a.renew(ctx, pending)
			if pending = retry > 0; pending {
				timer.Reset(retry)
				continue
			}
			if pause.For(ctx, min(period, renewalPause)) != nil {
				return
			}
		}
		next := period/2 + rand.N(period)
		if due := pki.RenewAt(c.identity()).Sub(a.serverTime()); due > 0 {
			next = min(next, due)
		}
		timer.Reset(next)
	}
}

// renew requests a certificate and logs the outcome. A positive retry says that a person must accept
// the node, and when to ask again. wasPending: the last attempt said so, too.
func (a *Agent) renew(ctx context.Context, wasPending bool) (retry time.Duration) {
	dial := a.cfg.Dial
	if dial == nil {
		dial = link.NewDialer(nil)
	}
	next, err := pki.Renew(ctx, pki.RenewConfig{
		Identity: a.credentials.identity(), StateDir: a.cfg.StateDir, Servers: a.credentials.serverList(), Dial: dial, Now: a.cfg.Machine.Now,
		Says: pki.EnrolRequest{Name: *a.name.Load(), MachineID: a.cfg.Machine.ID, Labels: a.cfg.Labels, Facts: a.facts.load(), Groups: a.cfg.Groups},
	})
	var pending *pki.PendingError
	switch class := model.ClassOf(err); {
	case ctx.Err() != nil:
		return 0
	case err == nil:
	case errors.As(err, &pending):
		if !wasPending {
			a.cfg.Log.Warn("the server does not know this node; a person must accept it again, its spool is kept",
				"server", pending.Server, "key", pending.Key, "hint", "on the server: muster node list --pending; muster node accept "+*a.name.Load())
		}
		a.cfg.State("waits to be let in again: " + oneLine(err))
		retry, _ = RetryJoin(err, pending.Again)
		return retry
	case wasPending && (class == model.Unavailable || class == model.Internal || class == model.Limited):
		retry, _ = RetryJoin(err, 30*time.Second)
		return retry
	case class == model.Unavailable || class == model.Internal || class == model.Limited:
		a.cfg.Log.Warn("certificate could not be renewed; trying again", "until", a.credentials.identity().Certificate.Leaf.NotAfter, "err", err)
		return 0
	default:
		a.cfg.Log.Error("the server does not renew this machine's certificate", "until", a.credentials.identity().Certificate.Leaf.NotAfter, "err", err)
		return 0
	}
	a.credentials.set(next, a.cfg.Machine.Now)
	a.cfg.Log.Info("certificate renewed", "until", next.Certificate.Leaf.NotAfter)
	if !a.connected.Load() {
		select {
		case a.retryNow <- struct{}{}:
		default:
		}
	}
	return 0
}
