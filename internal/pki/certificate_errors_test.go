package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
)

// handshakeError returns the error of a TLS client that connects to a server with a test certificate.
func handshakeError(t *testing.T, server *tls.Config, client *tls.Config) error {
	t.Helper()
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	go func() { _ = tls.Server(there, server).Handshake() }()
	err := tls.Client(here, client).Handshake()
	if err == nil {
		t.Fatal("the certificate is accepted")
	}
	return err
}

// TestCertificateErrorsAreExplained checks the messages for people and agents about refused server certificates.
func TestCertificateErrorsAreExplained(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	ours, err := Open(t.TempDir(), []string{"localhost", "127.0.0.1", "web1", "10.0.0.1"}, clock)
	testenv.NoError(t, err)
	other, err := Open(t.TempDir(), []string{"localhost"}, clock)
	testenv.NoError(t, err)
	foreign := selfSigned(t, now)
	for _, c := range []struct {
		name           string
		server         *tls.Config
		asked          string // server name
		roots          *x509.CertPool
		trusted        string
		at             time.Time
		people, agents []string // words in the messages; agents nil: no error
	}{
		{"another name", &tls.Config{GetCertificate: ours.GetCertificate}, "muster.example.org", ours.Pool(), ShortSum(ours.CASum()), now,
			[]string{"is not for muster.example.org", "it is for 10.0.0.1, 127.0.0.1, localhost, web1", "--advertise 10.0.0.1,web1,muster.example.org (the CA stays"}, nil},
		{"another CA", &tls.Config{GetCertificate: other.GetCertificate}, "localhost", ours.Pool(), ShortSum(ours.CASum()), now,
			[]string{"the CA " + ShortSum(other.CASum()), "but this machine trusts only the CA " + ShortSum(ours.CASum()), "the server lost DATA/pki", "muster login https://localhost:8443 --ca ca.crt"},
			[]string{"this machine joined another server than", ShortSum(other.CASum()), ShortSum(ours.CASum()), "muster-agent reset-identity", "DATA/pki, restore that folder from the backup"}},
		{"no CA", &tls.Config{GetCertificate: other.GetCertificate}, "localhost", x509.NewCertPool(), "", now,
			[]string{"the CA " + ShortSum(other.CASum()) + ", which this machine does not trust", "muster login https://localhost:8443 --ca ca.crt"},
			[]string{"joined another server"}},
		{"no Muster server", &tls.Config{Certificates: []tls.Certificate{foreign}}, "localhost", ours.Pool(), ShortSum(ours.CASum()), now,
			[]string{`"CN=Inspection"`, "a proxy that intercepts TLS"}, []string{`not a Muster server: its certificate is signed by "CN=Inspection"`, "a proxy that intercepts TLS"}},
		{"a clock in the past", &tls.Config{GetCertificate: ours.GetCertificate}, "localhost", ours.Pool(), "", now.AddDate(-3, 0, 0),
			[]string{"clock shows 2023-05-01T12:00:00Z", "begins at 2026-04-30T12:00:00Z", "date -u"}, []string{"begins at"}},
		{"a clock in the future", &tls.Config{GetCertificate: ours.GetCertificate}, "localhost", ours.Pool(), "", now.AddDate(3, 0, 0),
			[]string{"clock shows 2029-05-01T12:00:00Z", "ended at 2027-06-02T12:00:00Z", "timedatectl set-ntp true"}, []string{"ended at"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := handshakeError(t, c.server, &tls.Config{ServerName: c.asked, RootCAs: c.roots, Time: func() time.Time { return c.at }})
			shown := RefusedCertificate{Server: c.asked + ":8443", Trusted: c.trusted, Now: c.at}
			said := shown.ForPeople(err)
			if said == nil {
				t.Fatalf("nothing is said of %v", err)
			}
			for _, want := range c.people {
				if !strings.Contains(said.Error(), want) {
					t.Errorf("people read no %q in:\n%v", want, said)
				}
			}
			said = shown.ForAgents(err)
			if (said == nil) != (c.agents == nil) {
				t.Fatalf("agents: %v", said)
			}
			for _, want := range c.agents {
				if !strings.Contains(said.Error(), want) {
					t.Errorf("agents say no %q in:\n%v", want, said)
				}
			}
		})
	}
}

// selfSigned returns a self-signed certificate like that of a TLS proxy.
func selfSigned(t *testing.T, now time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testenv.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Inspection"}, DNSNames: []string{"localhost"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	testenv.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
