package sensu

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// lists are the revocation lists of a file at one time.
type lists struct {
	text    []byte
	entries map[serial]time.Time // time of the revocation
	issuers map[[32]byte]bool    // authorities that have a list
	expires time.Time            // of the first list; zero: none expires
	issuer  string               // of that list
	ignored []string             // issuers that are no authority
}

// parseLists accepts a file whole or not at all: lists in PEM, or one in DER, each signed by one of the authorities. Lists
// of other issuers, such as former authorities, are ignored if there is one of an authority.
func parseLists(text []byte, authorities []*x509.Certificate) (*lists, error) {
	out := &lists{text: text, entries: map[serial]time.Time{}, issuers: map[[32]byte]bool{}}
	n := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "X509 CRL" {
			continue
		}
		n++
		if err := out.add(block.Bytes, authorities); err != nil {
			return nil, fmt.Errorf("revocation list %d: %w", n, err)
		}
	}
	switch {
	case n > 0:
	case bytes.Contains(text, []byte("-----BEGIN")) || len(text) == 0 || text[0] != 0x30: // an ASN.1 sequence
		return nil, model.Errorf(model.Invalid, "no revocation list: want -----BEGIN X509 CRL-----, or one list in DER")
	default:
		if err := out.add(text, authorities); err != nil {
			return nil, err
		}
	}
	if len(out.issuers) == 0 {
		return nil, model.Errorf(model.Invalid, "it has a list of %s, which is not in --sensu-client-ca, and none of an authority in it", out.ignored[0])
	}
	return out, nil
}

func (l *lists) add(der []byte, authorities []*x509.Certificate) error {
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return fmt.Errorf("%w (want version 2: with crlnumber in the configuration of openssl ca)", err)
	}
	for _, e := range list.Extensions {
		if e.Critical { // a list of some certificates, or of changes to another list
			return model.Errorf(model.Invalid, "the list of %s has the unsupported critical extension %s: want a complete list of all certificates", list.Issuer, e.Id)
		}
	}
	signer, err := signerOf(list, authorities)
	if err != nil {
		return err
	}
	if signer == nil {
		l.ignored = append(l.ignored, list.Issuer.String())
		return nil
	}
	issuer := keyOf(signer)
	l.issuers[issuer] = true
	for i := range list.RevokedCertificateEntries {
		e := &list.RevokedCertificateEntries[i]
		l.entries[serial{issuer, string(e.SerialNumber.Bytes())}] = e.RevocationTime
	}
	if !list.NextUpdate.IsZero() && (l.expires.IsZero() || list.NextUpdate.Before(l.expires)) {
		l.expires, l.issuer = list.NextUpdate, list.Issuer.String()
	}
	return nil
}

// signerOf returns the authority that signed a list; nil: no authority has the name of its issuer.
func signerOf(list *x509.RevocationList, authorities []*x509.Certificate) (*x509.Certificate, error) {
	var wrong error
	for _, cert := range authorities {
		if !bytes.Equal(cert.RawSubject, list.RawIssuer) {
			continue
		}
		err := list.CheckSignatureFrom(cert)
		if err == nil {
			return cert, nil
		}
		wrong = err
	}
	if wrong != nil {
		return nil, model.Errorf(model.Invalid, "the list of %s is not signed by the authority of this name: %w", list.Issuer, wrong)
	}
	return nil, nil
}
