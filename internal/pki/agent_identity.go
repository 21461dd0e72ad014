package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
)

// IdentityFile holds the whole identity in an agent's state folder, so that one rename makes a
// machine a node.
const IdentityFile = "identity.json"

// Identity is the identity of an enrolled agent, with its node, certificate and key.
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

// storedIdentity is the decoded content of the file IdentityFile, with an agent's certificates and key.
type storedIdentity struct {
	EnrolAnswer
	Key []byte `json:"key"` // PEM
}

// storeIdentity verifies the server's answer to an enrolment, and writes the identity file. The file has the
// certificates and the key.
func storeIdentity(dir string, key *ecdsa.PrivateKey, answer *EnrolAnswer, t Token) (*Identity, error) {
	pem, err := keyPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encode the agent's key: %w", err)
	}
	s := &storedIdentity{EnrolAnswer: *answer, Key: pem}
	id, err := s.identity()
	if err != nil {
		return nil, fmt.Errorf("check the server's answer: %w", err)
	}
	if id.CASum != t.CA {
		return nil, errors.New("check the server's answer: the CA in the answer is not the CA of the connection")
	}
	if err := writeState(dir, IdentityFile, s); err != nil {
		return nil, err
	}
	if err := os.Remove(filepath.Join(dir, JoiningFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return id, nil
}

// identity verifies the stored certificate and key and returns the identity.
func (s *storedIdentity) identity() (*Identity, error) {
	cert, err := tls.X509KeyPair(s.Certificate, s.Key)
	if err != nil {
		return nil, err
	}
	node, err := NodeOf(cert.Leaf)
	if err != nil {
		return nil, err
	}
	if node != s.Node {
		return nil, errors.New("the certificate belongs to another node")
	}
	ca, err := parseCert(s.CA)
	if err != nil {
		return nil, fmt.Errorf("read the CA certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	if len(s.ServerKey) != ed25519.PublicKeySize {
		return nil, errors.New("the answer has no public key for signed assignments")
	}
	return &Identity{
		Node: s.Node, Name: s.Name, Namespace: s.Namespace, Certificate: cert, CA: pool, CAPEM: s.CA, CASum: sha256.Sum256(ca.Raw),
		ServerKey: ed25519.PublicKey(s.ServerKey), Servers: s.Servers,
	}, nil
}

// VerificationTime returns the time for the check of a server certificate, corrected if the machine's clock is
// slow. It is now, or the issue time of the certificate if the clock is earlier and thus wrong. A machine
// without a battery clock boots in 1970 and must reach the server all the same; expired certificates stay
// expired.
func VerificationTime(now time.Time, cert *x509.Certificate) time.Time {
	if now.Before(cert.NotBefore) {
		return cert.NotBefore
	}
	return now
}

// loadState reads and decodes a file in an agent's state folder. The error is fs.ErrNotExist if the file does not
// exist. title names the content in errors.
func loadState[T any](stateDir, file, title string, decode func([]byte) (T, error)) (T, error) {
	path := filepath.Join(stateDir, file)
	data, err := os.ReadFile(path)
	if err != nil {
		return *new(T), err
	}
	state, err := decode(data)
	if err != nil {
		return *new(T), fmt.Errorf("read %s%s: %w", title, path, err)
	}
	return state, nil
}

// LoadIdentity reads the agent's certificate and key from the file that Enrol wrote. The error is fs.ErrNotExist
// before enrolment.
func LoadIdentity(stateDir string) (*Identity, error) {
	return loadState(stateDir, IdentityFile, "identity ", decodeIdentity)
}

// decodeIdentity decodes the content of the identity file.
func decodeIdentity(data []byte) (*Identity, error) {
	var s storedIdentity
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	return s.identity()
}

// JoiningFile holds the state of a machine from its first request until it is a node.
const JoiningFile = "joining.json"

// JoinState has the key and trusted CA of a machine that waits to be accepted as a node. The key is written before the
// first request: a repeated request has the same key and creates no second node, and the fingerprint stays the same
// while a person compares it.
type JoinState struct {
	Key     []byte   `json:"key"`               // PEM
	Machine string   `json:"machine,omitempty"` // machine id: a copied disk does not use the key
	CA      string   `json:"ca,omitempty"`      // SHA-256 (hex) of the CA trusted on first use
	Servers []string `json:"servers,omitempty"` // addresses of the requests

	key *ecdsa.PrivateKey
}

// LoadJoinState reads the key and the CA of a machine that waits to be accepted. The error is fs.ErrNotExist if the
// folder has none.
func LoadJoinState(stateDir string) (*JoinState, error) {
	return loadState(stateDir, JoiningFile, "", decodeJoinState)
}

// decodeJoinState decodes the stored JoinState of a machine that waits to be accepted
func decodeJoinState(data []byte) (*JoinState, error) {
	j := &JoinState{}
	if err := json.Unmarshal(data, j); err != nil {
		return nil, err
	}
	key, err := parseKey(j.Key)
	if err != nil {
		return nil, err
	}
	var ok bool
	if j.key, ok = key.(*ecdsa.PrivateKey); !ok {
		return nil, errors.New("expected an ECDSA key")
	}
	return j, nil
}

// openJoinState returns the stored key and CA of a joining machine (JoinState), or a new key. The key is new if the
// stored one is missing, unreadable or of another machine.
func openJoinState(dir, machine string) (*JoinState, error) {
	j, err := LoadJoinState(dir)
	if err == nil && j.Machine == machine {
		return j, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	j = &JoinState{Machine: machine}
	if j.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("make the agent's key: %w", err)
	}
	if j.Key, err = keyPEM(j.key); err != nil {
		return nil, fmt.Errorf("encode the agent's key: %w", err)
	}
	return j, nil
}

// store writes the JoinState to the agent's state folder
func (j *JoinState) store(dir string) error { return writeState(dir, JoiningFile, j) }

// writeState writes a value as JSON to a file in the agent's state folder.
func writeState(dir, name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the agent's folder: %w", err)
	}
	return writeFile(filepath.Join(dir, name), data)
}

// Fingerprint returns the fingerprint of the machine's key, in the form that the server shows.
func (j *JoinState) Fingerprint() string { return Fingerprint(&j.key.PublicKey) }

// SumOf returns the SHA-256 of a CA certificate, which join tokens contain. Join tokens and --ca-hash contain it.
func SumOf(pem []byte) (sum [32]byte, err error) {
	cert, err := parseCert(pem)
	if err != nil {
		return sum, err
	}
	if !cert.IsCA {
		return sum, errors.New("the file is not a CA certificate")
	}
	return sha256.Sum256(cert.Raw), nil
}

// ParseSum parses a SHA-256 sum with the prefix "sha256:" and 64 hexadecimal digits.
func ParseSum(text string) (sum [32]byte, err error) {
	digits := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(text)), sumPrefix)
	b, err := hex.DecodeString(strings.NewReplacer(":", "", " ", "").Replace(digits))
	if err != nil || len(b) != len(sum) {
		return sum, model.Errorf(model.Invalid, "%q is not a CA hash: expected sha256: and 64 hexadecimal digits", text).
			WithHint("on the server: muster node ca")
	}
	return [32]byte(b), nil
}

const sumPrefix = "sha256:"

// FormatSum formats a SHA-256 sum as text, with the prefix "sha256:".
func FormatSum(sum [32]byte) string { return sumPrefix + hex.EncodeToString(sum[:]) }

// Fingerprint identifies a machine's public key by its SHA-256, as 64 hexadecimal digits. The SHA-256 is that of the
// SubjectPublicKeyInfo (DER). A node's row stores it (model.NodeSpec.Key). It is empty for a key that no certificate
// can hold.
func Fingerprint(key crypto.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return ""
	}
	return fingerprint(der)
}

// FingerprintOf returns the fingerprint (SHA-256) of the public key in a certificate.
func FingerprintOf(cert *x509.Certificate) string { return fingerprint(cert.RawSubjectPublicKeyInfo) }

// fingerprint returns the SHA-256 of a public key (SubjectPublicKeyInfo) in hexadecimal digits.
func fingerprint(spki []byte) string {
	sum := sha256.Sum256(spki)
	return hex.EncodeToString(sum[:])
}

// certPEM encodes a certificate as PEM.
func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// parseCert parses a PEM certificate.
func parseCert(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no PEM certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}

// parseKey parses a PEM private key (PKCS #8).
func parseKey(data []byte) (crypto.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("no PEM private key")
	}
	return x509.ParsePKCS8PrivateKey(block.Bytes)
}

// keyPEM encodes a private key as PEM (PKCS #8).
func keyPEM(key crypto.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// writeKey writes a private key to a file that only its owner may read.
func writeKey(path string, key crypto.PrivateKey) error {
	data, err := keyPEM(key)
	if err != nil {
		return fmt.Errorf("write key %s: %w", path, err)
	}
	return writeFile(path, data)
}

// writeFile replaces a file atomically, readable by its owner only.
func writeFile(path string, data []byte) error {
	if err := disk.WriteFile(disk.OS{}, filepath.Dir(path), filepath.Base(path), data); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// loadKeyPair reads a certificate and its key and checks that certificate and key match.
func (a *Authority) loadKeyPair(certName, keyName string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	data, err := os.ReadFile(filepath.Join(a.dir, certName))
	if err != nil {
		return nil, nil, err
	}
	cert, err := parseCert(data)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", certName, err)
	}
	if data, err = os.ReadFile(filepath.Join(a.dir, keyName)); err != nil {
		return nil, nil, err
	}
	parsed, err := parseKey(data)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", keyName, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, nil, fmt.Errorf("key %s does not match certificate %s", keyName, certName)
	}
	return cert, key, nil
}
