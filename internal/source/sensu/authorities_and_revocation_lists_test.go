package sensu

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestReloadedAuthoritiesReplaceSessions checks that agents of a newly added CA can connect while old sessions
// continue. Sessions of a removed authority end, and its agents are refused. An unreadable file changes nothing and
// is logged once.
func TestReloadedAuthoritiesReplaceSessions(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	write := func(texts ...string) {
		t.Helper()
		testenv.NoError(t, os.WriteFile(file, []byte(strings.Join(texts, "")), 0o600))
	}
	write(string(before.certificatePEM()))
	var log lockedBuffer
	authorities := testenv.Value(OpenAuthorities(file, slog.New(slog.NewTextHandler(&log, nil))))(t)
	w := newTestServerTLS(t, before.serverTLS(authorities), func(c *Config) { c.Authorities = authorities })
	refused := func(by *testAuthority) bool {
		t.Helper()
		cert := by.issueAgent("web9", "default")
		conn := w.dialTLS(before, &cert, nil)
		_, err := conn.Write([]byte("GET / HTTP/1.1\r\n"))
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		return err != nil && strings.Contains(err.Error(), "unknown certificate authority")
	}
	// comes connects one to the server, whose own certificate stays.
	comes := func(by *testAuthority, name string) *testAgent {
		t.Helper()
		cert := by.issueAgent(name, "default")
		a := w.mustHandshake(w.dialTLS(before, &cert, nil), name, "", false)
		return w.openSession(a)
	}
	old := comes(before, "web1")
	sharedPassword := w.mustHandshake(w.dialTLS(before, nil, nil), "web3", rightPassword, false)
	w.openSession(sharedPassword)
	if !refused(after) {
		t.Error("an unknown authority is accepted")
	}

	for _, damaged := range []string{"", "no PEM", string(before.certificatePEM()) + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		write(string(before.certificatePEM()))
		w.server.recheckSessions(time.Now())
		log.reset()
		write(damaged)
		for range 4 {
			w.server.recheckSessions(time.Now())
		}
		if n := strings.Count(log.text(), "level=ERROR"); n != 1 {
			t.Errorf("%q: %d errors logged, want 1: %s", damaged, n, log.text())
		}
	}
	testenv.NoError(t, os.Remove(file))
	w.server.recheckSessions(time.Now())
	comes(before, "web4")

	log.reset()
	write(string(before.certificatePEM()), string(after.certificatePEM()))
	w.server.recheckSessions(time.Now())
	if !refused(after) {
		t.Error("the list was applied before two reads agreed")
	}
	w.server.recheckSessions(time.Now())
	if !strings.Contains(log.text(), "authorities=2 new=1 gone=0") {
		t.Errorf("logged: %s", log.text())
	}
	young := comes(after, "web2")
	if w.session("web1").Ended() || !w.session("web2").proven {
		t.Error("a session of an accepted authority ended")
	}

	write(string(after.certificatePEM()))
	w.server.recheckSessions(time.Now())
	w.server.recheckSessions(time.Now())
	if err := old.waitEnd(); err == nil {
		t.Error("the session of a removed authority did not end")
	}
	if !refused(before) {
		t.Error("a removed authority is accepted")
	}
	w.server.recheckSessions(time.Now())
	young.sendKeepalive()
	select {
	case err := <-young.ended:
		t.Errorf("of the new authority: %v", err)
	case err := <-sharedPassword.ended:
		t.Errorf("by a password: %v", err)
	default:
	}
}

// TestMissingOrEmptyAuthoritiesAreAnError starts a server with a missing or empty CA file, and expects an error.
func TestMissingOrEmptyAuthoritiesAreAnError(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if _, err := OpenAuthorities(file, log); err == nil || !strings.Contains(err.Error(), "--sensu-client-ca FILE") {
		t.Errorf("not there: %v", err)
	}
	testenv.NoError(t, os.WriteFile(file, []byte("no PEM"), 0o600))
	if _, err := OpenAuthorities(file, log); err == nil || !strings.Contains(err.Error(), "no PEM certificate") {
		t.Errorf("no PEM: %v", err)
	}
}

// FuzzAuthorities parses random files of CA certificates, and expects an error or at least one CA.
func FuzzAuthorities(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("no PEM"))
	f.Add(newAuthority(f).certificatePEM())
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parseAuthorities(text)
		if (got == nil) == (err == nil) || got != nil && len(got.sums) == 0 {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// revocationList returns a signed revocation list in PEM.
func (a *testAuthority) revocationList(number int64, until time.Time, certs ...tls.Certificate) string {
	a.t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(number), ThisUpdate: until.Add(-time.Hour), NextUpdate: until}
	for _, c := range certs {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.Leaf.SerialNumber, RevocationTime: until.Add(-time.Hour)})
	}
	der := testenv.Value(x509.CreateRevocationList(rand.Reader, list, a.cert, a.key))(a.t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}))
}

// A revocation ends the session of the certificate, and refuses later connections. A right password does not help.
// Another certificate of the machine is accepted. An unreadable list changes nothing and is logged once; an expired
// list stays in force and is logged.
func TestRevokedCertificateEndsItsSession(t *testing.T) {
	ca := newAuthority(t)
	folder := t.TempDir()
	file, crl := filepath.Join(folder, "ca.crt"), filepath.Join(folder, "ca.crl")
	write := func(path, text string) {
		t.Helper()
		testenv.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(file, string(ca.certificatePEM()))
	var log lockedBuffer
	authorities := testenv.Value(OpenAuthorities(file, slog.New(slog.NewTextHandler(&log, nil))))(t)
	if err := authorities.OpenRevoked(crl, time.Now()); err == nil || !strings.Contains(err.Error(), "--sensu-client-crl FILE") {
		t.Errorf("not there: %v", err)
	}
	tomorrow := time.Now().Add(24 * time.Hour)
	write(crl, ca.revocationList(1, tomorrow))
	testenv.NoError(t, authorities.OpenRevoked(crl, time.Now()))
	w := newTestServerTLS(t, ca.serverTLS(authorities), func(c *Config) { c.Authorities = authorities })
	comes := func(cert *tls.Certificate, name, password string) (*testAgent, int) {
		t.Helper()
		a, status := w.handshake(w.dialTLS(ca, cert, nil), name, "default", password, false)
		if a != nil {
			w.openSession(a)
		}
		return a, status
	}
	first, second, other := ca.issueAgent("web1", "default"), ca.issueAgent("web1", "default"), ca.issueAgent("web2", "default")
	lost, _ := comes(&first, "web1", "")
	stays, _ := comes(&other, "web2", "")
	sharedPassword, _ := comes(nil, "web3", rightPassword)
	if lost == nil || stays == nil || sharedPassword == nil {
		t.Fatal("an agent was refused before the revocation")
	}
	again := func(at time.Time) {
		w.server.recheckSessions(at)
		w.server.recheckSessions(at)
	}

	write(crl, ca.revocationList(2, tomorrow, first))
	w.server.recheckSessions(time.Now())
	if w.session("web1").Ended() {
		t.Error("the list was applied before two reads agreed")
	}
	w.server.recheckSessions(time.Now())
	if err := lost.waitEnd(); err == nil {
		t.Error("the session of a revoked certificate did not end")
	}
	if a, status := comes(&first, "web1", rightPassword); a != nil || status != http.StatusForbidden {
		t.Errorf("a revoked certificate: %d", status)
	}
	if a, status := comes(&second, "web1", ""); a == nil {
		t.Errorf("another one of the same machine: %d", status)
	}

	for _, damaged := range []string{"", "no list", newAuthority(t).revocationList(3, tomorrow, second)} {
		log.reset()
		write(crl, damaged)
		again(time.Now())
		again(time.Now())
		if n := strings.Count(log.text(), "level=ERROR"); n != 1 {
			t.Errorf("%d errors logged, want 1: %s", n, log.text())
		}
	}
	if a, status := comes(&first, "web1", ""); a != nil {
		t.Errorf("what is damaged lets in: %d", status)
	}

	log.reset()
	write(crl, ca.revocationList(4, time.Now().Add(-time.Minute), first))
	again(time.Now())
	again(time.Now())
	if n := strings.Count(log.text(), "level=ERROR"); n != 1 {
		t.Errorf("%d errors logged, want 1: %s", n, log.text())
	}
	authorities.Refresh(time.Now().Add(2 * time.Hour)) // without a look at who is connected: certificates end, too
	if n := strings.Count(log.text(), "level=ERROR"); n != 2 {
		t.Errorf("%d errors logged, want 1: %s", n, log.text())
	}
	if a, status := comes(&first, "web1", ""); a != nil {
		t.Errorf("what is out of date lets in: %d", status)
	}
	stays.sendKeepalive()
	for _, a := range []*testAgent{stays, sharedPassword} {
		select {
		case err := <-a.ended:
			t.Errorf("the session of a valid certificate ended: %v", err)
		default:
		}
	}

	write(crl, ca.revocationList(5, tomorrow))
	again(time.Now())
	if a, status := comes(&first, "web1", ""); a != nil || status != http.StatusConflict {
		t.Errorf("it is good again, and another one holds the name: %d", status)
	}
}

// TestListRevokesCertificatesOfItsAuthorityOnly lists a certificate's serial number as revoked by another CA,
// and expects no revocation. Both CAs have the same name.
func TestListRevokesCertificatesOfItsAuthorityOnly(t *testing.T) {
	one, two := newAuthority(t), newAuthority(t)
	cert := one.issueAgent("web1", "default")
	read := testenv.Value(parseLists([]byte(two.revocationList(1, time.Now().Add(time.Hour), cert)), []*x509.Certificate{one.cert, two.cert}))(t)
	chain := [][]*x509.Certificate{{cert.Leaf, one.cert}}
	if _, ok := read.entries[serialsOf(chain)[0]]; ok {
		t.Error("revoked by another authority with the same name")
	}
}

// readFixture reads a test file that openssl generated.
func readFixture(t testing.TB, name string) []byte {
	t.Helper()
	text := testenv.Value(os.ReadFile(filepath.Join("testdata", "revoked", name)))(t)
	return text
}

// readCertificate reads a certificate that openssl generated.
func readCertificate(t testing.TB, name string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(readFixture(t, name))
	cert := testenv.Value(x509.ParseCertificate(block.Bytes))(t)
	return cert
}

// Revocation lists of openssl are read, in PEM and in DER. Incomplete, damaged and wrongly signed lists are errors.
func TestRevocationListsOfOpenSSLAreRead(t *testing.T) {
	authority, web01 := readCertificate(t, "ca.crt"), readCertificate(t, "web01.crt")
	by := []*x509.Certificate{readCertificate(t, "web01.crt"), authority}
	for _, name := range []string{"list.crl", "list.der"} {
		got, err := parseLists(readFixture(t, name), by)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(got.entries) != 1 || got.expires.IsZero() || got.issuer != "CN=Sensu agents" || !got.issuers[authorityKey(authority)] {
			t.Errorf("%s: %+v", name, got)
		}
		if since := got.entries[serialsOf([][]*x509.Certificate{{web01, authority}})[0]]; since.IsZero() {
			t.Errorf("%s: web01 is not revoked", name)
		}
	}
	damaged := readFixture(t, "list.der")
	damaged[len(damaged)-10] ^= 1
	for what, of := range map[string][2]string{
		"version 1":                 {string(readFixture(t, "v1.crl")), "crlnumber"},
		"of some certificates only": {string(readFixture(t, "part.crl")), "2.5.29.28"},
		"of a namesake":             {string(readFixture(t, "stranger.crl")), "not signed by the authority of this name"},
		"damaged":                   {string(damaged), "not signed by the authority of this name"},
		"one good, one bad":         {string(readFixture(t, "list.crl")) + string(readFixture(t, "stranger.crl")), "revocation list number 2"},
		"a certificate":             {string(readFixture(t, "ca.crt")), "not a revocation list"},
		"nothing":                   {"", "not a revocation list"},
		"words":                     {"0 lists", "x509:"},
	} {
		if got, err := parseLists([]byte(of[0]), by); err == nil || !strings.Contains(err.Error(), of[1]) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	if _, err := parseLists(readFixture(t, "list.crl"), nil); err == nil || !strings.Contains(err.Error(), "--sensu-client-ca") {
		t.Errorf("of nobody here: %v", err)
	}
}

// A revocation list of a removed CA is ignored. The other lists of the file are used.
func TestRevocationListOfARemovedAuthorityIsIgnored(t *testing.T) {
	key := testenv.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	old := &x509.Certificate{Subject: pkix.Name{CommonName: "Old agents"}, SubjectKeyId: []byte{1}, KeyUsage: x509.KeyUsageCRLSign}
	der := testenv.Value(x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour)}, old, key))(t)
	text := slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}), readFixture(t, "list.crl"))
	got, err := parseLists(text, []*x509.Certificate{readCertificate(t, "ca.crt")})
	if err != nil || len(got.entries) != 1 || got.issuer != "CN=Sensu agents" || !slices.Equal(got.ignored, []string{"CN=Old agents"}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzRevocationLists parses random files, and expects an error or at least one revocation list.
func FuzzRevocationLists(f *testing.F) {
	for _, name := range []string{"list.crl", "list.der", "v1.crl", "part.crl", "ca.crt"} {
		f.Add(readFixture(f, name))
	}
	by := []*x509.Certificate{readCertificate(f, "ca.crt")}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parseLists(text, by)
		if (got == nil) == (err == nil) || got != nil && len(got.issuers) == 0 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
