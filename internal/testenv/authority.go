package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// Authority is a test CA that issues certificates.
type Authority struct {
	Cert *x509.Certificate
	t    testing.TB
	key  *ecdsa.PrivateKey
}

// NewAuthority returns a test CA.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t}
	made := a.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: "CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		NotAfter: time.Now().Add(24 * time.Hour)})
	a.Cert, a.key = made.Leaf, made.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// Issue returns a certificate made from a template and signed by the test CA. A new authority signs its own.
func (a *Authority) Issue(c *x509.Certificate) tls.Certificate {
	a.t.Helper()
	key := Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(a.t)
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	c.NotBefore = c.NotAfter.Add(-48 * time.Hour)
	by, with := a.Cert, a.key
	if by == nil {
		by, with = c, key
	}
	der := Value(x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, with))(a.t)
	leaf := Value(x509.ParseCertificate(der))(a.t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// PEM returns the CA's own certificate in PEM.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Cert.Raw})
}

// RevocationList returns a signed revocation list in PEM.
func (a *Authority) RevocationList(number int64, until time.Time, certs ...tls.Certificate) string {
	a.t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(number), ThisUpdate: until.Add(-time.Hour), NextUpdate: until}
	for _, c := range certs {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.Leaf.SerialNumber, RevocationTime: until.Add(-time.Hour)})
	}
	der := Value(x509.CreateRevocationList(rand.Reader, list, a.Cert, a.key))(a.t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}))
}
