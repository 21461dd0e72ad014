package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// enrolMember enrols a machine and returns its identity, stored in dir.
func enrolMember(t testing.TB, a *Authority, nodes *memoryRegistrar, dir string) *Identity {
	t.Helper()
	key, _ := machineKey(t)
	m, err := nodes.Register(t.Context(), Fingerprint(&key.PublicKey), JoinToken{Namespace: "default"}, EnrolRequest{Name: "web01"})
	testenv.NoError(t, err)
	cert, err := a.signNodeCertificate(&key.PublicKey, m.UID)
	testenv.NoError(t, err)
	pem, err := keyPEM(key)
	testenv.NoError(t, err)
	data, err := json.Marshal(map[string]any{
		"node": m.UID, "name": m.Name, "namespace": m.Namespace, "certificate": cert, "ca": a.CAPEM(),
		"serverKey": publicKey(a.SigningKey()), "key": pem, "ofALaterVersion": 7,
	})
	testenv.NoError(t, err)
	testenv.NoError(t, writeFile(filepath.Join(dir, IdentityFile), data))
	id, err := LoadIdentity(dir)
	testenv.NoError(t, err)
	return id
}

// serveRenewals serves renewals over TLS with the authority's own certificate.
func serveRenewals(t *testing.T, r *Enroller) (address string, outcomes map[string]int) {
	outcomes = map[string]int{}
	return serveTLS(t, r.Authority, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { outcomes[r.ServeRenewal(w, q, ignoreWrongToken)]++ })), outcomes
}

// TestRenewKeepsKey renews certificates before and after expiry, and expects the same key. Renewal works up to a year
// after expiry. The other fields in the identity file stay unchanged.
func TestRenewKeepsKey(t *testing.T) {
	began := time.Now()
	for _, c := range []struct {
		name    string
		after   time.Duration
		outcome string
		want    string // in the error; empty: success
	}{
		{"half its life", 45 * 24 * time.Hour, Renewed, ""},
		{"after its end", 100 * 24 * time.Hour, RenewedExpired, ""},
		{"a year after its end", (90+365)*24*time.Hour - time.Second, RenewedExpired, ""},
		{"later", (90+365)*24*time.Hour + time.Minute, RenewTooOld, "on the server: muster node replace web01"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock, dir, nodes := began, t.TempDir(), &memoryRegistrar{}
			now := func() time.Time { return clock }
			a := openAuthority(t, t.TempDir(), now, "127.0.0.1")
			id := enrolMember(t, a, nodes, dir)
			clock = clock.Add(c.after)
			address, outcomes := serveRenewals(t, &Enroller{Authority: a, Registrar: nodes})
			next, err := Renew(t.Context(), RenewConfig{Identity: id, StateDir: dir, Servers: []string{"127.0.0.1:1", address}, Now: now})
			if outcomes[c.outcome] != 1 {
				t.Errorf("outcomes %v, want %s", outcomes, c.outcome)
			}
			if c.want != "" {
				if model.ClassOf(err) != model.Forbidden || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				return
			}
			testenv.NoError(t, err)
			kept, err := LoadIdentity(dir)
			if err != nil || !kept.Certificate.Leaf.Equal(next.Certificate.Leaf) {
				t.Fatalf("another one is kept: %v", err)
			}
			if next.Node != id.Node || FingerprintOf(next.Certificate.Leaf) != FingerprintOf(id.Certificate.Leaf) {
				t.Error("another node, or key")
			}
			if end := next.Certificate.Leaf.NotAfter; !end.Equal(clock.Add(90 * 24 * time.Hour).Truncate(time.Second)) {
				t.Errorf("the renewed certificate ends at %s", end)
			}
			if data, _ := os.ReadFile(filepath.Join(dir, IdentityFile)); !strings.Contains(string(data), `"ofALaterVersion": 7`) {
				t.Errorf("the file holds\n%s", data)
			}
		})
	}
}

// TestFaultyRenewalsAreRefused expects an error for renewals with a foreign certificate or key. Foreign means of
// another node, CA or machine, or of a retired node.
func TestFaultyRenewalsAreRefused(t *testing.T) {
	a, other := openAuthority(t, t.TempDir(), nil), openAuthority(t, t.TempDir(), nil)
	nodes := &memoryRegistrar{}
	id := enrolMember(t, a, nodes, t.TempDir())
	request := func(change func(*RenewRequest)) RenewRequest {
		var r RenewRequest
		body, err := id.renewRequest(nil)
		testenv.NoError(t, err)
		testenv.NoError(t, json.Unmarshal(body, &r))
		if change != nil {
			change(&r)
		}
		return r
	}
	foreign, _ := other.IssueNodeCertificate(request(nil).CSR, id.Node)
	block, _ := pem.Decode(foreign)
	otherNode, _ := a.IssueNodeCertificate(request(nil).CSR, uuid.New())
	stray, _ := pem.Decode(otherNode)
	_, csr := machineKey(t)
	gone := model.Errorf(model.Forbidden, "node web01 was retired").WithHint("muster node token")
	for _, c := range []struct {
		name    string
		change  func(*RenewRequest)
		held    bool
		gone    error
		outcome string
		class   model.Class
	}{
		{"no certificate", func(r *RenewRequest) { r.Certificate = r.CSR }, true, nil, RenewMalformed, model.Invalid},
		{"no request", func(r *RenewRequest) { r.CSR = r.Certificate }, true, nil, RenewMalformed, model.Invalid},
		{"another CA's", func(r *RenewRequest) { r.Certificate = block.Bytes }, true, nil, RenewForeign, model.Unauthenticated},
		{"the server's", func(r *RenewRequest) { s, _ := a.GetCertificate(nil); r.Certificate = s.Leaf.Raw }, true, nil, RenewForeign, model.Unauthenticated},
		{"another key", func(r *RenewRequest) { r.CSR = csr }, true, nil, RenewKey, model.Unauthenticated},
		{"another node's", func(r *RenewRequest) { r.Certificate = stray.Bytes }, true, nil, RenewUnknown, model.Forbidden},
		{"retired", nil, false, gone, RenewBarred, model.Forbidden},
		{"nobody", nil, false, nil, RenewUnknown, model.Forbidden},
		{"right", nil, true, gone, Renewed, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			known := &memoryRegistrar{keyRefusal: c.gone}
			if c.held {
				known.nodesByKey = nodes.nodesByKey
			}
			_, outcome, err := (&Enroller{Authority: a, Registrar: known}).Renew(request(c.change))
			if outcome != c.outcome || c.class != 0 && model.ClassOf(err) != c.class || c.class == 0 && err != nil {
				t.Errorf("%s, %v (%v); want %s", outcome, err, model.ClassOf(err), c.outcome)
			}
			if outcome == RenewUnknown && !strings.Contains(err.Error(), "muster-agent reset-identity") {
				t.Errorf("error without a command to type: %v", err)
			}
		})
	}
}

// TestPersonDecidesAboutLostNode renews the certificate of a lost node, and expects the server to wait for a
// person's decision. An accepted node keeps its id.
func TestPersonDecidesAboutLostNode(t *testing.T) {
	clock, dir, nodes := time.Now(), t.TempDir(), &memoryRegistrar{}
	now := func() time.Time { return clock }
	a := openAuthority(t, t.TempDir(), now, "127.0.0.1")
	id := enrolMember(t, a, nodes, dir)
	known := nodes.nodesByKey
	var asked []EnrolRequest
	r := &Enroller{Authority: a, Registrar: nodes, Pending: func(key string, q EnrolRequest) (time.Duration, error) {
		if key != FingerprintOf(id.Certificate.Leaf) {
			t.Errorf("asks for key %s", key)
		}
		asked = append(asked, q)
		return 7 * time.Second, nil
	}}
	address, outcomes := serveRenewals(t, r)
	renew := func() (*Identity, error) {
		return Renew(t.Context(), RenewConfig{Identity: id, StateDir: dir, Servers: []string{address}, Now: now,
			Request: EnrolRequest{MachineID: "m", Facts: map[string]string{"os": "linux"}, Secret: []byte("no")}})
	}
	nodes.nodesByKey, nodes.nodesLost = nil, true
	_, err := renew()
	var pending *PendingError
	if !errors.As(err, &pending) || pending.RetryAfter != 7*time.Second || pending.Key != FingerprintOf(id.Certificate.Leaf) || len(asked) != 1 {
		t.Fatalf("%v, %+v", err, asked)
	}
	got := asked[0]
	if got.Returns == nil || got.Returns.UID != id.Node || got.Returns.Namespace != "default" || !got.Returns.Certified.Equal(id.Certificate.Leaf.NotBefore.Add(backdate)) ||
		got.Name != "web01" || got.MachineID != "m" || got.Facts["os"] != "linux" || got.Address == "" || got.Secret != nil {
		t.Errorf("asks as %+v", got)
	}
	for _, c := range []struct {
		name    string
		change  func()
		outcome string
	}{
		{"it was retired", func() { nodes.keyRefusal = model.Errorf(model.Forbidden, "retired") }, RenewBarred},
		{"another machine has its place", func() { nodes.nodesLost = false }, RenewUnknown},
		{"a node with another id has its key", func() { nodes.nodesByKey = map[string]Member{FingerprintOf(id.Certificate.Leaf): {UID: uuid.New()}} }, RenewUnknown},
		{"nobody may wait", func() { r.Pending = nil }, RenewUnknown},
		{"it expired too long ago", func() { clock = clock.Add(NodeLife + RenewableFor + time.Hour) }, RenewUnknown},
	} {
		held, missing, gone, ask, at, before := nodes.nodesByKey, nodes.nodesLost, nodes.keyRefusal, r.Pending, clock, outcomes[c.outcome]
		c.change()
		if _, err := renew(); model.ClassOf(err) != model.Forbidden || outcomes[c.outcome] != before+1 {
			t.Errorf("%s: %v, %v", c.name, err, outcomes)
		}
		nodes.nodesByKey, nodes.nodesLost, nodes.keyRefusal, r.Pending, clock = held, missing, gone, ask, at
	}
	nodes.nodesByKey = known
	if next, err := renew(); err != nil || next.Node != id.Node || outcomes[RenewPending] != 1 || len(asked) != 1 {
		t.Errorf("renewal of an accepted node: %v, %v", err, outcomes)
	}
}

// TestRenewalsAreSpread lets a fleet join within a minute, and expects its certificate renewals to spread over two
// weeks. They come after two thirds of the lifetime and before expiry.
func TestRenewalsAreSpread(t *testing.T) {
	a := openAuthority(t, t.TempDir(), nil)
	id := enrolMember(t, a, &memoryRegistrar{}, t.TempDir())
	end := id.Certificate.Leaf.NotAfter
	if life := Lifetime(id); life.Round(time.Minute) != NodeLife {
		t.Fatalf("a life of %s", life)
	}
	days := map[int]int{}
	for range 3000 {
		id.Node = uuid.New()
		left := end.Sub(RenewAt(id))
		if left > 30*24*time.Hour+time.Second || left < 15*24*time.Hour-time.Second {
			t.Fatalf("renews %s before the end", left)
		}
		days[int(left/(24*time.Hour))]++
	}
	for day, n := range days {
		if n > 300 { // 200 on average
			t.Errorf("%d of 3000 renew %d days before the end", n, day)
		}
	}
}

// TestServerCertificateOnFullDisk renews the server certificate on a full disk, and expects the old certificate
// to stay in use. It stays until it expires.
func TestServerCertificateOnFullDisk(t *testing.T) {
	dir, clock := t.TempDir(), time.Now()
	a := openAuthority(t, dir, func() time.Time { return clock }, "127.0.0.1")
	first, _ := a.GetCertificate(nil)
	clock = clock.Add(serverLife * 3 / 4)
	testenv.NoError(t, os.Rename(dir, dir+"-away"))
	if got, err := a.GetCertificate(nil); err != nil || got != first {
		t.Fatalf("%v, %v", got, err)
	}
	testenv.NoError(t, os.Rename(dir+"-away", dir))
	if got, _ := a.GetCertificate(nil); got != first {
		t.Error("tried again at once")
	}
	clock = clock.Add(renewRetry)
	if got, err := a.GetCertificate(nil); err != nil || got == first || !got.Leaf.NotAfter.After(clock.Add(serverLife-time.Minute)) {
		t.Errorf("the server certificate was not renewed: %v", err)
	}
}

// FuzzRenew sends random renewal requests and answers, and expects certificates only for nodes. A client accepts only
// a certificate of its own node.
func FuzzRenew(f *testing.F) {
	a := openAuthority(f, f.TempDir(), nil)
	nodes, dir := &memoryRegistrar{}, f.TempDir()
	id := enrolMember(f, a, nodes, dir)
	right, err := id.renewRequest(nil)
	testenv.NoError(f, err)
	good, err := json.Marshal(RenewAnswer{Certificate: certPEM(id.Certificate.Certificate[0])})
	testenv.NoError(f, err)
	f.Add(right)
	f.Add(good)
	f.Add([]byte(`{"pending":{"againMs":5000}}`))
	f.Add([]byte(`{"certificate":"AAAA","csr":7}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		w := httptest.NewRecorder()
		outcome := (&Enroller{Authority: a, Registrar: nodes}).ServeRenewal(w, httptest.NewRequest(http.MethodPost, RenewPath, strings.NewReader(string(data))), ignoreWrongToken)
		if (w.Code == http.StatusOK) != (outcome == Renewed) || w.Code >= 500 {
			t.Fatalf("%d %s %s", w.Code, outcome, w.Body)
		}
		if w.Code == http.StatusOK {
			var answer RenewAnswer
			testenv.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
			if cert, err := parseCert(answer.Certificate); err != nil || FingerprintOf(cert) != FingerprintOf(id.Certificate.Leaf) {
				t.Fatalf("a certificate for another key: %v", err)
			}
		}
		if next, err := id.readRenewal(dir, "", data); err == nil && (next.Node != id.Node || FingerprintOf(next.Certificate.Leaf) != FingerprintOf(id.Certificate.Leaf)) {
			t.Fatalf("took %+v", next)
		}
	})
}

// TestClientsWithoutECDSAGetCertificate connects with RSA alone, and with all algorithms. The second client uses a name that the
// certificate lacks. Both get a certificate of the CA, and the second one gets that of all listeners.
func TestClientsWithoutECDSAGetCertificate(t *testing.T) {
	a := testenv.Value(Open(t.TempDir(), []string{"localhost"}, time.Now))(t)
	for algorithm, suites := range map[x509.PublicKeyAlgorithm][]uint16{x509.RSA: {tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}, x509.ECDSA: nil} {
		ours, theirs := net.Pipe()
		server := tls.Server(ours, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: a.CertificateForAll})
		ended := make(chan error, 1)
		go func() { ended <- server.Handshake() }()
		client := tls.Client(theirs, &tls.Config{InsecureSkipVerify: true, ServerName: "other.example.org", MaxVersion: tls.VersionTLS12, CipherSuites: suites})
		err := client.Handshake()
		if err = errors.Join(err, <-ended); err != nil {
			t.Errorf("%v: %v", algorithm, err)
			continue
		}
		leaf := client.ConnectionState().PeerCertificates[0]
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: a.Pool(), DNSName: "localhost"}); err != nil || leaf.PublicKeyAlgorithm != algorithm {
			t.Errorf("%v, want %v; %v", leaf.PublicKeyAlgorithm, algorithm, err)
		}
		if again := testenv.Value(a.GetCertificate(nil))(t); again.Leaf.Equal(leaf) != (algorithm == x509.ECDSA) {
			t.Errorf("%v: the certificate of all listeners: %v", algorithm, again.Leaf.SerialNumber)
		}
	}
}
