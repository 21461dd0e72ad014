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

// CAName is the subject of every CA of Muster; its sum tells them apart.
const CAName = "Muster CA"

// ShortSum returns the start of a certificate's SHA-256, long enough for people to compare.
func ShortSum(sum [32]byte) string { return fmt.Sprintf("sha256:%x…", sum[:8]) }

// SumOfPEM returns ShortSum of the first certificate in a PEM text; empty if there is none.
func SumOfPEM(data []byte) string {
	cert, err := parseCert(data)
	if err != nil {
		return ""
	}
	return ShortSum(sha256.Sum256(cert.Raw))
}

// RefusedCertificate describes a server certificate that a client refused, for messages.
type RefusedCertificate struct {
	Server  string // host:port as dialled
	Trusted string // ShortSum of the expected CA; empty: the system's
	Now     time.Time
}

// ForPeople explains why a person's client refuses a server and gives the command to type; nil if
// err is not about the certificate.
func (s RefusedCertificate) ForPeople(err error) *model.Error {
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

// ForAgents is ForPeople for an agent that opens a session; names do not matter to agents.
func (s RefusedCertificate) ForAgents(err error) *model.Error {
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

// errOtherServer is the cause of errors from forJoining.
var errOtherServer = errors.New("another server")

// forJoining is ForPeople for a machine that joins, by token or CA sum.
func (s RefusedCertificate) forJoining(chain []*x509.Certificate) *model.Error {
	whose, ours := authorityOf(&tls.CertificateVerificationError{UnverifiedCertificates: chain})
	e := s.foreign(whose)
	if ours {
		e = model.Errorf(model.Unauthenticated, "the server at %s is not the one that the join token (or --ca-hash, --ca-file) names: it shows a certificate of %s, wanted is the CA %s", s.Server, whose, s.Trusted).
			WithHint("is the address right? Otherwise make a token on the server that you want to join: muster node token")
	}
	e.Cause = errOtherServer
	return e
}

func (s RefusedCertificate) foreign(whose string) *model.Error {
	return model.Errorf(model.Unavailable, "what answers at %s is no Muster server: it shows a certificate of %s", s.Server, whose).
		WithHint("a proxy that opens TLS looks like this: let it pass %s through unopened; else name the server with --server HOST:8443", s.Server)
}

// wrongTime explains a certificate outside its lifetime: a clock is wrong, since servers renew
// early.
func (s RefusedCertificate) wrongTime(err error) *model.Error {
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

func (s RefusedCertificate) host() string {
	if host, _, err := net.SplitHostPort(s.Server); err == nil {
		return host
	}
	return strings.Trim(s.Server, "[]")
}

// authorityOf names the issuer of the certificate; ours reports a Muster server.
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

// Advertise returns the --advertise setting that adds one name to the names of a certificate.
func Advertise(names []string, more string) []string {
	list := slices.Clone(names)
	list = slices.DeleteFunc(list, func(name string) bool {
		ip := net.ParseIP(name)
		return name == "localhost" || ip != nil && ip.IsLoopback()
	})
	return append(list, more)
}

// maxNames bounds the names of a certificate in a message.
const maxNames = 12

func list(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return model.ListFirst(names, maxNames)
}
