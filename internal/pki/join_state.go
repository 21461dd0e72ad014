package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// JoiningFile holds the state of a machine from its first request until it is a node.
const JoiningFile = "joining.json"

// JoinState is a machine that has requested enrolment and is no node yet. The key is written before
// the first request: a repeated request has the same key and creates no second node, and the
// fingerprint stays the same while a person compares it.
type JoinState struct {
	Key     []byte   `json:"key"`               // PEM
	Machine string   `json:"machine,omitempty"` // machine id: a copied disk does not use the key
	CA      string   `json:"ca,omitempty"`      // SHA-256 (hex) of the CA trusted on first use
	Servers []string `json:"servers,omitempty"` // addresses of the requests

	key *ecdsa.PrivateKey
}

// LoadJoinState reads the joining state of a state folder; fs.ErrNotExist if there is none.
func LoadJoinState(stateDir string) (*JoinState, error) {
	path := filepath.Join(stateDir, JoiningFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	j, err := decodeJoining(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return j, nil
}

func decodeJoining(data []byte) (*JoinState, error) {
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
		return nil, errors.New("want an ECDSA key")
	}
	return j, nil
}

// openJoining reads the joining state, or creates a new key where it is missing, unreadable or
// another machine's.
func openJoining(dir, machine string) (*JoinState, error) {
	j, err := LoadJoinState(dir)
	if err == nil && j.Machine == machine {
		return j, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && errors.Is(err, fs.ErrPermission) {
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

func (j *JoinState) keep(dir string) error {
	data, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the agent's folder: %w", err)
	}
	return writeFile(filepath.Join(dir, JoiningFile), data)
}

// Fingerprint returns the fingerprint of the machine's key, as the server shows it.
func (j *JoinState) Fingerprint() string { return Fingerprint(&j.key.PublicKey) }

// SumOf returns the SHA-256 of a CA certificate (PEM), the form of tokens and --ca-hash.
func SumOf(pem []byte) (sum [32]byte, err error) {
	cert, err := parseCert(pem)
	if err != nil {
		return sum, err
	}
	if !cert.IsCA {
		return sum, errors.New("it is no CA's certificate")
	}
	return sha256.Sum256(cert.Raw), nil
}

// ParseSum reads sha256: and 64 hexadecimal digits.
func ParseSum(text string) (sum [32]byte, err error) {
	digits := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(text)), sumPrefix)
	b, err := hex.DecodeString(strings.NewReplacer(":", "", " ", "").Replace(digits))
	if err != nil || len(b) != len(sum) {
		return sum, model.Errorf(model.Invalid, "%q is no hash of a CA: want sha256: and 64 hexadecimal digits", text).
			WithHint("on the server: muster node ca")
	}
	return [32]byte(b), nil
}

const sumPrefix = "sha256:"

// SumText writes the form that ParseSum reads.
func SumText(sum [32]byte) string { return sumPrefix + hex.EncodeToString(sum[:]) }
