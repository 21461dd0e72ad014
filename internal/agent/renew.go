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

// lookEvery is how often the certificate is looked at, at most: one with a short life
// more often.
const lookEvery = time.Hour

// restAfter is how long a try rests: an agent whose certificate has expired is told so
// at every attempt to connect.
const restAfter = 20 * time.Second

// credentials are the identity as it is now: sessions to come use what was renewed.
type credentials struct {
	mu      sync.Mutex
	id      *pki.Identity
	tls     *tls.Config // with the tickets that belong to this certificate
	servers []string    // where to ask, as of the last session

	doubted chan struct{} // a server says that the certificate expired, or knows no such node; has room for one
}

func (c *credentials) set(id *pki.Identity, now func() time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id, c.tls = id, link.TLSConfig(id, now)
}

// TLS is for link.RunConfig.
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

func (c *credentials) reach(servers []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers = servers
}

func (c *credentials) at() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers
}

// refused looks whether it was the certificate's date for which a server sent us away, or
// that it does not know the node: then another certificate may be had.
func (c *credentials) refused(err error) {
	var said *link.RefusedError
	if !pki.Expired(err) && !(errors.As(err, &said) && said.Code == "unknown") {
		return
	}
	select {
	case c.doubted <- struct{}{}:
	default:
	}
}

// keepCertificate renews the certificate when that is due, until ctx ends: it looks at
// the start, about hourly and, should that be earlier, when it is due; and when a server
// says that it has expired, whatever our clock says. The session goes on; the next one
// shows the new certificate. A server that does not know the node (it went back to a copy)
// is asked the same, until a person there has let it in again: the node keeps its id, and
// what waits in the spool is sent.
func (a *Agent) keepCertificate(ctx context.Context) {
	c := &a.credentials
	look := time.NewTimer(0)
	defer look.Stop()
	waits := false // a person has to let the node in
	for {
		asks := waits
		select {
		case <-look.C:
		case <-c.doubted:
			asks = true
		case <-ctx.Done():
			return
		}
		pace := min(lookEvery, pki.Life(c.identity())/24)
		if asks || !a.serverNow().Before(pki.RenewAt(c.identity())) {
			again := a.renew(ctx, waits)
			if waits = again > 0; waits {
				look.Reset(again)
				continue
			}
			if pause.For(ctx, min(pace, restAfter)) != nil {
				return
			}
		}
		next := pace/2 + rand.N(pace)
		if due := pki.RenewAt(c.identity()).Sub(a.serverNow()); due > 0 {
			next = min(next, due)
		}
		look.Reset(next)
	}
}

// serverNow is our clock, set right by the server's if there was a session.
func (a *Agent) serverNow() time.Time {
	offset, _ := a.ServerOffset()
	return a.cfg.Machine.Now().Add(-offset)
}

// renew asks for a certificate, and says in the log what came of it. More than zero: a
// person has to let the node in, which waits already or does from now on; ask again then.
func (a *Agent) renew(ctx context.Context, waits bool) (again time.Duration) {
	dial := a.cfg.Dial
	if dial == nil {
		dial = link.NewDialer(nil)
	}
	next, err := pki.Renew(ctx, pki.RenewConfig{
		Identity: a.credentials.identity(), StateDir: a.cfg.StateDir, Servers: a.credentials.at(), Dial: dial, Now: a.cfg.Machine.Now,
		Says: pki.EnrolRequest{Name: *a.name.Load(), MachineID: a.cfg.Machine.ID, Labels: a.cfg.Labels, Facts: *a.measured.Load(), Groups: a.cfg.Groups},
	})
	var pending *pki.PendingError
	switch class := model.ClassOf(err); {
	case ctx.Err() != nil:
		return 0
	case err == nil:
	case errors.As(err, &pending):
		if !waits {
			a.cfg.Log.Warn("the server does not know this node and asks a person whether to let it in again; what it holds is kept",
				"server", pending.Server, "key", pending.Key, "type", "on the server: muster node list --pending; muster node accept "+*a.name.Load())
		}
		a.cfg.State("waits to be let in again: " + oneLine(err))
		again, _ = Again(err, pending.Again)
		return again
	case waits && (class == model.Unavailable || class == model.Internal || class == model.Limited):
		again, _ = Again(err, 30*time.Second)
		return again
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
		case a.again <- struct{}{}:
		default:
		}
	}
	return 0
}
