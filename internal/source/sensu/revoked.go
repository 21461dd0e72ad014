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

// revoked are the certificates that authorities called back, as a file of their lists has them now.
// It is read again with the authorities. What cannot be read, or is no authority's, leaves what
// was there before; what is out of date holds on, and the log says so: a list that nobody renewed
// in time must not shut out a fleet.
type revoked struct {
	file   reread
	now    atomic.Pointer[lists]
	warned time.Time // of the housekeeper: when it said that a list is out of date
}

// warnEvery is how often it is said that a list is out of date.
const warnEvery = time.Hour

// OpenRevoked reads a file of revocation lists, each by one of the authorities.
func (a *Authorities) OpenRevoked(path string, now time.Time) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return model.Errorf(model.Invalid, "read the revocation lists of Sensu's agents: %w", err).WithHint("--sensu-client-crl FILE")
	}
	read, err := parseLists(text, a.now.Load().certs)
	if err != nil {
		return model.Errorf(model.Invalid, "%s: %w", path, err).WithHint("--sensu-client-crl FILE, as openssl ca -gencrl writes it")
	}
	a.revoked = &revoked{file: reread{path: path}}
	a.revoked.now.Store(read)
	a.sayLists(read)
	a.revoked.outOfDate(now, a.log)
	return nil
}

// refresh reads the file again.
func (r *revoked) refresh(a *Authorities, at time.Time) {
	err := r.file.again(r.now.Load().text, func(text []byte) error {
		read, err := parseLists(text, a.now.Load().certs)
		if err != nil {
			return err
		}
		r.now.Store(read)
		r.warned = time.Time{}
		a.sayLists(read)
		return nil
	})
	if err != nil {
		a.log.Error("the revocation lists of Sensu's agents were not read again: those that were there before hold", "file", r.file.path, "err", err)
	}
	r.outOfDate(at, a.log)
}

// sayLists says what a file holds, and of how many authorities it has nothing.
func (a *Authorities) sayLists(read *lists) {
	without := 0
	for _, cert := range a.now.Load().certs {
		if !read.by[keyOf(cert)] {
			without++
		}
	}
	a.log.Info("revocation lists of Sensu's agents were read", "file", a.revoked.file.path, "revoked", len(read.entries), "authorities", len(read.by), "without", without)
	for _, who := range read.others {
		a.log.Warn("a revocation list is of nobody in --sensu-client-ca: it is passed over", "file", a.revoked.file.path, "authority", who)
	}
}

// outOfDate says so, once in an hour.
func (r *revoked) outOfDate(at time.Time, log *slog.Logger) {
	read := r.now.Load()
	if read.until.IsZero() || at.Before(read.until) || at.Sub(r.warned) < warnEvery {
		return
	}
	r.warned = at
	log.Error("a revocation list of Sensu's agents is out of date: what it revokes stays revoked, and what was revoked since gets in; make a new one",
		"file", r.file.path, "authority", read.whose, "since", read.until)
}

// serial is one certificate of an authority.
type serial struct {
	by     [32]byte // the authority's key
	number string
}

// serialsOf are the certificates of chains, but for the authorities at their ends.
func serialsOf(chains [][]*x509.Certificate) (list []serial) {
	for _, chain := range chains {
		for i, cert := range chain[:len(chain)-1] {
			list = append(list, serial{keyOf(chain[i+1]), string(cert.SerialNumber.Bytes())})
		}
	}
	return list
}

// keyOf tells authorities apart whose names are the same.
func keyOf(cert *x509.Certificate) [32]byte { return sha256.Sum256(cert.RawSubjectPublicKeyInfo) }

// recalled is when one of these certificates was revoked; not ok: none is.
func (a *Authorities) recalled(list []serial) (since time.Time, ok bool) {
	if a == nil || a.revoked == nil {
		return since, false
	}
	now := a.revoked.now.Load()
	for _, s := range list {
		if since, ok = now.entries[s]; ok {
			return since, true
		}
	}
	return since, false
}

// listsUntil is when the first of the lists is out of date, Unix seconds; 0: never, or there are none.
func (a *Authorities) listsUntil() float64 {
	if a == nil || a.revoked == nil || a.revoked.now.Load().until.IsZero() {
		return 0
	}
	return float64(a.revoked.now.Load().until.Unix())
}
