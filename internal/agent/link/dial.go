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

// TLSConfig returns mutual TLS with the identity of the enrolment. It trusts only server certificates
// of the server's own CA, by whatever name or address the server was reached, because that CA signs
// no other servers. Sessions that share the configuration share session tickets. now (nil: time.Now)
// may be behind the server's clock: see pki.ValidAt.
func TLSConfig(id *pki.Identity, now func() time.Time) *tls.Config {
	return TLSFor(wire.Subprotocol, id, now)
}

// TLSFor returns TLSConfig for another ALPN protocol.
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
				return &untrusted{pki.RefusedCertificate{Trusted: pki.ShortSum(id.CASum), Now: at},
					&tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}}
			}
			if state.NegotiatedProtocol != protocol {
				return fmt.Errorf("server does not support %s", protocol)
			}
			return nil
		},
	}
}

// DialTLS connects by dial and makes a TLS handshake.
func DialTLS(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), config *tls.Config, addr string) (net.Conn, error) {
	nc, err := dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(nc, withServerName(config, addr))
	if err := conn.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return conn, nil
}

// withServerName sends the server's name (SNI), for balancers that route by it.
func withServerName(config *tls.Config, addr string) *tls.Config {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || config.ServerName != "" || net.ParseIP(host) != nil {
		return config
	}
	config = config.Clone()
	config.ServerName = host
	return config
}
