package sensu

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// readFixture reads a file written by openssl.
func readFixture(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "revoked", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func certificateOf(t testing.TB, name string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(readFixture(t, name))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
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
		"a certificate":             {string(readFixture(t, "ca.crt")), "no revocation list"},
		"nothing":                   {"", "no revocation list"},
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
func TestListOfAnAuthorityThatWasTakenOut(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	old := &x509.Certificate{Subject: pkix.Name{CommonName: "Old agents"}, SubjectKeyId: []byte{1}, KeyUsage: x509.KeyUsageCRLSign}
	der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour)}, old, key)
	if err != nil {
		t.Fatal(err)
	}
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
