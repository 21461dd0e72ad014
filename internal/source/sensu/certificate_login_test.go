package sensu

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wsconn"
)

const rightPassword = "Basic YWdlbnQ6c2VjcmV0" // agent:secret

// The subject and DNS names of a certificate decide whether the server accepts the agent. They also decide whether the
// agent's identity is proven.
func TestCertificateProvesUserMachineAndNamespace(t *testing.T) {
	ca := newAuthority(t)
	for name, c := range map[string]struct {
		common, organization string
		names                []string
		as                   string // default web1
		authorization        string
		status               int // default 101
		why                  string
	}{
		"user, machine, namespace":         {common: "agent", organization: "default", names: []string{"web1"}},
		"user of one namespace, machine":   {common: "only", names: []string{"db", "web1"}},
		"… with the firm":                  {common: "only", organization: "Acme", names: []string{"web1"}},
		"machine and namespace":            {common: "web1", organization: "default"},
		"… and DNS names":                  {common: "web1", organization: "default", names: []string{"web1", "web1.example.org"}},
		"and a wrong password":             {common: "web1", organization: "default", authorization: "Basic YWdlbnQ6d3Jvbmc="},
		"no namespace":                     {common: "agent", names: []string{"web1"}, why: fmt.Sprintf(anyNamespace, "agent")},
		"the firm is no namespace":         {common: "agent", organization: "Acme", names: []string{"web1"}, why: fmt.Sprintf(anyNamespace, "agent")},
		"one for all":                      {common: "agent", organization: "default", why: sharedCertificate},
		"one for all, by a DNS name":       {common: "agent", organization: "default", names: []string{"only"}, why: sharedCertificate},
		"a user's name is no machine's":    {common: "agent", organization: "default", names: []string{"agent"}, as: "agent", why: sharedCertificate},
		"a wildcard names no machine":      {common: "agent", organization: "default", names: []string{"*.example.org"}, as: "*.example.org", why: sharedCertificate},
		"a wildcard is no machine":         {common: "*.example.org", organization: "default", as: "*.example.org", status: 401},
		"no common name":                   {organization: "default", names: []string{"web1"}, status: 401},
		"nothing at all":                   {status: 401},
		"another machine":                  {common: "agent", organization: "default", names: []string{"web2"}, status: 403},
		"another machine, by common name":  {common: "web2", organization: "default", status: 401},
		"another case":                     {common: "agent", organization: "default", names: []string{"WEB1"}, status: 403},
		"another case, by common name":     {common: "WEB1", organization: "default", status: 401},
		"another namespace":                {common: "agent", organization: "prod", names: []string{"web1"}, status: 403},
		"another namespace, one for all":   {common: "agent", organization: "prod", status: 403},
		"another namespace, one-room user": {common: "only", organization: "prod", names: []string{"web1"}, status: 403},
		"another namespace, by name":       {common: "web1", organization: "prod", status: 401},
		"machine without namespace":        {common: "web1", status: 401},
		"a user that was deleted":          {common: "fleet", organization: "default", names: []string{"web1"}, status: 401},
		"… whose name it takes":            {common: "fleet", organization: "default", names: []string{"web1"}, as: "fleet", status: 401},
		"nobody's, and a right password":   {common: "nobody", authorization: rightPassword, status: 401},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestServerTLS(t, ca.newServerTLS(), nil)
			as, status := c.as, c.status
			if as == "" {
				as = "web1"
			}
			if status == 0 {
				status = 101
			}
			cert := ca.issueAgent(c.common, c.organization, c.names...)
			a, got := w.handshake(w.dialTLS(ca, &cert, nil), as, "default", c.authorization, false)
			if got != status {
				t.Fatalf("answered with %d, want %d", got, status)
			}
			if a == nil {
				return
			}
			w.openSession(a)
			x := w.session(as)
			if x.proven != (c.why == "") || !strings.Contains(x.unproven, c.why) {
				t.Errorf("proven %v, %q, want %q", x.proven, x.unproven, c.why)
			}
			shownAgent, _ := w.server.Agent(x.Node.ID)
			if shown := strings.Join(shownAgent.Refuses, "\n"); strings.Contains(shown, "no secrets") == x.proven || !shownAgent.Certificate.Equal(cert.Leaf.NotAfter) {
				t.Errorf("shown as %q, until %v", shown, shownAgent.Certificate)
			}
		})
	}
	w := newTestServerTLS(t, ca.newServerTLS(), nil)
	delete(w.users, "agent")
	cert := ca.issueAgent("web1", "default")
	if a, status := w.handshake(w.dialTLS(ca, &cert, nil), "web1", "default", "", false); a != nil || status != 401 {
		t.Errorf("without the user agent: %d", status)
	}
	if a, status := w.handshake(w.dialTLS(ca, nil, nil), "web1", "default", "", false); a != nil || status != 401 {
		t.Errorf("with nothing: %d", status)
	}
	a := w.mustHandshake(w.dialTLS(ca, nil, nil), "web1", rightPassword, false)
	w.openSession(a)
	if x := w.session("web1"); x.proven || x.unproven != sharedPassword {
		t.Errorf("proven %v, %q", x.proven, x.unproven)
	}
}

// TestAgentReadsWhyItsCertificateIsRefused checks that the TLS alert for a refused certificate states the reason.
func TestAgentReadsWhyItsCertificateIsRefused(t *testing.T) {
	ca, another := newAuthority(t), newAuthority(t)
	w := newTestServerTLS(t, ca.newServerTLS(), nil)
	expired := ca.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: "web1", Organization: []string{"default"}}, NotAfter: time.Now().Add(-time.Minute)})
	server := ca.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: "web1", Organization: []string{"default"}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	for name, c := range map[string]struct {
		show tls.Certificate
		want string
	}{
		"expired":       {expired, "expired certificate"},
		"of another CA": {another.issueAgent("web1", "default"), "unknown certificate authority"},
		"of a server":   {server, "bad certificate"},
	} {
		conn := w.dialTLS(ca, &c.show, nil)
		_, err := conn.Write([]byte("GET / HTTP/1.1\r\n"))
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The server resumes no TLS session, so that each connection presents its certificate.
func TestEachConnectionProvesItsIdentity(t *testing.T) {
	ca := newAuthority(t)
	w := newTestServerTLS(t, ca.newServerTLS(), nil)
	kept := tls.NewLRUClientSessionCache(4)
	cert := ca.issueAgent("web1", "default")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS12, tls.VersionTLS13, tls.VersionTLS13} {
		conn := w.dialTLS(ca, &cert, func(c *tls.Config) { c.ClientSessionCache, c.MaxVersion = kept, version })
		w.mustHandshake(conn, "web1", "", false)
		if conn.ConnectionState().DidResume {
			t.Errorf("%x: resumed", version)
		}
		conn.Close()
	}
}

// A session ends when its certificate expires.
func TestSessionEndsWithItsCertificate(t *testing.T) {
	ca := newAuthority(t)
	w := newTestServerTLS(t, ca.newServerTLS(), nil)
	w.connectWithCertificate(ca, "web1", false)
	x := w.session("web1")
	if now := time.Now(); !w.server.isAdmissible(x, now) || w.server.isAdmissible(x, now.Add(2*time.Hour)) {
		t.Errorf("good until %v", x.expires)
	}
	short := &x509.Certificate{NotAfter: time.Unix(1000, 0)}
	if long := (&x509.Certificate{NotAfter: time.Unix(2000, 0)}); lastExpiry([][]*x509.Certificate{{long, short}, {long, short, long}}) != short.NotAfter ||
		lastExpiry([][]*x509.Certificate{{long, short}, {long}}) != long.NotAfter {
		t.Error("a chain is as good as its shortest certificate, and the longest chain counts")
	}
}

// TestAgentWithCertificateReplacesOther connects two agents with one name, and expects the agent with a certificate to
// stay connected. The order of the connections does not matter.
func TestAgentWithCertificateReplacesOther(t *testing.T) {
	ca := newAuthority(t)
	w := newTestServerTLS(t, ca.newServerTLS(), nil)
	dial := func() (*testAgent, int) {
		return w.handshake(w.dialTLS(ca, nil, nil), "web1", "default", rightPassword, false)
	}
	first, _ := dial()
	w.openSession(first)
	if a, status := dial(); a != nil || status != 409 {
		t.Fatalf("a second one by password: %d", status)
	}
	cert := ca.issueAgent("web2", "default")
	second := w.mustHandshake(w.dialTLS(ca, &cert, nil), "web2", "", false)        // and says nothing yet
	slow := w.mustHandshake(w.dialTLS(ca, nil, nil), "web2", rightPassword, false) // nor does this one, which came last
	w.connectWithCertificate(ca, "web1", false)
	first.waitEnd()
	if a, status := dial(); a != nil || status != 409 {
		t.Errorf("by password: %d", status)
	}
	w.mu.Lock()
	if len(w.clones) != 2 {
		t.Errorf("reported %+v", w.clones)
	}
	w.mu.Unlock()
	w.openSession(second)
	go slow.read()
	slow.sendKeepalive()
	if closed := (*wsconn.CloseError)(nil); !errors.As(slow.waitEnd(), &closed) || closed.Code != 1008 {
		t.Errorf("the unproven agent ended with %+v", closed)
	}
	second.sendKeepalive()
	w.wait("the second goes on", func() bool { return len(w.signals) >= 4 })
	if x := w.session("web2"); !x.proven {
		t.Error("the unproven agent has the session")
	}
}

// testAuthority is a test CA that issues certificates of agents.
type testAuthority struct {
	*testenv.Authority
	t testing.TB
}

// newAuthority returns a test CA.
func newAuthority(t testing.TB) *testAuthority {
	t.Helper()
	return &testAuthority{testenv.NewAuthority(t), t}
}

// issueAgent returns a client certificate for an agent.
func (a *testAuthority) issueAgent(common, organization string, names ...string) tls.Certificate {
	a.t.Helper()
	c := &x509.Certificate{Subject: pkix.Name{CommonName: common}, DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if organization != "" {
		c.Subject.Organization = []string{organization}
	}
	return a.Issue(c)
}

// newServerTLS returns a server's TLS configuration that accepts agents with certificates of the test CA.
func (a *testAuthority) newServerTLS() *tls.Config {
	a.t.Helper()
	file := filepath.Join(a.t.TempDir(), "ca.crt")
	testenv.NoError(a.t, os.WriteFile(file, a.PEM(), 0o600))
	authorities := testenv.Value(admission.OpenAuthorities("--sensu-client", file, slog.New(slog.DiscardHandler)))(a.t)
	return a.serverTLS(authorities)
}

// serverTLS returns a server's TLS configuration that accepts agents with certificates of the given CAs.
func (a *testAuthority) serverTLS(authorities *admission.Authorities) *tls.Config {
	a.t.Helper()
	server := a.Issue(&x509.Certificate{DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	config := &tls.Config{Certificates: []tls.Certificate{server}, MinVersion: tls.VersionTLS12}
	authorities.ConfigureTLS(config)
	return config
}

// dialTLS opens a TLS connection with a client certificate. Nil means no certificate.
func (w *testServer) dialTLS(ca *testAuthority, show *tls.Certificate, change func(*tls.Config)) *tls.Conn {
	w.t.Helper()
	nc := testenv.Value(net.Dial("tcp", w.addr))(w.t)
	w.t.Cleanup(func() { nc.Close() })
	roots := x509.NewCertPool()
	roots.AddCert(ca.Cert)
	config := &tls.Config{RootCAs: roots, ServerName: "localhost"}
	if show != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return show, nil }
	}
	if change != nil {
		change(config)
	}
	return tls.Client(nc, config)
}

// connectWithCertificate connects an agent whose certificate proves its identity.
func (w *testServer) connectWithCertificate(ca *testAuthority, name string, json bool) *testAgent {
	w.t.Helper()
	cert := ca.issueAgent(name, "default")
	a := w.mustHandshake(w.dialTLS(ca, &cert, nil), name, "", json)
	go a.read()
	a.sendKeepalive()
	w.wait("the proven session of "+name, func() bool {
		x := w.server.registry.Get(w.nodes[a.uid()].ID)
		return x != nil && x.proven
	})
	return a
}
