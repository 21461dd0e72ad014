package sensu

import (
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
