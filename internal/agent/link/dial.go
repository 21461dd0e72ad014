package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"time"

	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/wire"
)

// TLSConfig is mutual TLS with the identity got at enrolment. Trusted is a server
// certificate of the server's own CA and nothing else; by which name or address the
// server was reached does not matter, because that CA makes no other servers.
// Sessions that share the configuration share tickets for cheap resumption. now (nil:
// time.Now) may be behind: see pki.ValidAt.
func TLSConfig(id *pki.Identity, now func() time.Time) *tls.Config {
	return TLSFor(wire.Subprotocol, id, now)
}

// TLSFor is TLSConfig for another protocol than that of sessions.
func TLSFor(protocol string, id *pki.Identity, now func() time.Time) *tls.Config {
	if now == nil {
		now = time.Now
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{protocol},
		Certificates: []tls.Certificate{id.Certificate}, ClientSessionCache: tls.NewLRUClientSessionCache(4),
		InsecureSkipVerify: true, // replaced by VerifyConnection
		VerifyConnection: func(state tls.ConnectionState) error {
			leaf := state.PeerCertificates[0]
			at := pki.ValidAt(now(), leaf)
			_, err := leaf.Verify(x509.VerifyOptions{
				Roots: id.CA, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, CurrentTime: at,
			})
			if err != nil {
				return &untrusted{pki.Shown{Trusted: pki.ShortSum(id.CASum), Now: at},
					&tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}}
			}
			if state.NegotiatedProtocol != protocol {
				return fmt.Errorf("server does not speak %s", protocol)
			}
			return nil
		},
	}
}

// DialTLS makes TLS with a server that dial reaches.
func DialTLS(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), config *tls.Config, addr string) (net.Conn, error) {
	nc, err := dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(nc, named(config, addr))
	if err := conn.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return conn, nil
}

// named sends the server's name along, for balancers that route by it.
func named(config *tls.Config, addr string) *tls.Config {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || config.ServerName != "" || net.ParseIP(host) != nil {
		return config
	}
	config = config.Clone()
	config.ServerName = host
	return config
}
