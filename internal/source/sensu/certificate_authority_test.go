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
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority makes the certificates of a world.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t}
	made := a.make(&x509.Certificate{Subject: pkix.Name{CommonName: "CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		NotAfter: time.Now().Add(24 * time.Hour)})
	a.cert, a.key = made.Leaf, made.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// make signs a certificate; an authority that has none signs its own.
func (a *authority) make(c *x509.Certificate) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	c.NotBefore = c.NotAfter.Add(-48 * time.Hour)
	by, with := a.cert, a.key
	if by == nil {
		by, with = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, with)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// of is an agent's certificate.
func (a *authority) of(common, organization string, names ...string) tls.Certificate {
	a.t.Helper()
	c := &x509.Certificate{Subject: pkix.Name{CommonName: common}, DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if organization != "" {
		c.Subject.Organization = []string{organization}
	}
	return a.make(c)
}

// pem is its certificate.
func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// door is what a bridge behind TLS has, that trusts this authority.
func (a *authority) door() *tls.Config {
	a.t.Helper()
	file := filepath.Join(a.t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, a.pem(), 0o600); err != nil {
		a.t.Fatal(err)
	}
	authorities, err := OpenAuthorities(file, slog.New(slog.DiscardHandler))
	if err != nil {
		a.t.Fatal(err)
	}
	return a.serverTLS(authorities)
}

// behind is a door that trusts others.
func (a *authority) serverTLS(authorities *Authorities) *tls.Config {
	a.t.Helper()
	server := a.make(&x509.Certificate{DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	config := &tls.Config{Certificates: []tls.Certificate{server}, MinVersion: tls.VersionTLS12}
	authorities.Admit(config)
	return config
}

// reach opens a connection; a certificate is shown whoever is asked for.
func (w *world) reach(ca *authority, show *tls.Certificate, change func(*tls.Config)) *tls.Conn {
	w.t.Helper()
	nc, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { nc.Close() })
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	config := &tls.Config{RootCAs: roots, ServerName: "localhost"}
	if show != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return show, nil }
	}
	if change != nil {
		change(config)
	}
	return tls.Client(nc, config)
}

// proven connects an agent whose certificate proves that it is that machine.
func (w *world) proven(ca *authority, name string, json bool) *agent {
	w.t.Helper()
	cert := ca.of(name, "default")
	a, status := w.shake(w.reach(ca, &cert, nil), name, "default", "", json)
	if a == nil {
		w.t.Fatalf("refused with %d", status)
	}
	go a.read()
	a.alive()
	w.wait("the proven session of "+name, func() bool {
		x := w.server.registry.Get(w.nodes[a.uid()].ID)
		return x != nil && x.proven
	})
	return a
}
