package pki

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
)

// IdentityFile, in an agent's state folder, holds everything, so that one rename makes a machine a node.
const IdentityFile = "identity.json"

// Identity is what an enrolled agent holds.
type Identity struct {
	Node        uuid.UUID
	Name        string
	Namespace   string
	Certificate tls.Certificate
	CA          *x509.CertPool
	CAPEM       []byte   // its certificate
	CASum       [32]byte // SHA-256 of that
	ServerKey   ed25519.PublicKey
	Servers     []string // as given at enrolment, and where that was
}

// stored is IdentityFile.
type stored struct {
	EnrolAnswer
	Key []byte `json:"key"` // PEM
}

// keep checks what the server answered and writes it with the key.
func keep(dir string, key *ecdsa.PrivateKey, answer *EnrolAnswer, t Token) (*Identity, error) {
	pem, err := keyPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encode the agent's key: %w", err)
	}
	s := &stored{EnrolAnswer: *answer, Key: pem}
	id, err := s.identity()
	if err != nil {
		return nil, fmt.Errorf("check the server's answer: %w", err)
	}
	if id.CASum != t.CA {
		return nil, errors.New("check the server's answer: its CA is not the one it has shown")
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the identity: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the agent's folder: %w", err)
	}
	if err := writeFile(filepath.Join(dir, IdentityFile), data); err != nil {
		return nil, err
	}
	if err := os.Remove(filepath.Join(dir, JoiningFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return id, nil
}

func (s *stored) identity() (*Identity, error) {
	cert, err := tls.X509KeyPair(s.Certificate, s.Key)
	if err != nil {
		return nil, err
	}
	node, err := NodeOf(cert.Leaf)
	if err != nil {
		return nil, err
	}
	if node != s.Node {
		return nil, errors.New("the certificate is another node's")
	}
	ca, err := parseCert(s.CA)
	if err != nil {
		return nil, fmt.Errorf("CA certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	if len(s.ServerKey) != ed25519.PublicKeySize {
		return nil, errors.New("no key that signs assignments")
	}
	return &Identity{
		Node: s.Node, Name: s.Name, Namespace: s.Namespace, Certificate: cert, CA: pool, CAPEM: s.CA, CASum: sha256.Sum256(ca.Raw),
		ServerKey: ed25519.PublicKey(s.ServerKey), Servers: s.Servers,
	}, nil
}

// ValidAt is the time by which an agent judges a server's certificate: never before the
// certificate was made. A machine without a clock of its own starts in 1970, and its
// agent must reach the server all the same; what has expired stays expired.
func ValidAt(now time.Time, cert *x509.Certificate) time.Time {
	if now.Before(cert.NotBefore) {
		return cert.NotBefore
	}
	return now
}

// LoadIdentity reads what Enrol kept; the error is fs.ErrNotExist before enrolment.
func LoadIdentity(stateDir string) (*Identity, error) {
	path := filepath.Join(stateDir, IdentityFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	id, err := decodeIdentity(data)
	if err != nil {
		return nil, fmt.Errorf("read identity %s: %w", path, err)
	}
	return id, nil
}

func decodeIdentity(data []byte) (*Identity, error) {
	var s stored
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	return s.identity()
}
