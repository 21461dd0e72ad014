package pki

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// memoryTokens stores join tokens in memory for tests. It counts their uses atomically, as the real store does.
type memoryTokens struct {
	mu   sync.Mutex
	rows map[string]JoinToken
}

// Find returns the join token with the given id.
func (m *memoryTokens) Find(_ context.Context, id string) (JoinToken, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.rows[id]
	if !ok {
		return t, model.Errorf(model.NotFound, "no token %s", id)
	}
	return t, nil
}

// use counts one use of a token, or returns the error for a token without uses left.
func (m *memoryTokens) use(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.rows[id]
	if err := t.CheckUses(); err != nil {
		return err
	}
	t.Uses++
	m.rows[id] = t
	return nil
}

// memoryRegistrar is a test's Registrar that keeps the nodes in memory.
type memoryRegistrar struct {
	got        []uuid.UUID
	nodesByKey map[string]Member
	keyRefusal error
	nodesLost  bool
	uses       *memoryTokens
}

// NodeOfKey returns the node whose machine has the key with the given fingerprint.
func (r *memoryRegistrar) NodeOfKey(key string) (Member, bool) {
	m, ok := r.nodesByKey[key]
	return m, ok
}

// RefuseKey returns the error that the test has set to simulate a refused machine key, or nil.
func (r *memoryRegistrar) RefuseKey(string) error { return r.keyRefusal }

// UnknownNode returns true if the test pretends that the server has lost its nodes
func (r *memoryRegistrar) UnknownNode(uuid.UUID) bool { return r.nodesLost }

// Register creates a node in memory, and counts one use of the join token.
func (r *memoryRegistrar) Register(_ context.Context, key string, t JoinToken, q EnrolRequest) (Member, error) {
	if r.uses != nil {
		if err := r.uses.use(t.ID); err != nil {
			return Member{}, err
		}
	}
	m := Member{UID: uuid.New(), Name: q.Name, Namespace: t.Namespace}
	if r.nodesByKey == nil {
		r.nodesByKey = map[string]Member{}
	}
	r.nodesByKey[key], r.got = m, append(r.got, m.UID)
	return m, nil
}

// openAuthority opens a certificate authority for a test, with a given clock and server names.
func openAuthority(t testing.TB, dir string, now func() time.Time, names ...string) *Authority {
	t.Helper()
	a, err := Open(dir, names, now)
	testenv.NoError(t, err)
	return a
}

// machineKey creates the key of a test machine, and a certificate request for the key.
func machineKey(t testing.TB) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testenv.NoError(t, err)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	testenv.NoError(t, err)
	return key, csr
}

// newToken creates a join token and stores the token on the test server.
func newToken(t testing.TB, a *Authority, tokens *memoryTokens, address string, of JoinToken) (Token, JoinToken) {
	t.Helper()
	token, keep, err := a.NewToken([]string{address}, of)
	testenv.NoError(t, err)
	tokens.rows[keep.ID] = keep
	return token, keep
}

// serveTLS serves the HTTP handler h over TLS with the authority's server certificate
func serveTLS(t *testing.T, a *Authority, h http.Handler) (address string) {
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{GetCertificate: a.GetCertificate}
	s.StartTLS()
	s.TLS.Certificates = nil // httptest's own
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// serveEnrolment serves join requests over TLS with the authority's own certificate.
func serveEnrolment(t *testing.T, a *Authority) (*memoryTokens, *memoryRegistrar, string) {
	tokens := &memoryTokens{rows: map[string]JoinToken{}}
	nodes := &memoryRegistrar{uses: tokens}
	return tokens, nodes, serveTLS(t, a, &Enroller{Authority: a, Tokens: tokens, Registrar: nodes})
}

// TestEnrolMakesNode checks that a machine with a valid join token gets an identity and becomes a node.
func TestEnrolMakesNode(t *testing.T) {
	a := openAuthority(t, t.TempDir(), nil, "127.0.0.1")
	tokens, nodes, addr := serveEnrolment(t, a)
	token, _ := newToken(t, a, tokens, addr, JoinToken{Namespace: "default", MaxUses: 1})

	parsed, err := ParseToken(token.String())
	testenv.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "agent")
	if _, err := LoadIdentity(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("before enrolment: %v", err)
	}
	id, err := Enrol(t.Context(), EnrolConfig{Token: parsed, StateDir: dir, Request: EnrolRequest{Name: "web01"}})
	testenv.NoError(t, err)
	again, err := LoadIdentity(dir)
	testenv.NoError(t, err)
	if again.Node != id.Node || len(nodes.got) != 1 || nodes.got[0] != id.Node || again.Name != "web01" {
		t.Fatalf("identity %+v, registered %v", again, nodes.got)
	}
	if !again.ServerKey.Equal(a.SigningKey().Public()) {
		t.Fatal("another signing key")
	}
	if info, _ := os.Stat(filepath.Join(dir, IdentityFile)); info.Mode().Perm() != 0o600 {
		t.Fatalf("identity file is %v", info.Mode())
	}
	// The one use is spent.
	_, err = Enrol(t.Context(), EnrolConfig{Token: parsed, StateDir: t.TempDir()})
	if model.ClassOf(err) != model.Unauthenticated || !strings.Contains(err.Error(), "its limit") {
		t.Fatalf("second use: %v", err)
	}
}

// TestEnrolmentIsIdempotentByKey enrols a machine again with the same key, and expects the same node. The join token
// does not matter.
func TestEnrolmentIsIdempotentByKey(t *testing.T) {
	a := openAuthority(t, t.TempDir(), nil)
	tokens := &memoryTokens{rows: map[string]JoinToken{}}
	nodes := &memoryRegistrar{uses: tokens}
	e := &Enroller{Authority: a, Tokens: tokens, Registrar: nodes}
	token, keep := newToken(t, a, tokens, "127.0.0.1:8443", JoinToken{Namespace: "default", MaxUses: 1})
	key, csr := machineKey(t)
	for _, secret := range [][]byte{token.Secret[:], token.Secret[:], []byte("another"), nil} {
		answer, err := e.Enrol(t.Context(), EnrolRequest{Secret: secret, CSR: csr, Name: "web01"})
		if err != nil || answer.Node != nodes.got[0] || answer.Name != "web01" || answer.Namespace != "default" {
			t.Fatalf("%+v, %v", answer, err)
		}
		cert, err := parseCert(answer.Certificate)
		if err != nil || FingerprintOf(cert) != Fingerprint(&key.PublicKey) || len(FingerprintOf(cert)) != 64 {
			t.Fatalf("the certificate is of key %s, %v", FingerprintOf(cert), err)
		}
	}
	if len(nodes.got) != 1 || tokens.rows[keep.ID].Uses != 1 {
		t.Fatalf("%d nodes, %d uses", len(nodes.got), tokens.rows[keep.ID].Uses)
	}
	nodes.nodesByKey, nodes.keyRefusal = nil, model.Errorf(model.Forbidden, "retired")
	if _, err := e.Enrol(t.Context(), EnrolRequest{CSR: csr}); model.ClassOf(err) != model.Forbidden {
		t.Fatalf("without a token: %v", err)
	}
}

// TestNodeCannotUseTokenOfOtherNode lets an enrolled machine present another node's join token, and expects a
// refusal. The token is not used up. A token for its own node is accepted.
func TestNodeCannotUseTokenOfOtherNode(t *testing.T) {
	a := openAuthority(t, t.TempDir(), nil)
	tokens := &memoryTokens{rows: map[string]JoinToken{}}
	key, csr := machineKey(t)
	is := Member{UID: uuid.New(), Name: "web01-2", Namespace: "default"}
	nodes := &memoryRegistrar{uses: tokens, nodesByKey: map[string]Member{Fingerprint(&key.PublicKey): is}}
	e := &Enroller{Authority: a, Tokens: tokens, Registrar: nodes}
	for _, c := range []struct {
		name, wants string
		token       JoinToken
		refused     string
	}{
		{"for another node", "web01-2", JoinToken{Node: uuid.New()}, "is for another node"},
		{"for this node", "db", JoinToken{Node: is.UID}, ""},
		{"that may replace, by another name", "DB01", JoinToken{Replace: true}, "is for node db01"},
		{"that may replace, by its own name", "web01-2", JoinToken{Replace: true}, ""},
		{"that may replace, whose answer was lost when the name was taken", "web01", JoinToken{Replace: true}, ""},
		{"for anything", "db", JoinToken{}, ""},
	} {
		c.token.MaxUses = 1
		token, keep := newToken(t, a, tokens, "127.0.0.1:8443", c.token)
		answer, err := e.Enrol(t.Context(), EnrolRequest{Secret: token.Secret[:], CSR: csr, Name: c.wants})
		switch {
		case c.refused != "" && (model.ClassOf(err) != model.Conflict || !strings.Contains(err.Error(), "is already node web01-2") || !strings.Contains(err.Error(), c.refused) || !strings.Contains(err.Error(), "reset-identity")):
			t.Errorf("%s: %v", c.name, err)
		case c.refused == "" && (err != nil || answer.Node != is.UID):
			t.Errorf("%s: %+v, %v", c.name, answer, err)
		}
		if uses := tokens.rows[keep.ID].Uses; uses != 0 {
			t.Errorf("%s: %d uses", c.name, uses)
		}
	}
}

// TestEnrolWithWrongClock enrols machines with a wrong clock, and expects only the server's clock to count. It alone
// decides whether a join token has expired.
func TestEnrolWithWrongClock(t *testing.T) {
	a := openAuthority(t, t.TempDir(), nil, "127.0.0.1")
	tokens, _, addr := serveEnrolment(t, a)
	token, _ := newToken(t, a, tokens, addr, JoinToken{Expires: time.Now().Add(time.Hour)})
	for _, now := range []time.Time{time.Unix(60, 0), time.Now().Add(48 * time.Hour)} {
		_, err := Enrol(t.Context(), EnrolConfig{Token: token, StateDir: t.TempDir(), Now: func() time.Time { return now }})
		testenv.NoError(t, err)
	}
}

// TestFaultyEnrolmentsAreRefused enrols with faulty join tokens, and expects a refusal and no new node. The faults are
// an unknown secret, another CA and a past expiry.
func TestFaultyEnrolmentsAreRefused(t *testing.T) {
	clock := time.Now()
	a := openAuthority(t, t.TempDir(), func() time.Time { return clock }, "127.0.0.1")
	tokens, nodes, addr := serveEnrolment(t, a)
	other := openAuthority(t, t.TempDir(), nil, "127.0.0.1")
	good, _ := newToken(t, a, tokens, addr, JoinToken{Expires: clock.Add(time.Hour)})

	wrongSecret := good
	wrongSecret.Secret[0]++
	wrongCA := good
	wrongCA.CA = other.CASum()
	unexpired := good // an agent whose clock is behind; the server's clock decides
	unexpired.Expiry = time.Time{}
	for _, c := range []struct {
		name  string
		token Token
		at    time.Duration
		want  string
	}{
		{"unknown secret", wrongSecret, 0, "the join token is unknown to the server"},
		{"another server", wrongCA, 0, "is for another server than"},
		{"expired there", unexpired, 2 * time.Hour, "expired"},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := clock
			clock = clock.Add(c.at)
			defer func() { clock = start }()
			now := func() time.Time { return clock }
			if c.name == "expired there" {
				now = nil
			}
			_, err := Enrol(t.Context(), EnrolConfig{Token: c.token, StateDir: t.TempDir(), Now: now})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
		})
	}
	if len(nodes.got) != 0 {
		t.Fatalf("registered %v", nodes.got)
	}
}

// TestServerHasCAComparesCAHash expects a client to identify a server by the hash of its CA. The client sends
// nothing before that.
func TestServerHasCAComparesCAHash(t *testing.T) {
	a, other := openAuthority(t, t.TempDir(), nil, "127.0.0.1"), openAuthority(t, t.TempDir(), nil, "127.0.0.1")
	_, _, addr := serveEnrolment(t, a)
	for _, c := range []struct {
		of   *Authority
		ours bool
	}{{a, true}, {other, false}} {
		if ours, err := ServerHasCA(t.Context(), addr, c.of.CASum()); ours != c.ours || err != nil {
			t.Errorf("%v, %v; want %v", ours, err, c.ours)
		}
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	if ours, err := ServerHasCA(t.Context(), gone.Listener.Addr().String(), a.CASum()); ours || model.ClassOf(err) != model.Unavailable {
		t.Errorf("ServerHasCA without a server: %v, %v", ours, err)
	}
}

// TestAuthoritySurvivesRestart checks that an authority opened again has the same CA, signing key and server
// certificate.
func TestAuthoritySurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	clock := time.Now()
	now := func() time.Time { return clock }
	a := openAuthority(t, dir, now, "muster.example", "10.0.0.1")
	first, _ := a.GetCertificate(nil)
	b := openAuthority(t, dir, now, "10.0.0.1", "muster.example")
	second, _ := b.GetCertificate(nil)
	if a.CASum() != b.CASum() || !a.SigningKey().Equal(b.SigningKey()) {
		t.Fatal("another authority after a restart")
	}
	if !first.Leaf.Equal(second.Leaf) {
		t.Fatal("the server certificate was made anew without need")
	}
	renamed, _ := openAuthority(t, dir, now, "other.example").GetCertificate(nil)
	if renamed.Leaf.Equal(first.Leaf) || renamed.Leaf.VerifyHostname("other.example") != nil {
		t.Fatal("names changed, the certificate did not")
	}
	c := openAuthority(t, dir, now, "other.example")
	clock = clock.Add(serverLife * 3 / 4)
	renewed, _ := c.GetCertificate(nil)
	if renewed.Leaf.Equal(renamed.Leaf) {
		t.Fatal("the server certificate was not renewed after three quarters of its life")
	}
	// Half of a pair is damage: it creates no new CA.
	testenv.NoError(t, os.Remove(filepath.Join(dir, caFile)))
	if _, err := Open(dir, nil, now); err == nil || !strings.Contains(err.Error(), "backup") {
		t.Fatalf("CA certificate lost: %v", err)
	}
}

// TestFaultyTokensAreRefused checks that ParseToken refuses malformed join tokens.
func TestFaultyTokensAreRefused(t *testing.T) {
	for _, text := range []string{"", "mj1.", "mj2.AAAA", "mj1.!!", "mj1.AAAA"} {
		if _, err := ParseToken(text); model.ClassOf(err) != model.Invalid {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzParseToken parses random texts as join tokens, and expects each valid text to stay the same when formatted. Only
// accepted tokens count.
func FuzzParseToken(f *testing.F) {
	f.Add(Token{Addresses: []string{"a:1", "[::1]:2"}, Expiry: time.Unix(1e9, 0)}.String())
	f.Add("mj1.AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseToken(text)
		if err != nil {
			return
		}
		if again, err := ParseToken(token.String()); err != nil || again.String() != token.String() {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

// deadlineRecorder is a ResponseWriter that records the read deadline of its connection.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	until time.Time
}

// SetReadDeadline records the read deadline that the server sets for the connection.
func (d *deadlineRecorder) SetReadDeadline(t time.Time) error { d.until = t; return nil }

// TestEnrolmentHasATimeLimit checks that the server sets a read deadline for an enrolment request.
func TestEnrolmentHasATimeLimit(t *testing.T) {
	e := &Enroller{Authority: openAuthority(t, t.TempDir(), nil), Tokens: &memoryTokens{rows: map[string]JoinToken{}}}
	w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, EnrolPath, strings.NewReader("{")))
	if left := time.Until(w.until); left <= 0 || left > enrolTimeout {
		t.Fatalf("a body may take %v", left)
	}
}
