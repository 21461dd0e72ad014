package load

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/wire"
)

// Certificates gives every simulated node a certificate of the server's CA, all for
// one key: keys cost time to make and memory to hold, and are not what is measured.
func Certificates(authority *pki.Authority) (func(uid uuid.UUID) (*tls.Config, error), error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of the simulated nodes: %w", err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("make the request of the simulated nodes: %w", err)
	}
	pool := authority.Pool()
	return func(uid uuid.UUID) (*tls.Config, error) {
		text, err := authority.IssueNode(csr, uid)
		if err != nil {
			return nil, err
		}
		block, _ := pem.Decode(text)
		return &tls.Config{
			MinVersion: tls.VersionTLS13, NextProtos: []string{wire.Subprotocol}, RootCAs: pool, ServerName: "localhost",
			Certificates: []tls.Certificate{{Certificate: [][]byte{block.Bytes}, PrivateKey: key}},
			// A simulated storm is of machines that lost everything: full handshakes.
			SessionTicketsDisabled: true,
		}, nil
	}, nil
}
