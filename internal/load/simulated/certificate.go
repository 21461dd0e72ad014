package simulated

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/wire"
)

// Certificates gives every simulated node a certificate of the server's CA. The key of a node is computed from the
// node's id and a secret of the server, so that it is the same after a restart.
func Certificates(authority *pki.Authority) (func(uid uuid.UUID) (*tls.Config, error), error) {
	pool := authority.Pool()
	return func(uid uuid.UUID) (*tls.Config, error) {
		c, err := CertificateOf(authority, uid)
		if err != nil {
			return nil, err
		}
		return ClientConfig(pool, "localhost", c), nil
	}, nil
}

// CertificateOf returns a new certificate of a node.
func CertificateOf(authority *pki.Authority, uid uuid.UUID) (c tls.Certificate, err error) {
	key, err := keyOf(authority, uid)
	if err != nil {
		return c, fmt.Errorf("make the key of a simulated node: %w", err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return c, fmt.Errorf("make the request of a simulated node: %w", err)
	}
	text, err := authority.IssueNodeCertificate(csr, uid)
	if err != nil {
		return c, err
	}
	block, _ := pem.Decode(text)
	return tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}, nil
}

// ClientConfig returns the configuration of a simulated node's connections.
func ClientConfig(pool *x509.CertPool, serverName string, c tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{wire.Subprotocol}, RootCAs: pool, ServerName: serverName, Certificates: []tls.Certificate{c},
		// A simulated storm is of machines that lost everything: full handshakes.
		SessionTicketsDisabled: true,
	}
}

// keyOf returns the key of a simulated node.
func keyOf(authority *pki.Authority, uid uuid.UUID) (*ecdsa.PrivateKey, error) {
	for try := byte(0); ; try++ {
		mac := hmac.New(sha256.New, authority.SigningKey().Seed())
		mac.Write([]byte("key of a simulated node"))
		mac.Write(uid[:])
		mac.Write([]byte{try})
		key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), mac.Sum(nil))
		if err == nil || try == 10 { // one in four billion is no key
			return key, err
		}
	}
}
