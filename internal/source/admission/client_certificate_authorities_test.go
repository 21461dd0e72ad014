package admission

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestMissingOrEmptyAuthoritiesAreAnError starts a server with a missing or empty CA file, and expects an error.
func TestMissingOrEmptyAuthoritiesAreAnError(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if _, err := OpenAuthorities("--sensu-client", file, log); err == nil || !strings.Contains(err.Error(), "--sensu-client-ca FILE") {
		t.Errorf("not there: %v", err)
	}
	testenv.NoError(t, os.WriteFile(file, []byte("no PEM"), 0o600))
	if _, err := OpenAuthorities("--sensu-client", file, log); err == nil || !strings.Contains(err.Error(), "no PEM certificate") {
		t.Errorf("no PEM: %v", err)
	}
}

// FuzzAuthorities parses random files of CA certificates, and expects an error or at least one CA.
func FuzzAuthorities(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("no PEM"))
	f.Add(testenv.NewAuthority(f).PEM())
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parseAuthorities(text)
		if (got == nil) == (err == nil) || got != nil && len(got.sums) == 0 {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// TestListRevokesCertificatesOfItsAuthorityOnly lists a certificate's serial number as revoked by another CA,
// and expects no revocation. Both CAs have the same name.
func TestListRevokesCertificatesOfItsAuthorityOnly(t *testing.T) {
	one, two := testenv.NewAuthority(t), testenv.NewAuthority(t)
	cert := one.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: "web1"}})
	read := testenv.Value(parseLists("--sensu-client", []byte(two.RevocationList(1, time.Now().Add(time.Hour), cert)), []*x509.Certificate{one.Cert, two.Cert}))(t)
	chain := [][]*x509.Certificate{{cert.Leaf, one.Cert}}
	if _, ok := read.entries[SerialsOf(chain)[0]]; ok {
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
		got, err := parseLists("--sensu-client", readFixture(t, name), by)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(got.entries) != 1 || got.expires.IsZero() || got.issuer != "CN=Sensu agents" || !got.issuers[authorityKey(authority)] {
			t.Errorf("%s: %+v", name, got)
		}
		if since := got.entries[SerialsOf([][]*x509.Certificate{{web01, authority}})[0]]; since.IsZero() {
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
		if got, err := parseLists("--sensu-client", []byte(of[0]), by); err == nil || !strings.Contains(err.Error(), of[1]) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	if _, err := parseLists("--sensu-client", readFixture(t, "list.crl"), nil); err == nil || !strings.Contains(err.Error(), "--sensu-client-ca") {
		t.Errorf("of nobody here: %v", err)
	}
}

// A revocation list of a removed CA is ignored. The other lists of the file are used.
func TestRevocationListOfARemovedAuthorityIsIgnored(t *testing.T) {
	key := testenv.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	old := &x509.Certificate{Subject: pkix.Name{CommonName: "Old agents"}, SubjectKeyId: []byte{1}, KeyUsage: x509.KeyUsageCRLSign}
	der := testenv.Value(x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour)}, old, key))(t)
	text := slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}), readFixture(t, "list.crl"))
	got, err := parseLists("--sensu-client", text, []*x509.Certificate{readCertificate(t, "ca.crt")})
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
		got, err := parseLists("--sensu-client", text, by)
		if (got == nil) == (err == nil) || got != nil && len(got.issuers) == 0 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
