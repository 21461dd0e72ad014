package sensu

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// lists are the revocation lists of one reading.
type lists struct {
	text    []byte
	entries map[serial]time.Time // since when
	by      map[[32]byte]bool    // authorities that have a list
	until   time.Time            // the first of them is out of date; zero: none ever is
	whose   string               // that list is
	others  []string             // who is no authority and has a list here: it says nothing
}

// parseLists takes a file whole or not at all: lists in PEM, or one in DER, each signed by one of
// the authorities. Those of somebody who is none, perhaps no longer, are passed over beside others.
func parseLists(text []byte, authorities []*x509.Certificate) (*lists, error) {
	out := &lists{text: text, entries: map[serial]time.Time{}, by: map[[32]byte]bool{}}
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
		return nil, model.Errorf(model.Invalid, "it holds no revocation list: want -----BEGIN X509 CRL-----, or one list in DER")
	default:
		if err := out.add(text, authorities); err != nil {
			return nil, err
		}
	}
	if len(out.by) == 0 {
		return nil, model.Errorf(model.Invalid, "it has a list of %s, which is no authority of --sensu-client-ca, and none of those that are", out.others[0])
	}
	return out, nil
}

func (l *lists) add(der []byte, authorities []*x509.Certificate) error {
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return fmt.Errorf("%w (want version 2: with crlnumber in the configuration of openssl ca)", err)
	}
	for _, e := range list.Extensions {
		if e.Critical { // of a part of the certificates only, or what changed since another list
			return model.Errorf(model.Invalid, "the list of %s has the critical extension %s, which is not understood: want a whole list of all certificates", list.Issuer, e.Id)
		}
	}
	signer, err := signerOf(list, authorities)
	if err != nil {
		return err
	}
	if signer == nil {
		l.others = append(l.others, list.Issuer.String())
		return nil
	}
	by := keyOf(signer)
	l.by[by] = true
	for i := range list.RevokedCertificateEntries {
		e := &list.RevokedCertificateEntries[i]
		l.entries[serial{by, string(e.SerialNumber.Bytes())}] = e.RevocationTime
	}
	if !list.NextUpdate.IsZero() && (l.until.IsZero() || list.NextUpdate.Before(l.until)) {
		l.until, l.whose = list.NextUpdate, list.Issuer.String()
	}
	return nil
}

// signerOf is the authority that signed a list; nil: none has the name of its issuer.
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
