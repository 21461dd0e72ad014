package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/muster-fleet/muster/internal/journal/disk"
)

const uriPrefix = "node:"

func cutNode(opaque string) (string, bool) { return strings.CutPrefix(opaque, uriPrefix) }

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func parseCert(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no PEM certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}

func parseKey(data []byte) (crypto.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("no PEM private key")
	}
	return x509.ParsePKCS8PrivateKey(block.Bytes)
}

func keyPEM(key crypto.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

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

// load reads a pair and checks that certificate and key match.
func (a *Authority) load(certName, keyName string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
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
		return nil, nil, fmt.Errorf("%s does not belong to %s", keyName, certName)
	}
	return cert, key, nil
}

// store writes the key first. A crash in between leaves no certificate: a CA pair then needs an
// operator, a server pair is issued anew.
func (a *Authority) store(certName, keyName string, der []byte, key *ecdsa.PrivateKey) error {
	if err := writeKey(filepath.Join(a.dir, keyName), key); err != nil {
		return err
	}
	return writeFile(filepath.Join(a.dir, certName), certPEM(der))
}
