package pki

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
)

// Fingerprint identifies a machine's public key: the SHA-256 of its SubjectPublicKeyInfo (DER), as
// 64 hexadecimal digits. A node's row stores it (model.NodeSpec.Key). It is empty for a key that no
// certificate can hold.
func Fingerprint(key crypto.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return ""
	}
	return fingerprint(der)
}

// FingerprintOf returns the Fingerprint of a certificate's key.
func FingerprintOf(cert *x509.Certificate) string { return fingerprint(cert.RawSubjectPublicKeyInfo) }

func fingerprint(spki []byte) string {
	sum := sha256.Sum256(spki)
	return hex.EncodeToString(sum[:])
}
