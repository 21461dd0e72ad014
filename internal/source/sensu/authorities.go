package sensu

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Authorities are the CAs of agents' certificates, in a file that Refresh reads again. A file that cannot be read leaves
// the former ones in force.
type Authorities struct {
	file    reloadedFile
	log     *slog.Logger
	current atomic.Pointer[authorities]

	revocation *revocation // nil: there are no lists
}

// authorities are the content of the file at one time.
type authorities struct {
	text  []byte
	certs []*x509.Certificate
	pool  *x509.CertPool
	sums  map[[32]byte]struct{} // of certs
}

// OpenAuthorities reads the file, which must contain at least one CA.
func OpenAuthorities(path string, log *slog.Logger) (*Authorities, error) {
	a := &Authorities{file: reloadedFile{path: path}, log: log}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, model.Errorf(model.Invalid, "read the authorities of Sensu's agents: %w", err).WithHint("--sensu-client-ca FILE")
	}
	read, err := parseAuthorities(text)
	if err != nil {
		return nil, model.Errorf(model.Invalid, "%s: %w", path, err).WithHint("--sensu-client-ca FILE, of -----BEGIN CERTIFICATE-----")
	}
	a.current.Store(read)
	return a, nil
}

// parseAuthorities accepts a file whole or not at all: one that is being written is read again.
func parseAuthorities(text []byte) (*authorities, error) {
	out := &authorities{text: text, pool: x509.NewCertPool(), sums: map[[32]byte]struct{}{}}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(out.sums)+1, err)
		}
		out.certs = append(out.certs, cert)
		out.pool.AddCert(cert)
		out.sums[sha256.Sum256(cert.Raw)] = struct{}{}
	}
	if len(out.sums) == 0 {
		return nil, model.Errorf(model.Invalid, "it holds no certificate in PEM")
	}
	return out, nil
}

// Refresh reads the file again and puts its content in force if two successive reads agree: then it is not being written.
// A connected agent stays while its CA is in the file and its certificate is not revoked.
func (a *Authorities) Refresh(at time.Time) {
	before := a.current.Load()
	err := a.file.reload(before.text, func(text []byte) error {
		read, err := parseAuthorities(text)
		if err != nil {
			return err
		}
		a.current.Store(read)
		if added, removed := read.countMissing(before), before.countMissing(read); added+removed > 0 {
			a.log.Info("reloaded the authorities of Sensu agents", "file", a.file.path, "authorities", len(read.sums), "new", added, "gone", removed)
		}
		return nil
	})
	if err != nil {
		a.log.Error("cannot reload the authorities of Sensu agents; the former ones stay in force", "file", a.file.path, "err", err)
	}
	if a.revocation != nil {
		a.revocation.refresh(a, at)
	}
}

// countMissing returns the number of authorities that other does not have.
func (a *authorities) countMissing(other *authorities) (n int) {
	for sum := range a.sums {
		if _, ok := other.sums[sum]; !ok {
			n++
		}
	}
	return n
}

// Admit accepts certificates of these authorities. An agent without one may use a password, and fetch archives. TLS
// sessions are not resumed, so that each connection proves its certificate.
func (a *Authorities) Admit(config *tls.Config) {
	config.ClientAuth, config.SessionTicketsDisabled = tls.VerifyClientCertIfGiven, true
	base := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := base.Clone()
		c.ClientCAs = a.current.Load().pool
		return c, nil
	}
}

// containAny reports whether an authority that proved a connection is still accepted; true for one without a certificate.
func (a *Authorities) containAny(roots [][32]byte) bool {
	if a == nil || len(roots) == 0 {
		return true
	}
	now := a.current.Load()
	for _, sum := range roots {
		if _, ok := now.sums[sum]; ok {
			return true
		}
	}
	return false
}

// rootsOf returns the authorities at the ends of chains.
func rootsOf(chains [][]*x509.Certificate) (roots [][32]byte) {
	for _, chain := range chains {
		roots = append(roots, sha256.Sum256(chain[len(chain)-1].Raw))
	}
	return roots
}

// reloadedFile is a file that is read again and again.
type reloadedFile struct {
	path     string
	lastErr  string // reported last; empty: none
	lastRead []byte
}

// reload calls accept with the content of the file if it differs from the one in force and two successive reads agree:
// then it is not being written. It returns each error once.
func (f *reloadedFile) reload(inForce []byte, accept func(text []byte) error) error {
	text, err := os.ReadFile(f.path)
	stable := bytes.Equal(text, f.lastRead)
	if !stable {
		f.lastErr = "" // an operator has edited it and expects an answer
	}
	f.lastRead = text
	switch {
	case err != nil:
	case bytes.Equal(text, inForce):
	case !stable:
		return nil
	default:
		err = accept(text)
	}
	if err == nil {
		f.lastErr = ""
		return nil
	}
	if f.lastErr == err.Error() {
		return nil
	}
	f.lastErr = err.Error()
	return err
}

// revocation holds the revocation lists of the authorities, in a file that is read again with theirs. A file that cannot
// be read leaves the former lists in force. An expired list stays in force and is logged: a list that nobody renewed must
// not lock out a fleet.
type revocation struct {
	file    reloadedFile
	current atomic.Pointer[lists]
	warned  time.Time // time of the last log line on an expired list
}

// expiredInterval is the time between two log lines on an expired list.
const expiredInterval = time.Hour

// OpenRevoked reads a file of revocation lists, each by one of the authorities.
func (a *Authorities) OpenRevoked(path string, now time.Time) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return model.Errorf(model.Invalid, "read the revocation lists of Sensu's agents: %w", err).WithHint("--sensu-client-crl FILE")
	}
	read, err := parseLists(text, a.current.Load().certs)
	if err != nil {
		return model.Errorf(model.Invalid, "%s: %w", path, err).WithHint("--sensu-client-crl FILE, as openssl ca -gencrl writes it")
	}
	a.revocation = &revocation{file: reloadedFile{path: path}}
	a.revocation.current.Store(read)
	a.logLists(read)
	a.revocation.warnExpired(now, a.log)
	return nil
}

// refresh reads the file again and logs an expired list.
func (r *revocation) refresh(a *Authorities, at time.Time) {
	err := r.file.reload(r.current.Load().text, func(text []byte) error {
		read, err := parseLists(text, a.current.Load().certs)
		if err != nil {
			return err
		}
		r.current.Store(read)
		r.warned = time.Time{}
		a.logLists(read)
		return nil
	})
	if err != nil {
		a.log.Error("cannot reload the revocation lists of Sensu agents; the former ones stay in force", "file", r.file.path, "err", err)
	}
	r.warnExpired(at, a.log)
}

// logLists logs the content of a file, and the number of authorities without a list in it.
func (a *Authorities) logLists(read *lists) {
	without := 0
	for _, cert := range a.current.Load().certs {
		if !read.issuers[keyOf(cert)] {
			without++
		}
	}
	a.log.Info("read revocation lists of Sensu agents", "file", a.revocation.file.path, "revoked", len(read.entries), "authorities", len(read.issuers), "without", without)
	for _, who := range read.ignored {
		a.log.Warn("ignored a revocation list of an authority that is not in --sensu-client-ca", "file", a.revocation.file.path, "authority", who)
	}
}

// warnExpired logs an expired list, once an hour.
func (r *revocation) warnExpired(at time.Time, log *slog.Logger) {
	read := r.current.Load()
	if read.expires.IsZero() || at.Before(read.expires) || at.Sub(r.warned) < expiredInterval {
		return
	}
	r.warned = at
	log.Error("a revocation list of Sensu agents has expired: its certificates stay revoked, later revocations are unknown; issue a new list",
		"file", r.file.path, "authority", read.issuer, "since", read.expires)
}

// serial identifies a certificate of an authority.
type serial struct {
	issuer [32]byte // key of the authority
	number string
}

// serialsOf returns the certificates of chains without the authorities at their ends.
func serialsOf(chains [][]*x509.Certificate) (list []serial) {
	for _, chain := range chains {
		for i, cert := range chain[:len(chain)-1] {
			list = append(list, serial{keyOf(chain[i+1]), string(cert.SerialNumber.Bytes())})
		}
	}
	return list
}

// keyOf identifies an authority by its key, because names may repeat.
func keyOf(cert *x509.Certificate) [32]byte { return sha256.Sum256(cert.RawSubjectPublicKeyInfo) }

// revokedSince returns the time at which one of the certificates was revoked; not ok: none was.
func (a *Authorities) revokedSince(list []serial) (since time.Time, ok bool) {
	if a == nil || a.revocation == nil {
		return since, false
	}
	now := a.revocation.current.Load()
	for _, s := range list {
		if since, ok = now.entries[s]; ok {
			return since, true
		}
	}
	return since, false
}

// listsExpire returns the expiry of the first list, Unix seconds; 0: never, or there are none.
func (a *Authorities) listsExpire() float64 {
	if a == nil || a.revocation == nil || a.revocation.current.Load().expires.IsZero() {
		return 0
	}
	return float64(a.revocation.current.Load().expires.Unix())
}

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
