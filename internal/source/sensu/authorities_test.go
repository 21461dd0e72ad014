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

// A new authority comes in beside the old one while sessions live; when the old one is taken out of
// the file its agents go, and are refused. What cannot be read changes nothing, and is told once.
func TestChangedAuthority(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	write := func(texts ...string) {
		t.Helper()
		testenv.NoError(t, os.WriteFile(file, []byte(strings.Join(texts, "")), 0o600))
	}
	write(string(before.pem()))
	var log lockedBuffer
	authorities := testenv.Value(OpenAuthorities(file, slog.New(slog.NewTextHandler(&log, nil))))(t)
	w := newWorldBehind(t, before.serverTLS(authorities), func(c *Config) { c.Authorities = authorities })
	refused := func(by *authority) bool {
		t.Helper()
		cert := by.of("web9", "default")
		conn := w.reach(before, &cert, nil)
		_, err := conn.Write([]byte("GET / HTTP/1.1\r\n"))
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		return err != nil && strings.Contains(err.Error(), "unknown certificate authority")
	}
	// comes connects one to the server, whose own certificate stays.
	comes := func(by *authority, name string) *agent {
		t.Helper()
		cert := by.of(name, "default")
		a := w.mustShake(w.reach(before, &cert, nil), name, "", false)
		return w.live(a)
	}
	old := comes(before, "web1")
	sharedPassword := w.mustShake(w.reach(before, nil, nil), "web3", rightPassword, false)
	w.live(sharedPassword)
	if !refused(after) {
		t.Error("a stranger's authority is taken")
	}

	for _, damaged := range []string{"", "no PEM", string(before.pem()) + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		write(string(before.pem()))
		w.server.recheck(time.Now())
		log.reset()
		write(damaged)
		for range 4 {
			w.server.recheck(time.Now())
		}
		if n := strings.Count(log.text(), "level=ERROR"); n != 1 {
			t.Errorf("%q: told %d times: %s", damaged, n, log.text())
		}
	}
	testenv.NoError(t, os.Remove(file))
	w.server.recheck(time.Now())
	comes(before, "web4")

	log.reset()
	write(string(before.pem()), string(after.pem()))
	w.server.recheck(time.Now())
	if !refused(after) {
		t.Error("somebody may be writing still")
	}
	w.server.recheck(time.Now())
	if !strings.Contains(log.text(), "authorities=2 new=1 gone=0") {
		t.Errorf("told: %s", log.text())
	}
	young := comes(after, "web2")
	if w.session("web1").Ended() || !w.session("web2").proven {
		t.Error("both are good")
	}

	write(string(after.pem()))
	w.server.recheck(time.Now())
	w.server.recheck(time.Now())
	if err := old.end(); err == nil {
		t.Error("its authority is gone")
	}
	if !refused(before) {
		t.Error("an authority that was taken out is taken still")
	}
	w.server.recheck(time.Now())
	young.alive()
	select {
	case err := <-young.ended:
		t.Errorf("of the new authority: %v", err)
	case err := <-sharedPassword.ended:
		t.Errorf("by a password: %v", err)
	default:
	}
}

// A server does not start with a file that is none.
func TestInvalidAuthorities(t *testing.T) {
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

// A file that somebody writes by hand is a pool of authorities, or an error that says why not.
func FuzzAuthorities(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("no PEM"))
	f.Add(newAuthority(f).pem())
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parseAuthorities(text)
		if (got == nil) == (err == nil) || got != nil && len(got.sums) == 0 {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// recall is a list of this authority.
func (a *authority) recall(number int64, until time.Time, certs ...tls.Certificate) string {
	a.t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(number), ThisUpdate: until.Add(-time.Hour), NextUpdate: until}
	for _, c := range certs {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.Leaf.SerialNumber, RevocationTime: until.Add(-time.Hour)})
	}
	der := testenv.Value(x509.CreateRevocationList(rand.Reader, list, a.cert, a.key))(a.t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}))
}

// Whose certificate is revoked is let go when the list says so, and refused from then on, whatever
// password it has; another one for the same machine is good. What cannot be read changes nothing, and is
// told once; a list that is out of date holds on, and is told of.
func TestRevokedCertificates(t *testing.T) {
	ca := newAuthority(t)
	folder := t.TempDir()
	file, crl := filepath.Join(folder, "ca.crt"), filepath.Join(folder, "ca.crl")
	write := func(path, text string) {
		t.Helper()
		testenv.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(file, string(ca.pem()))
	var log lockedBuffer
	authorities := testenv.Value(OpenAuthorities(file, slog.New(slog.NewTextHandler(&log, nil))))(t)
	if err := authorities.OpenRevoked(crl, time.Now()); err == nil || !strings.Contains(err.Error(), "--sensu-client-crl FILE") {
		t.Errorf("not there: %v", err)
	}
	tomorrow := time.Now().Add(24 * time.Hour)
	write(crl, ca.recall(1, tomorrow))
	testenv.NoError(t, authorities.OpenRevoked(crl, time.Now()))
	w := newWorldBehind(t, ca.serverTLS(authorities), func(c *Config) { c.Authorities = authorities })
	comes := func(cert *tls.Certificate, name, password string) (*agent, int) {
		t.Helper()
		a, status := w.shake(w.reach(ca, cert, nil), name, "default", password, false)
		if a != nil {
			w.live(a)
		}
		return a, status
	}
	first, second, other := ca.of("web1", "default"), ca.of("web1", "default"), ca.of("web2", "default")
	lost, _ := comes(&first, "web1", "")
	stays, _ := comes(&other, "web2", "")
	sharedPassword, _ := comes(nil, "web3", rightPassword)
	if lost == nil || stays == nil || sharedPassword == nil {
		t.Fatal("nothing is revoked yet")
	}
	again := func(at time.Time) {
		w.server.recheck(at)
		w.server.recheck(at)
	}

	write(crl, ca.recall(2, tomorrow, first))
	w.server.recheck(time.Now())
	if w.session("web1").Ended() {
		t.Error("somebody may be writing still")
	}
	w.server.recheck(time.Now())
	if err := lost.end(); err == nil {
		t.Error("its certificate is revoked")
	}
	if a, status := comes(&first, "web1", rightPassword); a != nil || status != http.StatusForbidden {
		t.Errorf("a revoked certificate: %d", status)
	}
	if a, status := comes(&second, "web1", ""); a == nil {
		t.Errorf("another one of the same machine: %d", status)
	}

	for _, damaged := range []string{"", "no list", newAuthority(t).recall(3, tomorrow, second)} {
		log.reset()
		write(crl, damaged)
		again(time.Now())
		again(time.Now())
		if n := strings.Count(log.text(), "level=ERROR"); n != 1 {
			t.Errorf("told %d times: %s", n, log.text())
		}
	}
	if a, status := comes(&first, "web1", ""); a != nil {
		t.Errorf("what is damaged lets in: %d", status)
	}

	log.reset()
	write(crl, ca.recall(4, time.Now().Add(-time.Minute), first))
	again(time.Now())
	again(time.Now())
	if n := strings.Count(log.text(), "level=ERROR"); n != 1 {
		t.Errorf("told %d times: %s", n, log.text())
	}
	authorities.Refresh(time.Now().Add(2 * time.Hour)) // without a look at who is connected: certificates end, too
	if n := strings.Count(log.text(), "level=ERROR"); n != 2 {
		t.Errorf("told %d times: %s", n, log.text())
	}
	if a, status := comes(&first, "web1", ""); a != nil {
		t.Errorf("what is out of date lets in: %d", status)
	}
	stays.alive()
	for _, a := range []*agent{stays, sharedPassword} {
		select {
		case err := <-a.ended:
			t.Errorf("nobody revoked it: %v", err)
		default:
		}
	}

	write(crl, ca.recall(5, tomorrow))
	again(time.Now())
	if a, status := comes(&first, "web1", ""); a != nil || status != http.StatusConflict {
		t.Errorf("it is good again, and another one holds the name: %d", status)
	}
}

// A certificate is that of the authority that signed it: another one's list says nothing of it,
// though name and number are the same.
func TestAuthoritiesOfOneNameRevokeTheirOwn(t *testing.T) {
	one, two := newAuthority(t), newAuthority(t)
	cert := one.of("web1", "default")
	read := testenv.Value(parseLists([]byte(two.recall(1, time.Now().Add(time.Hour), cert)), []*x509.Certificate{one.cert, two.cert}))(t)
	chain := [][]*x509.Certificate{{cert.Leaf, one.cert}}
	if _, ok := read.entries[serialsOf(chain)[0]]; ok {
		t.Error("revoked by a namesake")
	}
}

// readFixture reads a file written by openssl.
func readFixture(t testing.TB, name string) []byte {
	t.Helper()
	text := testenv.Value(os.ReadFile(filepath.Join("testdata", "revoked", name)))(t)
	return text
}

func certificateOf(t testing.TB, name string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(readFixture(t, name))
	cert := testenv.Value(x509.ParseCertificate(block.Bytes))(t)
	return cert
}

// Lists that openssl wrote, in PEM and in DER, and what is none of this authority, or none that says all.
func TestListsOfOpenSSL(t *testing.T) {
	authority, web01 := certificateOf(t, "ca.crt"), certificateOf(t, "web01.crt")
	by := []*x509.Certificate{certificateOf(t, "web01.crt"), authority}
	for _, name := range []string{"list.crl", "list.der"} {
		got, err := parseLists(readFixture(t, name), by)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(got.entries) != 1 || got.expires.IsZero() || got.issuer != "CN=Sensu agents" || !got.issuers[keyOf(authority)] {
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
		"one good, one bad":         {string(readFixture(t, "list.crl")) + string(readFixture(t, "stranger.crl")), "revocation list 2"},
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

// A list of an authority that is none any more is passed over, beside those of others.
func TestListOfARemovedAuthority(t *testing.T) {
	key := testenv.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	old := &x509.Certificate{Subject: pkix.Name{CommonName: "Old agents"}, SubjectKeyId: []byte{1}, KeyUsage: x509.KeyUsageCRLSign}
	der := testenv.Value(x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour)}, old, key))(t)
	text := slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}), readFixture(t, "list.crl"))
	got, err := parseLists(text, []*x509.Certificate{certificateOf(t, "ca.crt")})
	if err != nil || len(got.entries) != 1 || got.issuer != "CN=Sensu agents" || !slices.Equal(got.ignored, []string{"CN=Old agents"}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// A file that somebody writes is lists, or an error that says why not.
func FuzzLists(f *testing.F) {
	for _, name := range []string{"list.crl", "list.der", "v1.crl", "part.crl", "ca.crt"} {
		f.Add(readFixture(f, name))
	}
	by := []*x509.Certificate{certificateOf(f, "ca.crt")}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parseLists(text, by)
		if (got == nil) == (err == nil) || got != nil && len(got.issuers) == 0 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
