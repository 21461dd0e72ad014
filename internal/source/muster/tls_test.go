package muster

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// tlsServer is a test server of agents with TLS, where machines can enrol.
type tlsServer struct {
	*testServer
	dir       string // of the authority
	authority *pki.Authority
	tokens    *memoryTokens
	tls       string // address
	listener  *Listener
}

// memoryTokens is a fake token store that keeps join tokens in memory.
type memoryTokens struct{ by map[string]pki.JoinToken }

// Create stores a join token.
func (m *memoryTokens) Create(_ context.Context, t pki.JoinToken) error { m.by[t.ID] = t; return nil }

// Find returns the join token with an id.
func (m *memoryTokens) Find(_ context.Context, id string) (pki.JoinToken, error) {
	t, ok := m.by[id]
	if !ok {
		return t, model.Errorf(model.NotFound, "no token")
	}
	return t, nil
}

// NodeOfKey finds no node, because no key in the test belongs to a node yet.
func (h *tlsServer) NodeOfKey(string) (pki.Member, bool) { return pki.Member{}, false }

// RefuseKey returns nil, because the test refuses no machine's key.
func (h *tlsServer) RefuseKey(string) error { return nil }

// UnknownNode returns false, because the test server never loses a node.
func (h *tlsServer) UnknownNode(uuid.UUID) bool { return false }

// Register registers an enrolling machine as a node with one assigned check.
func (h *tlsServer) Register(_ context.Context, key string, t pki.JoinToken, r pki.EnrolRequest) (pki.Member, error) {
	id, uid := model.NodeID(5000+len(h.nodes.nodes)), uuid.New()
	h.nodes.setNode(uid, core.Node{ID: id, Name: r.Name, Namespace: 1, Key: key})
	h.plan.assign(id, uid, 1)
	return pki.Member{UID: uid, Name: r.Name, Namespace: t.Namespace}, nil
}

// newTLSServer returns a test server with TLS and enrolment.
func newTLSServer(t *testing.T) *tlsServer { return newTLSServerWith(t, nil, nil) }

// newTLSServerWith returns a test server with TLS, enrolment, a changed configuration and a log.
func newTLSServerWith(t *testing.T, change func(*Config), log *slog.Logger) *tlsServer {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pki")
	authority := testenv.Value(pki.Open(dir, []string{"127.0.0.1"}, nil))(t)
	h := &tlsServer{dir: dir, authority: authority, tokens: &memoryTokens{by: map[string]pki.JoinToken{}}}
	h.testServer = newTestServer(t, func(c *Config) {
		c.SigningKey = authority.SigningKey()
		if change != nil {
			change(c)
		}
	})
	h.key = authority.SigningKey()
	tcp := testenv.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	h.tls = tcp.Addr().String()
	l := Listen(tcp, authority, h.server, log)
	h.listener = l
	mux := http.NewServeMux()
	mux.Handle(pki.EnrolPath, &pki.Enroller{Authority: authority, Tokens: h.tokens, Registrar: h})
	mux.HandleFunc("/whence", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello people") })
	people := &http.Server{Handler: mux}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = l.Run(ctx) })
	running.Go(func() { _ = people.Serve(l.People()) })
	stop := h.stop
	h.stop = func() { cancel(); people.Close(); stop(); running.Wait() }
	return h
}

// enrol enrols a machine with a join token and returns its identity.
func (h *tlsServer) enrol(name string) *pki.Identity { h.t.Helper(); return h.enrolBy(name, nil) }

// enrolBy enrols a machine over connections from the given dial function, and returns the machine's identity.
// The function dial opens the connections.
func (h *tlsServer) enrolBy(name string, dial func(context.Context, string, string) (net.Conn, error)) *pki.Identity {
	h.t.Helper()
	token, keep, err := h.authority.NewToken([]string{h.tls}, pki.JoinToken{Namespace: "default"})
	testenv.NoError(h.t, err)
	_ = h.tokens.Create(h.t.Context(), keep)
	id := testenv.Value(pki.Enrol(h.t.Context(), pki.EnrolConfig{Token: token, StateDir: h.t.TempDir(), Dial: dial, Request: pki.EnrolRequest{Name: name}}))(h.t)
	return id
}

// openTLS opens an agent's session over TLS with its identity.
func (h *tlsServer) openTLS(id *pki.Identity, node uuid.UUID) (*testAgent, error) {
	return h.openWith(id, node, link.TLSConfig(id, nil))
}

// openWith opens an agent's session with a TLS configuration.
func (h *tlsServer) openWith(id *pki.Identity, node uuid.UUID, config *tls.Config) (*testAgent, error) {
	plain := h.addr
	h.addr = h.tls
	defer func() { h.addr = plain }()
	return h.openSession(node, func(c *link.Config, _ *wire.Hello) { c.TLS, c.ServerKey = config, id.ServerKey })
}

// TestUserHandshakesDoNotWaitForAgents sends a user's request while agents wait for TLS handshakes, and expects an
// answer.
func TestUserHandshakesDoNotWaitForAgents(t *testing.T) {
	h := newTLSServer(t)
	id := h.enrol("web01")
	handshakes := make([]admission.Conn, h.listener.gates.FreeAgentSlots())
	for i := range handshakes {
		h.listener.gates.AcquireAgentSlot(&handshakes[i])
	}
	opened := make(chan error, 1)
	go func() {
		_, err := h.openTLS(id, id.Node)
		opened <- err
	}()
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: id.CA}}}
	defer client.CloseIdleConnections()
	page := testenv.Value(client.Get("https://" + h.tls))(t)
	page.Body.Close()
	select {
	case err := <-opened:
		t.Fatalf("an agent came in where there was no place: %v", err)
	default:
	}
	for i := range handshakes {
		handshakes[i].ReleaseHandshakeSlot()
	}
	testenv.NoError(t, <-opened)
}

// An agent opens a session over TLS with the certificate from its enrolment.
func TestEnrolledAgentOpensASession(t *testing.T) {
	h := newTLSServer(t)
	id := h.enrol("web01")
	a := testenv.Value(h.openTLS(id, id.Node))(t)
	a.waitAssignment(1)
	a.send(resultBatch(1, 2, 1))
	a.waitAck(2)
	if a.welcome.Name != "web01" {
		t.Fatalf("welcome %+v", a.welcome)
	}
}

// A browser or command on the shared port is not asked for a client certificate.
func TestUsersNeedNoCertificate(t *testing.T) {
	h := newTLSServer(t)
	asked := false
	config := &tls.Config{RootCAs: h.authority.Pool(), NextProtos: []string{"h2", "http/1.1"},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			asked = true
			return new(tls.Certificate), nil
		}}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	r := testenv.Value(client.Get("https://" + h.tls + "/"))(t)
	body, _ := io.ReadAll(r.Body)
	r.Body.Close()
	if string(body) != "hello people" || asked || r.ProtoMajor != 2 {
		t.Fatalf("%q, asked %v, HTTP/%d", body, asked, r.ProtoMajor)
	}
}

// TestSessionNeedsTheNodesCertificate opens sessions with certificates of another node or another CA, and
// expects refusals.
func TestSessionNeedsTheNodesCertificate(t *testing.T) {
	h := newTLSServer(t)
	good, other := h.enrol("good"), h.enrol("other")
	stranger := newTLSServer(t).enrol("stranger")
	t.Run("another node's certificate", func(t *testing.T) {
		_, err := h.openTLS(good, other.Node)
		if r := refusalOf(t, err); r.Code != "identity" || r.RetryMs != 0 {
			t.Fatalf("refusal %+v", r)
		}
	})
	t.Run("another CA's certificate", func(t *testing.T) {
		mixed := *good
		mixed.Certificate = stranger.Certificate
		if _, err := h.openTLS(&mixed, stranger.Node); err == nil || !strings.Contains(err.Error(), "tls") {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("no certificate", func(t *testing.T) {
		bare := *good
		bare.Certificate = tls.Certificate{}
		if _, err := h.openTLS(&bare, good.Node); err == nil || !strings.Contains(err.Error(), "tls") {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("the agent's clock is in 1970", func(t *testing.T) {
		a := testenv.Value(h.openWith(good, good.Node, link.TLSConfig(good, func() time.Time { return time.Unix(60, 0) })))(t)
		a.Close()
	})
	t.Run("the agent refuses another server", func(t *testing.T) {
		mixed := *good
		mixed.CA, mixed.CASum = stranger.CA, stranger.CASum
		if _, err := h.openTLS(&mixed, good.Node); err == nil || !strings.Contains(err.Error(), "this machine joined another server than") {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("another key than on record, also on a resumed connection", func(t *testing.T) {
		config := link.TLSConfig(good, nil)
		a := testenv.Value(h.openWith(good, good.Node, config))(t)
		a.waitAssignment(1)
		node, _ := h.nodes.Lookup(good.Node)
		if node.Key != pki.FingerprintOf(good.Certificate.Leaf) {
			t.Fatalf("key on record: %q", node.Key)
		}
		was := node.Key
		node.Key = "another"
		h.nodes.setNode(good.Node, node)
		_, err := h.openWith(good, good.Node, config)
		if r := refusalOf(t, err); r.Code != "replaced" || !strings.Contains(r.Hint, "muster node replace "+node.Name) {
			t.Fatalf("refusal %+v", r)
		}
		h.server.Disconnect(node.ID, "replaced", "another machine has its place")
		if r := a.refusal(); r.Code != "replaced" {
			t.Fatalf("refusal %+v", r)
		}
		node.Key = "" // made with its uid alone: the key that comes first is put on record
		h.nodes.setNode(good.Node, node)
		testenv.Value(h.openWith(good, good.Node, config))(t).Close()
		if node, _ = h.nodes.Lookup(good.Node); node.Key != was {
			t.Fatalf("key on record: %q, want %q", node.Key, was)
		}
	})
	t.Run("retired", func(t *testing.T) {
		gone := Retirement{Code: "retired", Sentence: "node web01 was retired by ada: scrapped", Type: "muster node token"}
		h.nodes.retire(good.Node, gone)
		_, err := h.openTLS(good, good.Node)
		if r := refusalOf(t, err); r.Code != gone.Code || r.Message != gone.Sentence || r.Hint != gone.Type || r.RetryMs == 0 {
			t.Fatalf("refusal %+v", r)
		}
	})
}

// An agent resumes its TLS session after a restart of the server.
func TestTLSSessionIsResumedAfterARestart(t *testing.T) {
	h := newTLSServer(t)
	id := h.enrol("web01")
	resumed := false
	config := link.TLSConfig(id, nil)
	verify := config.VerifyConnection
	config.VerifyConnection = func(state tls.ConnectionState) error { resumed = state.DidResume; return verify(state) }
	a := testenv.Value(h.openWith(id, id.Node, config))(t)
	a.waitAssignment(1)
	if resumed {
		t.Fatal("resumed at first")
	}
	a.Close()
	tcp := testenv.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	authority := testenv.Value(pki.Open(h.dir, []string{"127.0.0.1"}, nil))(t) // opened again, as after a restart of the server
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- Listen(tcp, authority, h.server, nil).Run(ctx) }()
	config.ServerName = "muster" // the client's session cache is keyed by the server name
	second := tcp.Addr().String()
	b := testenv.Value(h.openWith(id, id.Node, config))(t)
	b.waitAssignment(1)
	b.Close() // otherwise the next session would be refused as a clone
	h.tls = second
	c := testenv.Value(h.openWith(id, id.Node, config))(t)
	c.waitAssignment(1)
	if !resumed {
		t.Error("did not resume")
	}
	c.Close()
	cancel()
	<-ended
}

// An agent does not apply an assignment that is not signed with the server's key.
func TestForgedAssignmentIsRefused(t *testing.T) {
	w := newTestServer(t, nil)
	_, key, _ := ed25519.GenerateKey(nil)
	w.key = key // a key that is not the server's signing key
	a := w.openAgent(w.addNode(1, 1))
	testenv.Until(w.t, "the server gives up", func() bool { return w.countMetric("assignments_resent_total", "") == maxMismatches })
	a.send(resultBatch(1, 1, 1)) // the session goes on
	a.waitAck(1)
	if len(a.assignments) != 0 {
		t.Fatal("took an assignment that the server did not sign")
	}
}

// TestNamesMissingInTheCertificateAreLoggedOnce requests names that the certificate lacks, and expects a count and one
// log line. Each request is counted. The line has the setting that adds the name. Invalid names are not logged.
func TestNamesMissingInTheCertificateAreLoggedOnce(t *testing.T) {
	text := &logBuffer{}
	h := newTLSServerWith(t, nil, slog.New(slog.NewTextHandler(text, nil)))
	people := func() float64 { return testutil.ToFloat64(h.server.metrics.unknownNames.WithLabelValues("people")) }
	agents := func() float64 { return testutil.ToFloat64(h.server.metrics.unknownNames.WithLabelValues("agents")) }
	for _, name := range []string{"muster.example.org", "127.0.0.1", "muster.example.org", "a;reboot"} {
		c := testenv.Value(tls.Dial("tcp", h.tls, &tls.Config{ServerName: name, InsecureSkipVerify: true}))(t)
		c.Close()
	}
	id := h.enrol("web01")
	config := link.TLSConfig(id, nil)
	config.ServerName = "agents.example.org"
	testenv.Value(h.openWith(id, id.Node, config))(t)
	if people() != 3 || agents() != 1 {
		t.Errorf("people %v, agents %v", people(), agents())
	}
	for line, times := range map[string]int{
		"name=muster.example.org advertise=muster.example.org": 1, "name=agents.example.org": 1, "reboot": 0, "level=WARN": 1,
	} {
		if n := text.countText(line); n != times {
			t.Errorf("%q is logged %d times, want %d:\n%s", line, n, times, text.text.String())
		}
	}
	if strings.Contains(text.text.String(), "127.0.0.1,") {
		t.Errorf("loopback addresses are to be advertised:\n%s", text.text.String())
	}
}
