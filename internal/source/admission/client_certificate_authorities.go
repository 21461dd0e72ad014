package admission

import (
	"bytes"
	"context"
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
	"github.com/muster-fleet/muster/internal/pause"
)

// Authorities has the CAs that may issue agents' certificates, read from a file. Refresh reloads the file. A file that
// cannot be read leaves the former ones in force.
type Authorities struct {
	setting    string // beginning of the names of its flags, such as --sensu-client
	log        *slog.Logger
	file       reloadedFile[loadedAuthorities]
	revocation *revocationFile // revocation lists; nil: the server has none
}

// loadedAuthorities holds the accepted CA certificates of one loaded version of the file.
type loadedAuthorities struct {
	certs []*x509.Certificate
	pool  *x509.CertPool
	sums  map[[32]byte]struct{} // of certs
}

// OpenAuthorities reads a PEM file with at least one CA certificate. The setting is the beginning of the names of the flags for
// this file and for revocation lists, such as --sensu-client: errors name the flag.
func OpenAuthorities(setting, path string, log *slog.Logger) (*Authorities, error) {
	a := &Authorities{setting: setting, log: log, file: reloadedFile[loadedAuthorities]{path: path, contentName: "authorities", parse: parseAuthorities}}
	return a, a.file.open(setting+"-ca FILE", "of -----BEGIN CERTIFICATE-----")
}

// parseAuthorities parses CA certificates in PEM. One invalid certificate makes the whole file an error, because it
// may be a file that is being written.
func parseAuthorities(text []byte) (*loadedAuthorities, error) {
	out := &loadedAuthorities{pool: x509.NewCertPool(), sums: map[[32]byte]struct{}{}}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificate number %d of the file: %w", len(out.sums)+1, err)
		}
		out.certs = append(out.certs, cert)
		out.pool.AddCert(cert)
		out.sums[sha256.Sum256(cert.Raw)] = struct{}{}
	}
	if len(out.sums) == 0 {
		return nil, model.Errorf(model.Invalid, "the file has no PEM certificate")
	}
	return out, nil
}

// Refresh reloads the files of CA certificates and of revocation lists, if their contents have changed. A
// change takes effect after two equal reads. A connected agent stays while its CA is in the file and its
// certificate is not revoked.
func (a *Authorities) Refresh(at time.Time) {
	before := a.file.current.Load()
	if read := a.file.reload(a.log); read != nil {
		if added, removed := read.countMissing(before), before.countMissing(read); added+removed > 0 {
			a.log.Info("reloaded the authorities of "+a.setting+"-ca", "file", a.file.path, "authorities", len(read.sums), "new", added, "gone", removed)
		}
	}
	if a.revocation == nil {
		return
	}
	if read := a.revocation.reload(a.log); read != nil {
		a.revocation.warned = time.Time{}
		a.logLists(read)
	}
	a.revocation.warnExpired(at, a.log)
}

// refreshInterval is the time between two reads of the files.
const refreshInterval = 10 * time.Second

// Run reloads the files periodically until ctx ends, for a source without sessions.
func (a *Authorities) Run(ctx context.Context, now func() time.Time) error {
	for pause.For(ctx, refreshInterval) == nil {
		a.Refresh(now())
	}
	return nil
}

// countMissing returns how many of the loaded CAs another loaded version of the file lacks.
func (a *loadedAuthorities) countMissing(other *loadedAuthorities) (n int) {
	for sum := range a.sums {
		if _, ok := other.sums[sum]; !ok {
			n++
		}
	}
	return n
}

// ConfigureTLS makes a TLS configuration verify agents' certificates against the accepted CAs and revocation
// lists. An agent without one may use a password, and fetch archives. TLS sessions are not resumed, so that
// each connection proves its certificate.
func (a *Authorities) ConfigureTLS(config *tls.Config) {
	config.ClientAuth, config.SessionTicketsDisabled = tls.VerifyClientCertIfGiven, true
	base := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := base.Clone()
		c.ClientCAs = a.file.current.Load().pool
		return c, nil
	}
}

// TrustsOneRoot reports whether the server still accepts one of the CAs that verified a connection's certificate.
func (a *Authorities) TrustsOneRoot(roots [][32]byte) bool {
	if a == nil || len(roots) == 0 {
		return true
	}
	now := a.file.current.Load()
	for _, sum := range roots {
		if _, ok := now.sums[sum]; ok {
			return true
		}
	}
	return false
}

// AuthorityKeysOf returns the hashes of the keys of the CAs in verified certificate chains.
func AuthorityKeysOf(chains [][]*x509.Certificate) (roots [][32]byte) {
	for _, chain := range chains {
		roots = append(roots, sha256.Sum256(chain[len(chain)-1].Raw))
	}
	return roots
}

// reloadedFile is a file that the server reads again periodically, with its last accepted content.
type reloadedFile[T any] struct {
	path        string
	contentName string // name of the content for people, such as "authorities"
	parse       func(text []byte) (*T, error)
	current     atomic.Pointer[T]

	textInForce []byte // text of the content in current
	lastRead    []byte
	lastErr     string // error that was logged last; empty: none
}

// open reads the file when the server starts, and returns an error for unusable content. flag and form are for the
// hint of an error: the flag that names the file, and the form of its content.
func (f *reloadedFile[T]) open(flag, form string) error {
	text, err := os.ReadFile(f.path)
	if err != nil {
		return model.Errorf(model.Invalid, "read the file with the %s of agents: %w", f.contentName, err).WithHint("%s", flag)
	}
	read, err := f.parse(text)
	if err != nil {
		return model.Errorf(model.Invalid, "%s: %w", f.path, err).WithHint("%s, %s", flag, form)
	}
	f.textInForce = text
	f.current.Store(read)
	return nil
}

// reload reads the file again, and accepts new content only after two equal reads. A file that is being written
// is thus not used. A file that cannot be read leaves the former content in force; each error is logged once.
func (f *reloadedFile[T]) reload(log *slog.Logger) (read *T) {
	text, err := os.ReadFile(f.path)
	stable := bytes.Equal(text, f.lastRead)
	if !stable {
		f.lastErr = "" // an operator has edited it and expects an answer
	}
	f.lastRead = text
	if err == nil && !bytes.Equal(text, f.textInForce) {
		if !stable {
			return nil
		}
		read, err = f.parse(text)
	}
	switch {
	case err == nil:
		if f.lastErr = ""; read != nil {
			f.textInForce = text
			f.current.Store(read)
		}
	case f.lastErr != err.Error():
		f.lastErr = err.Error()
		log.Error("cannot reload the "+f.contentName+" of agents; the former ones stay in force", "file", f.path, "err", err)
	}
	return read
}

// revocationFile holds the revocation lists of a file that the server rereads periodically. An expired list stays in
// force and is logged: a list that nobody renewed must not lock out a fleet.
type revocationFile struct {
	reloadedFile[revocationLists]
	warned time.Time // time of the last log line on an expired list
}

// expiredInterval is the time between two log lines on an expired list.
const expiredInterval = time.Hour

// OpenRevoked reads the file of revocation lists, each signed by one of the authorities.
func (a *Authorities) OpenRevoked(path string, now time.Time) error {
	r := &revocationFile{reloadedFile: reloadedFile[revocationLists]{path: path, contentName: "revocation lists", parse: func(text []byte) (*revocationLists, error) {
		return parseLists(a.setting, text, a.file.current.Load().certs)
	}}}
	if err := r.open(a.setting+"-crl FILE", "as openssl ca -gencrl writes it"); err != nil {
		return err
	}
	a.revocation = r
	a.logLists(r.current.Load())
	r.warnExpired(now, a.log)
	return nil
}

// logLists logs how many revocation lists are loaded and how many CAs have none.
func (a *Authorities) logLists(read *revocationLists) {
	without := 0
	for _, cert := range a.file.current.Load().certs {
		if !read.issuers[authorityKey(cert)] {
			without++
		}
	}
	a.log.Info("read revocation lists of agents", "file", a.revocation.path, "revoked", len(read.entries), "authorities", len(read.issuers), "without", without)
	for _, who := range read.ignored {
		a.log.Warn("ignored a revocation list of an authority that is not in "+a.setting+"-ca", "file", a.revocation.path, "authority", who)
	}
}

// warnExpired logs a revocation list's expiry, at most once an hour.
func (r *revocationFile) warnExpired(at time.Time, log *slog.Logger) {
	read := r.current.Load()
	if read.expires.IsZero() || at.Before(read.expires) || at.Sub(r.warned) < expiredInterval {
		return
	}
	r.warned = at
	log.Error("a revocation list of agents has expired: its certificates stay revoked, later revocations are unknown; issue a new list",
		"file", r.path, "authority", read.issuer, "since", read.expires)
}

// CertificateSerial identifies a certificate by its issuer (a CA) and its serial number.
type CertificateSerial struct {
	issuer [32]byte // key of the authority
	number string
}

// SerialsOf returns the issuers and serial numbers of all certificates in verified chains, except root CAs.
func SerialsOf(chains [][]*x509.Certificate) (list []CertificateSerial) {
	for _, chain := range chains {
		for i, cert := range chain[:len(chain)-1] {
			list = append(list, CertificateSerial{authorityKey(chain[i+1]), string(cert.SerialNumber.Bytes())})
		}
	}
	return list
}

// authorityKey returns the hash of a CA's public key, which identifies the CA because CA names may repeat. It
// identifies the CA, because CA names may repeat.
func authorityKey(cert *x509.Certificate) [32]byte {
	return sha256.Sum256(cert.RawSubjectPublicKeyInfo)
}

// RevokedSince returns the revocation time of the first revoked certificate in a list, if any is revoked. ok is
// false if none is.
func (a *Authorities) RevokedSince(list []CertificateSerial) (since time.Time, ok bool) {
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

// FirstListExpiry returns the earliest expiry of a revocation list in Unix seconds, or 0 without expiry.
func (a *Authorities) FirstListExpiry() float64 {
	if a == nil || a.revocation == nil || a.revocation.current.Load().expires.IsZero() {
		return 0
	}
	return float64(a.revocation.current.Load().expires.Unix())
}

// revocationLists holds the revoked serial numbers per CA of one loaded version of the file.
type revocationLists struct {
	entries map[CertificateSerial]time.Time // time of the revocation
	issuers map[[32]byte]bool               // authorities that have a list
	expires time.Time                       // of the first list; zero: none expires
	issuer  string                          // authority that issued the list that expires first
	ignored []string                        // issuers that are no authority
}

// parseLists parses revocation lists and verifies that one of the CAs has signed each. The lists are several in PEM,
// or one in DER. One invalid list makes the whole file an error. Lists of other issuers, such as former authorities,
// are ignored if there is one of an authority.
func parseLists(setting string, text []byte, authorities []*x509.Certificate) (*revocationLists, error) {
	out := &revocationLists{entries: map[CertificateSerial]time.Time{}, issuers: map[[32]byte]bool{}}
	n := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "X509 CRL" {
			continue
		}
		n++
		if err := out.addList(block.Bytes, authorities); err != nil {
			return nil, fmt.Errorf("parse revocation list number %d of the file: %w", n, err)
		}
	}
	switch {
	case n > 0:
	case bytes.Contains(text, []byte("-----BEGIN")) || len(text) == 0 || text[0] != 0x30: // an ASN.1 sequence
		return nil, model.Errorf(model.Invalid, "not a revocation list: expected -----BEGIN X509 CRL-----, or one list in DER")
	default:
		if err := out.addList(text, authorities); err != nil {
			return nil, err
		}
	}
	if len(out.issuers) == 0 {
		return nil, model.Errorf(model.Invalid, "the file has a revocation list of %s, which is not an authority in %s-ca", out.ignored[0], setting)
	}
	return out, nil
}

// addList parses one revocation list and verifies its signature by an authority.
func (l *revocationLists) addList(der []byte, authorities []*x509.Certificate) error {
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return fmt.Errorf("%w (expected a revocation list of version 2: set crlnumber in the configuration of openssl ca)", err)
	}
	for _, e := range list.Extensions {
		if e.Critical { // a list of some certificates, or of changes to another list
			return model.Errorf(model.Invalid, "the revocation list of %s has the unsupported critical extension %s: expected a complete list of all revoked certificates", list.Issuer, e.Id)
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
	issuer := authorityKey(signer)
	l.issuers[issuer] = true
	for i := range list.RevokedCertificateEntries {
		e := &list.RevokedCertificateEntries[i]
		l.entries[CertificateSerial{issuer, string(e.SerialNumber.Bytes())}] = e.RevocationTime
	}
	if !list.NextUpdate.IsZero() && (l.expires.IsZero() || list.NextUpdate.Before(l.expires)) {
		l.expires, l.issuer = list.NextUpdate, list.Issuer.String()
	}
	return nil
}

// signerOf returns the CA that signed a revocation list, or nil.
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
		return nil, model.Errorf(model.Invalid, "the revocation list of %s is not signed by the authority of this name: %w", list.Issuer, wrong)
	}
	return nil, nil
}
