package pki

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"github.com/google/uuid"
)

// Authority is the server's CA with its server certificate and the key that signs
// assignments.
type Authority struct{}

// Open reads the authority from dir, or makes it on the first start (files 0600,
// folder 0700). names are the DNS names and IP addresses of the server certificate;
// it is made anew when they change or two thirds of its life are over.
func Open(dir string, names []string, now func() time.Time) (*Authority, error) {
	return nil, errors.New("not yet")
}

// Pool holds the CA alone.
func (a *Authority) Pool() *x509.CertPool { return nil }

// CAPEM is the CA certificate.
func (a *Authority) CAPEM() []byte { return nil }

// CASum is the SHA-256 of the CA certificate (DER), by which join tokens pin it.
func (a *Authority) CASum() [32]byte { return [32]byte{} }

// SigningKey signs assignments.
func (a *Authority) SigningKey() ed25519.PrivateKey { return nil }

// GetCertificate is for tls.Config; it renews the server certificate when due.
func (a *Authority) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return nil, errors.New("not yet")
}

// IssueNode signs a node's request (DER): whatever names it asks for, the
// certificate says only muster:node:<uid>.
func (a *Authority) IssueNode(csr []byte, uid uuid.UUID) (certPEM []byte, err error) {
	return nil, errors.New("not yet")
}

// NodeOf is the node id in a certificate's URI name.
func NodeOf(cert *x509.Certificate) (uuid.UUID, error) { return uuid.Nil, errors.New("not yet") }
