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

// IdentityFile holds the whole identity in an agent's state folder, so that one rename makes a
// machine a node.
const IdentityFile = "identity.json"

// Identity is the identity of an enrolled agent.
type Identity struct {
	Node        uuid.UUID
	Name        string
	Namespace   string
	Certificate tls.Certificate
	CA          *x509.CertPool
	CAPEM       []byte   // the CA's certificate
	CASum       [32]byte // SHA-256 of the CA's certificate
	ServerKey   ed25519.PublicKey
	Servers     []string // from the enrolment answer, and the address of the enrolment
}

// stored is the content of IdentityFile.
type stored struct {
	EnrolAnswer
	Key []byte `json:"key"` // PEM
}

// keep verifies the server's answer and writes it with the key.
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

// ValidAt returns the time for verifying a server's certificate: now, but not before the
// certificate was issued. A machine without a battery clock boots in 1970 and must reach the server
// all the same; expired certificates stay expired.
func ValidAt(now time.Time, cert *x509.Certificate) time.Time {
	if now.Before(cert.NotBefore) {
		return cert.NotBefore
	}
	return now
}

// LoadIdentity reads the identity that Enrol wrote; fs.ErrNotExist before enrolment.
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
