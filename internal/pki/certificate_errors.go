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

// SumOfPEM returns the first digits of the SHA-256 of a PEM certificate, for people to compare. It returns "" if the
// text has none.
func SumOfPEM(data []byte) string {
	cert, err := parseCert(data)
	if err != nil {
		return ""
	}
	return ShortSum(sha256.Sum256(cert.Raw))
}

// RefusedCertificate explains why a client refused a server's certificate
type RefusedCertificate struct {
	Server  string // host:port as dialled
	Trusted string // ShortSum of the expected CA; empty: the system's
	Now     time.Time
}

// ForPeople explains to a person why a client refuses a server's certificate, with a command to type. It returns nil
// if err is not about the certificate.
func (s RefusedCertificate) ForPeople(err error) *model.Error {
	if e := s.explainWrongClock(err); e != nil {
		return e
	}
	host := s.host()
	if wrong := (x509.HostnameError{}); errors.As(err, &wrong) {
		names := namesOf(wrong.Certificate)
		return model.Errorf(model.Unavailable, "the server's certificate is not for %s; it is for %s", host, listNames(names)).
			WithHint("use one of these names, or restart the server with --advertise %s (the CA stays, so agents stay joined)", strings.Join(Advertise(names, host), ","))
	}
	if !errors.As(err, new(x509.UnknownAuthorityError)) {
		return nil
	}
	switch whose, ours := issuerOf(err); {
	case !ours:
		return model.Errorf(model.Unavailable, "the certificate of %s is signed by %s, which this machine does not trust", s.Server, whose).
			WithHint("check that this is a Muster server; a proxy that intercepts TLS or another program causes this error. If it is the right server, name the CA of the server: --ca FILE or MUSTER_CA")
	case s.Trusted == "":
		return model.Errorf(model.Unavailable, "the certificate of %s is signed by %s, which this machine does not trust", s.Server, whose).
			WithHint("if this is the right server: copy DATA/pki/ca.crt from the server to this machine and type muster login https://%s --ca ca.crt", s.Server)
	default:
		return model.Errorf(model.Unavailable, "the certificate of %s is signed by %s, but this machine trusts only the CA %s", s.Server, whose, s.Trusted).
			WithHint("if this is the right server: copy DATA/pki/ca.crt from the server to this machine and type muster login https://%s --ca ca.crt; if the server lost DATA/pki: restore that folder from the backup; else name another server with --server", s.Server)
	}
}

// ForAgents explains why an agent refuses a server's certificate at the start of a session. It returns nil if err is
// not about the certificate. Agents do not compare the names in the certificate.
func (s RefusedCertificate) ForAgents(err error) *model.Error {
	if e := s.explainWrongClock(err); e != nil {
		return e
	}
	if !errors.As(err, new(x509.UnknownAuthorityError)) {
		return nil
	}
	whose, ours := issuerOf(err)
	if !ours {
		return s.explainForeignServer(whose)
	}
	return model.Errorf(model.Unavailable, "this machine joined another server than %s: the certificate is signed by %s, expected the CA %s", s.Server, whose, s.Trusted).
		WithHint("if the server lost DATA/pki, restore that folder from the backup and restart the server; to move this machine to the other server: muster-agent reset-identity, then join with a token of that server; else correct --server")
}

// errOtherServer is the cause of errors from explainToJoiningMachine.
var errOtherServer = errors.New("another server")

// explainToJoiningMachine explains to a machine that wants to join why the server's certificate is refused. The machine joins
// by a join token or a CA sum.
func (s RefusedCertificate) explainToJoiningMachine(chain []*x509.Certificate) *model.Error {
	whose, ours := issuerOf(&tls.CertificateVerificationError{UnverifiedCertificates: chain})
	e := s.explainForeignServer(whose)
	if ours {
		e = model.Errorf(model.Unauthenticated, "the join token (or --ca-hash, --ca-file) is for another server than %s: the certificate is signed by %s, expected the CA %s", s.Server, whose, s.Trusted).
			WithHint("check the address, or create a token on the right server: muster node token")
	}
	e.Cause = errOtherServer
	return e
}

// explainForeignServer returns the error about a server whose certificate no Muster CA has signed. An example is a TLS
// proxy.
func (s RefusedCertificate) explainForeignServer(whose string) *model.Error {
	return model.Errorf(model.Unavailable, "%s is not a Muster server: its certificate is signed by %s", s.Server, whose).
		WithHint("a proxy that intercepts TLS causes this error: exclude %s from interception; else name the server with --server HOST:8443", s.Server)
}

// explainWrongClock explains a not yet valid or expired certificate by a wrong clock of the machine. Servers renew
// early, so a clock is wrong.
func (s RefusedCertificate) explainWrongClock(err error) *model.Error {
	invalid := x509.CertificateInvalidError{}
	if !errors.As(err, &invalid) || invalid.Reason != x509.Expired {
		return nil
	}
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	if s.Now.Before(invalid.Cert.NotBefore) {
		return model.Errorf(model.Unavailable, "this machine's clock shows %s, but the certificate of %s begins at %s", at(s.Now), s.Server, at(invalid.Cert.NotBefore)).
			WithHint("compare date -u on this machine and on the server and correct the wrong clock: timedatectl set-ntp true")
	}
	return model.Errorf(model.Unavailable, "this machine's clock shows %s, but the certificate of %s ended at %s", at(s.Now), s.Server, at(invalid.Cert.NotAfter)).
		WithHint("compare date -u on this machine and on the server and correct the wrong clock: timedatectl set-ntp true; if both clocks are right, restart the server, which renews its certificate")
}

// host returns the server's host name without the port.
func (s RefusedCertificate) host() string {
	if host, _, err := net.SplitHostPort(s.Server); err == nil {
		return host
	}
	return strings.Trim(s.Server, "[]")
}

// issuerOf returns the name of the CA that issued a refused certificate. ours is true if it is a CA of another Muster
// server.
func issuerOf(err error) (whose string, ours bool) {
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

// Advertise returns a value for --advertise with one more name for the server's certificate.
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

// listNames joins the names of a certificate for a message, at most maxNames. For an empty list it returns the word
// "nothing".
func listNames(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return model.ListFirst(names, maxNames)
}
