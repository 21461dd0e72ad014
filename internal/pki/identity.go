package pki

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"

	"github.com/google/uuid"
)

// Identity is what an enrolled agent holds.
type Identity struct {
	Node        uuid.UUID
	Name        string
	Certificate tls.Certificate
	CA          *x509.CertPool
	ServerKey   ed25519.PublicKey
	Servers     []string // as given at enrolment
}

// LoadIdentity reads what Enrol kept; the error is fs.ErrNotExist before enrolment.
func LoadIdentity(stateDir string) (*Identity, error) { return nil, errors.New("not yet") }
