package pki

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// CAName is the subject of every CA that Muster makes; its sum tells them apart.
const CAName = "Muster CA"

// ShortSum is as much of a certificate's SHA-256 as people compare.
func ShortSum(sum [32]byte) string { return fmt.Sprintf("sha256:%x…", sum[:8]) }

// SumOfPEM is ShortSum of the first certificate in a PEM text; empty if there is none.
func SumOfPEM(data []byte) string {
	cert, err := parseCert(data)
	if err != nil {
		return ""
	}
	return ShortSum(sha256.Sum256(cert.Raw))
}

// Shown is a server's certificate that was not accepted, for the words about it.
type Shown struct {
	Server  string // host:port as it was reached
	Trusted string // ShortSum of the CA that would have been; empty: those of the system
	Now     time.Time
}

// ForPeople says why people's clients do not accept a server, and what to type; nil when
// err is not about its certificate.
func (s Shown) ForPeople(err error) *model.Error {
	if e := s.wrongTime(err); e != nil {
		return e
	}
	host := s.host()
	if wrong := (x509.HostnameError{}); errors.As(err, &wrong) {
		names := namesOf(wrong.Certificate)
		return model.Errorf(model.Unavailable, "the server's certificate does not name %s, by which it was reached; it names %s", host, list(names)).
			WithHint("use one of these names, or restart the server with --advertise %s (its CA stays: nobody joins or logs in again)", strings.Join(Advertise(names, host), ","))
	}
	if !errors.As(err, new(x509.UnknownAuthorityError)) {
		return nil
	}
	switch whose, ours := authorityOf(err); {
	case !ours:
		return model.Errorf(model.Unavailable, "%s shows a certificate of %s, which is not trusted here", s.Server, whose).
			WithHint("is this a Muster server? a proxy that opens TLS, or another program, looks like this. If its certificate is right, name the CA with --ca FILE or MUSTER_CA")
	case s.Trusted == "":
		return model.Errorf(model.Unavailable, "%s shows a certificate of %s, which is not trusted here", s.Server, whose).
			WithHint("if it is the right server: bring its CA here (DATA/pki/ca.crt there) and type muster login https://%s --ca ca.crt", s.Server)
	default:
		return model.Errorf(model.Unavailable, "%s shows a certificate of %s, and only that of the CA %s is trusted here", s.Server, whose, s.Trusted).
			WithHint("if it is the right server: bring its CA here (DATA/pki/ca.crt there) and type muster login https://%s --ca ca.crt; if it lost its DATA/pki: bring that back from the backup; else name another server with --server", s.Server)
	}
}

// ForAgents says the same where an agent opens a session: names do not matter to it.
func (s Shown) ForAgents(err error) *model.Error {
	if e := s.wrongTime(err); e != nil {
		return e
	}
	if !errors.As(err, new(x509.UnknownAuthorityError)) {
		return nil
	}
	whose, ours := authorityOf(err)
	if !ours {
		return s.foreign(whose)
	}
	return model.Errorf(model.Unavailable, "the server at %s is not the one that this machine joined: it shows a certificate of %s, this machine's server has the CA %s", s.Server, whose, s.Trusted).
		WithHint("if the server lost its DATA/pki, bring that back from the backup and restart it; if this machine is to move to that server: muster-agent reset-identity, then join with a token made there; else correct --server")
}

// errAnother is the cause of what forJoining says.
var errAnother = errors.New("another server")

// forJoining says the same where a machine joins, with a token or by the name of a CA.
func (s Shown) forJoining(chain []*x509.Certificate) *model.Error {
	whose, ours := authorityOf(&tls.CertificateVerificationError{UnverifiedCertificates: chain})
	e := s.foreign(whose)
	if ours {
		e = model.Errorf(model.Unauthenticated, "the server at %s is not the one that the join token (or --ca-hash, --ca-file) names: it shows a certificate of %s, wanted is the CA %s", s.Server, whose, s.Trusted).
			WithHint("is the address right? Otherwise make a token on the server that you want to join: muster node token")
	}
	e.Cause = errAnother
	return e
}

func (s Shown) foreign(whose string) *model.Error {
	return model.Errorf(model.Unavailable, "what answers at %s is no Muster server: it shows a certificate of %s", s.Server, whose).
		WithHint("a proxy that opens TLS looks like this: let it pass %s through unopened; else name the server with --server HOST:8443", s.Server)
}

// wrongTime is about clocks: a server renews its certificate long before its end.
func (s Shown) wrongTime(err error) *model.Error {
	invalid := x509.CertificateInvalidError{}
	if !errors.As(err, &invalid) || invalid.Reason != x509.Expired {
		return nil
	}
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	if s.Now.Before(invalid.Cert.NotBefore) {
		return model.Errorf(model.Unavailable, "by this machine's clock it is %s, and the certificate of %s begins only at %s", at(s.Now), s.Server, at(invalid.Cert.NotBefore)).
			WithHint("compare date -u here and on the server, and set the clock that is wrong: timedatectl set-ntp true")
	}
	return model.Errorf(model.Unavailable, "by this machine's clock it is %s, and the certificate of %s ended at %s", at(s.Now), s.Server, at(invalid.Cert.NotAfter)).
		WithHint("compare date -u here and on the server, and set the clock that is wrong: timedatectl set-ntp true; if both are right, restart the server: it renews its certificate")
}

func (s Shown) host() string {
	if host, _, err := net.SplitHostPort(s.Server); err == nil {
		return host
	}
	return strings.Trim(s.Server, "[]")
}

// authorityOf names whose certificate was shown; ours: that of a Muster server.
func authorityOf(err error) (whose string, ours bool) {
	var failed *tls.CertificateVerificationError
	if !errors.As(err, &failed) || len(failed.UnverifiedCertificates) == 0 {
		return "another CA", true
	}
	chain := failed.UnverifiedCertificates
	last := chain[len(chain)-1]
	if last.IsCA && last.Subject.CommonName == CAName {
		return "the CA " + ShortSum(sha256.Sum256(last.Raw)), true
	}
	return fmt.Sprintf("%q", chain[0].Issuer.String()), false
}

// Advertise is the --advertise that names one more name than a certificate does.
func Advertise(names []string, more string) []string {
	list := slices.Clone(names)
	list = slices.DeleteFunc(list, func(name string) bool {
		ip := net.ParseIP(name)
		return name == "localhost" || ip != nil && ip.IsLoopback()
	})
	return append(list, more)
}

// maxNames of a certificate are said.
const maxNames = 12

func list(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return model.ListFirst(names, maxNames)
}
