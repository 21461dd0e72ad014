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

// Authorities are those of agents' certificates, as a file has them now: the housekeeper reads it
// again (Refresh). What cannot be read leaves those that were there before.
type Authorities struct {
	file reread
	log  *slog.Logger
	now  atomic.Pointer[authorities]

	revoked *revoked // nil: there are no lists
}

// authorities are those of one reading.
type authorities struct {
	text  []byte
	certs []*x509.Certificate
	pool  *x509.CertPool
	sums  map[[32]byte]struct{} // of the certificates in it
}

// OpenAuthorities reads the file, which must have at least one.
func OpenAuthorities(path string, log *slog.Logger) (*Authorities, error) {
	a := &Authorities{file: reread{path: path}, log: log}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, model.Errorf(model.Invalid, "read the authorities of Sensu's agents: %w", err).WithHint("--sensu-client-ca FILE")
	}
	read, err := parseAuthorities(text)
	if err != nil {
		return nil, model.Errorf(model.Invalid, "%s: %w", path, err).WithHint("--sensu-client-ca FILE, of -----BEGIN CERTIFICATE-----")
	}
	a.now.Store(read)
	return a, nil
}

// parseAuthorities takes a file whole or not at all: one that is being written is read again.
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

// Refresh reads the file again; what it held twice in turn holds: nobody is writing it. Whoever is
// connected stays while the authority by which it came is there, and its certificate in no
// revocation list.
func (a *Authorities) Refresh(at time.Time) {
	was := a.now.Load()
	err := a.file.again(was.text, func(text []byte) error {
		read, err := parseAuthorities(text)
		if err != nil {
			return err
		}
		a.now.Store(read)
		if came, gone := read.less(was), was.less(read); came+gone > 0 {
			a.log.Info("the authorities of Sensu's agents were read again", "file", a.file.path, "authorities", len(read.sums), "new", came, "gone", gone)
		}
		return nil
	})
	if err != nil {
		a.log.Error("the authorities of Sensu's agents were not read again: those that were there before hold", "file", a.file.path, "err", err)
	}
	if a.revoked != nil {
		a.revoked.refresh(a, at)
	}
}

// less is how many others do not have.
func (a *authorities) less(other *authorities) (n int) {
	for sum := range a.sums {
		if _, ok := other.sums[sum]; !ok {
			n++
		}
	}
	return n
}

// Admit lets agents show certificates of these authorities. Who shows none may come by a password,
// and to fetch archives. Nothing is resumed: each connection shows and proves anew.
func (a *Authorities) Admit(config *tls.Config) {
	config.ClientAuth, config.SessionTicketsDisabled = tls.VerifyClientCertIfGiven, true
	base := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := base.Clone()
		c.ClientCAs = a.now.Load().pool
		return c, nil
	}
}

// have says whether one of the authorities by which a connection was proven is there. A connection
// without certificate has none.
func (a *Authorities) have(roots [][32]byte) bool {
	if a == nil || len(roots) == 0 {
		return true
	}
	now := a.now.Load()
	for _, sum := range roots {
		if _, ok := now.sums[sum]; ok {
			return true
		}
	}
	return false
}

// rootsOf are the authorities at the ends of chains.
func rootsOf(chains [][]*x509.Certificate) (roots [][32]byte) {
	for _, chain := range chains {
		roots = append(roots, sha256.Sum256(chain[len(chain)-1].Raw))
	}
	return roots
}
