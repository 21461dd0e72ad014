package sensu

import (
	"crypto/sha256"
	"crypto/x509"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

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
