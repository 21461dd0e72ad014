package zabbix

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/admission"
)

// peer is a sender or agent with a connection. A peer with a certificate of an accepted CA proves to be the hosts that the certificate
// names.
type peer struct {
	address    netip.Addr
	namespaces []string              // that allow the address
	chains     [][]*x509.Certificate // verified, of its certificate; nil: it has none
}

// peerOf returns the peer of a connection, with its verified certificate.
func peerOf(nc net.Conn) (*peer, error) {
	from, err := netip.ParseAddrPort(nc.RemoteAddr().String())
	p := &peer{address: from.Addr().Unmap()}
	if t, ok := nc.(*tls.Conn); ok {
		p.chains = t.ConnectionState().VerifiedChains
	}
	return p, err
}

// proves reports whether the peer's certificate names a host. Its common name or one of its DNS names is the name of the host, whole
// and without wildcards.
func (p *peer) proves(host string) bool {
	if len(p.chains) == 0 {
		return false
	}
	leaf, host := p.chains[0][0], model.CleanName(host)
	isHost := func(name string) bool {
		clean := model.CleanName(name)
		return clean == host && len(clean) == len(name) && !strings.Contains(name, "*")
	}
	return host != "" && (isHost(leaf.Subject.CommonName) || slices.ContainsFunc(leaf.DNSNames, isHost))
}

// checkCertificate refuses a peer with a revoked certificate, or without a required certificate. A certificate is required here if
// all namespaces of the peer's address require one. The check comes before the server reads a long request.
func (s *Server) checkCertificate(p *peer) error {
	if since, revoked := s.cfg.Authorities.RevokedSince(admission.SerialsOf(p.chains)); revoked {
		return model.Errorf(model.Forbidden, "the certificate of %q was revoked at %s", p.chains[0][0].Subject.String(), since.UTC().Format(time.RFC3339)).
			WithHint("issue another certificate if the machine is still trusted")
	}
	if len(p.chains) == 0 && !slices.ContainsFunc(p.namespaces, func(namespace string) bool { return !s.cfg.CertificateRequired(namespace) }) {
		return s.missingCertificate(p.namespaces[0])
	}
	return nil
}

// checkHost refuses an agent whose certificate does not name its host, if the namespace requires certificates.
func (s *Server) checkHost(p *peer, namespace, host string) error {
	switch {
	case !s.cfg.CertificateRequired(namespace) || p.proves(host):
		return nil
	case len(p.chains) == 0:
		return s.missingCertificate(namespace)
	}
	common := p.chains[0][0].Subject.CommonName
	return model.Errorf(model.Forbidden, "the certificate names the host %q, and the agent names the host %q", model.Truncate(common, 100), model.Truncate(host, 100)).
		WithHint("Hostname=%s in the agent's configuration, or a certificate with the common name %s", model.Truncate(common, 100), model.Truncate(host, 100))
}

// missingCertificate returns the error for a peer without a certificate in a namespace that requires one.
func (s *Server) missingCertificate(namespace string) error {
	err := model.Errorf(model.Forbidden, "namespace %s requires TLS with a certificate that names the host", namespace)
	if s.cfg.Authorities == nil {
		return err.WithHint("start the server with --zabbix-client-ca FILE")
	}
	return err.WithHint("agent: TLSConnect=cert, TLSCAFile, TLSCertFile, TLSKeyFile; zabbix_sender: --tls-connect cert, --tls-ca-file, --tls-cert-file, --tls-key-file")
}
