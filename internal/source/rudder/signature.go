package rudder

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"mime"
	"net/textproto"
	"strings"
	"time"

	"bufio"

	"github.com/smallstep/pkcs7"

	"github.com/muster-fleet/muster/internal/model"
)

// agentKey is the public key for the verification of an agent's signatures.
type agentKey struct {
	*rsa.PublicKey
	der  []byte // its SubjectPublicKeyInfo
	node string // id of the node in the certificate; empty: there is no certificate, or it names none
}

// Bounds of a key, in bits.
const (
	minKeyBits = 2048
	maxKeyBits = 8192
)

// parseKey reads the key of an agent in PEM, from a certificate or a public key.
func parseKey(text string) (*agentKey, error) {
	block, _ := pem.Decode([]byte(strings.TrimSpace(text)))
	if block == nil {
		return nil, errors.New("the key of the agent is not in PEM")
	}
	key := &agentKey{}
	var public any
	var err error
	switch block.Type {
	case "CERTIFICATE":
		var c *x509.Certificate
		if c, err = x509.ParseCertificate(block.Bytes); err == nil {
			public = c.PublicKey
			for _, name := range c.Subject.Names {
				if name.Type.String() == "0.9.2342.19200300.100.1.1" { // UID
					key.node, _ = name.Value.(string)
				}
			}
		}
	case "RSA PUBLIC KEY":
		public, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "PUBLIC KEY":
		public, err = x509.ParsePKIXPublicKey(block.Bytes)
	default:
		err = fmt.Errorf("the PEM block has the unknown type %q", model.Truncate(block.Type, 100))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the key of the agent: %w", err)
	}
	return key.setPublicKey(public)
}

// keyFromDER decodes the stored public key of an agent, in DER.
func keyFromDER(der []byte) (*agentKey, error) {
	public, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, err
	}
	return new(agentKey).setPublicKey(public)
}

// setPublicKey sets the public key, and refuses keys other than RSA keys of an allowed size.
func (k *agentKey) setPublicKey(public any) (_ *agentKey, err error) {
	var ok bool
	if k.PublicKey, ok = public.(*rsa.PublicKey); !ok {
		return nil, fmt.Errorf("the key of the agent is %T, expected RSA", public)
	}
	if bits := k.N.BitLen(); bits < minKeyBits || bits > maxKeyBits {
		return nil, fmt.Errorf("the key of the agent has %d bits, expected %d to %d", bits, minKeyBits, maxKeyBits)
	}
	k.der, err = x509.MarshalPKIXPublicKey(k.PublicKey)
	return k, err
}

// fileSignature is the signature of an inventory in a file of its own.
type fileSignature struct {
	hash   crypto.Hash
	digest []byte
}

// parseSignature reads the file with the signature of an inventory.
func parseSignature(data []byte) (*fileSignature, error) {
	fields := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		fields[name] = value
	}
	if fields["header"] != "rudder-signature-v1" {
		return nil, model.Errorf(model.Invalid, "the signature is not in the format rudder-signature-v1")
	}
	s := &fileSignature{}
	switch fields["algorithm"] {
	case "sha512":
		s.hash = crypto.SHA512
	case "sha256":
		s.hash = crypto.SHA256
	default:
		return nil, model.Errorf(model.Invalid, "the signature has the algorithm %q, expected sha512 or sha256", model.Truncate(fields["algorithm"], 100))
	}
	var err error
	if s.digest, err = hex.DecodeString(fields["digest"]); err != nil || len(s.digest) == 0 {
		return nil, model.Errorf(model.Invalid, "the digest of the signature is not in hexadecimal")
	}
	return s, nil
}

// verify returns an error unless the key signed the data.
func (s *fileSignature) verify(key *agentKey, data []byte) error {
	var sum []byte
	if s.hash == crypto.SHA256 {
		is := sha256.Sum256(data)
		sum = is[:]
	} else {
		is := sha512.Sum512(data)
		sum = is[:]
	}
	return rsa.VerifyPKCS1v15(key.PublicKey, s.hash, sum, s.digest)
}

// signedRun is the log of a run with its S/MIME signature, before verification.
type signedRun struct {
	log       []byte
	signed    []byte // the text part as it was signed, with line ends of MIME
	signature *pkcs7.PKCS7
}

// parseSignedRun reads the signed log of a run, a clear-signed S/MIME message. The message has a text part, and its
// PKCS #7 signature in base64.
func parseSignedRun(data []byte) (*signedRun, error) {
	malformed := func(text string) error { return model.Errorf(model.Invalid, "the run is no S/MIME message: %s", text) }
	head, body, ok := cutHeader(data)
	if !ok {
		return nil, malformed("it has no header")
	}
	kind, parameters, err := mime.ParseMediaType(head.Get("Content-Type"))
	if err != nil || kind != "multipart/signed" || parameters["boundary"] == "" {
		return nil, malformed("its type is not multipart/signed")
	}
	parts, ok := splitParts(body, parameters["boundary"])
	if !ok || len(parts) != 2 {
		return nil, malformed("expected a text and a signature")
	}
	_, encoded, ok := cutHeader(parts[1])
	if !ok {
		return nil, malformed("its signature has no header")
	}
	der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(encoded)), ""))
	if err != nil {
		return nil, malformed("its signature is not in base64")
	}
	run := &signedRun{signed: bytes.ReplaceAll(parts[0], []byte("\n"), []byte("\r\n"))}
	if _, run.log, ok = cutHeader(parts[0]); !ok {
		return nil, malformed("its text has no header")
	}
	if run.signature, err = parsePKCS7(der); err != nil {
		return nil, malformed(err.Error())
	}
	if len(run.signature.Signers) != 1 {
		return nil, malformed("expected one signer")
	}
	return run, nil
}

// parsePKCS7 decodes a signature in the format PKCS #7. It turns a panic of the decoder into an error: any sender can
// write the bytes.
func parsePKCS7(der []byte) (p *pkcs7.PKCS7, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("cannot read the signature: %v", broken)
		}
	}()
	return pkcs7.Parse(der)
}

// verify returns an error unless the key signed the log. Time and names of the agent's certificate do not matter: the key is pinned.
func (r *signedRun) verify(key *agentKey) error {
	p := r.signature
	by := p.Signers[0].IssuerAndSerialNumber
	p.Content = r.signed
	p.Certificates = []*x509.Certificate{{
		PublicKeyAlgorithm: x509.RSA, PublicKey: key.PublicKey, RawIssuer: by.IssuerName.FullBytes, SerialNumber: by.SerialNumber,
		NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
	}}
	return p.Verify()
}

// cutHeader splits one part of a MIME message into its header and its body. Lines end with a line feed, also with a
// carriage return before it.
func cutHeader(data []byte) (head textproto.MIMEHeader, body []byte, ok bool) {
	text, body, ok := bytes.Cut(data, []byte("\n\n"))
	if i := bytes.Index(data, []byte("\r\n\r\n")); i >= 0 && (!ok || i < len(text)) {
		text, body, ok = data[:i], data[i+4:], true
	}
	if !ok || len(text) > 16<<10 {
		return nil, nil, false
	}
	head, err := textproto.NewReader(bufio.NewReader(strings.NewReader(string(text) + "\n\n"))).ReadMIMEHeader()
	return head, body, err == nil
}

// splitParts splits the body of a multipart MIME message at its boundary. The line end before a boundary belongs to the
// boundary.
func splitParts(body []byte, boundary string) (parts [][]byte, ok bool) {
	var part []byte
	open := false
	for line := range bytes.Lines(body) {
		line = bytes.TrimRight(line, "\r\n")
		switch is := string(line); {
		case is == "--"+boundary || is == "--"+boundary+"--":
			if open {
				parts = append(parts, bytes.TrimSuffix(part, []byte("\n")))
			}
			if part, open = nil, true; is != "--"+boundary {
				return parts, true
			}
			if len(parts) > 2 {
				return nil, false
			}
		case open:
			part = append(append(part, line...), '\n')
		}
	}
	return nil, false
}
