package link

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/wire"
)

// TLSConfig returns the client configuration of mutual TLS with the agent's key and certificate. It trusts only
// server certificates of the server's own CA, by whatever name or address the server was reached, because that CA
// signs no other servers. Sessions that share the configuration share session tickets. now (nil: time.Now) may be
// behind the server's clock: see pki.ValidAt.
func TLSConfig(id *pki.Identity, now func() time.Time) *tls.Config {
	return TLSFor(wire.Subprotocol, id, now)
}

// TLSFor returns a client TLS configuration like TLSConfig, but for another application protocol (ALPN).
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
			at := pki.VerificationTime(now(), leaf)
			_, err := leaf.Verify(x509.VerifyOptions{
				Roots: id.CA, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, CurrentTime: at,
			})
			if err != nil {
				return &untrustedServerError{pki.RefusedCertificate{Trusted: pki.ShortSum(id.CASum), Now: at},
					&tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}}
			}
			if state.NegotiatedProtocol != protocol {
				return fmt.Errorf("the server does not support the TLS application protocol (ALPN) %s, so it is not a Muster server, or an older one", protocol)
			}
			return nil
		},
	}
}

// DialTLS opens a TCP connection with dial and makes a TLS handshake.
func DialTLS(ctx context.Context, dial pki.Dial, config *tls.Config, addr string) (net.Conn, error) {
	nc, err := dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	conn, err := tlsHandshake(ctx, nc, config, addr)
	if err != nil {
		nc.Close()
	}
	return conn, err
}

// tlsHandshake makes a TLS handshake with the server at addr. Without a TLS configuration it returns nc unchanged.
func tlsHandshake(ctx context.Context, nc net.Conn, config *tls.Config, addr string) (net.Conn, error) {
	if config == nil {
		return nc, nil
	}
	conn := tls.Client(nc, withServerName(config, addr))
	return conn, conn.HandshakeContext(ctx)
}

// withServerName returns a TLS configuration with the host of addr as server name (SNI). Load balancers choose a
// server by this name.
func withServerName(config *tls.Config, addr string) *tls.Config {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || config.ServerName != "" || net.ParseIP(host) != nil {
		return config
	}
	config = config.Clone()
	config.ServerName = host
	return config
}

// NewDialer returns a function that dials through the HTTP proxy in HTTPS_PROXY, and directly to hosts in NO_PROXY.
// Enrolment, renewals and sessions dial with it.
func NewDialer(lookup func(string) string) pki.Dial {
	if lookup == nil {
		lookup = os.Getenv
	}
	proxies := httpproxy.Config{
		HTTPSProxy: cmp.Or(lookup("HTTPS_PROXY"), lookup("https_proxy")), NoProxy: cmp.Or(lookup("NO_PROXY"), lookup("no_proxy")),
	}
	choose := proxies.ProxyFunc()
	if err := CheckProxy(proxies.HTTPSProxy); err != nil { // the library would connect without it
		choose = func(*url.URL) (*url.URL, error) { return nil, err }
	}
	direct := &net.Dialer{Timeout: 15 * time.Second}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		proxy, err := choose(&url.URL{Scheme: "https", Host: addr})
		if err != nil {
			return nil, err
		}
		if proxy == nil {
			return direct.DialContext(ctx, network, addr)
		}
		return dialProxy(ctx, direct, proxy, addr)
	}
}

// CheckProxy returns an error if the URL of an HTTP proxy is invalid. The error does not contain the password. An
// address without a scheme is http. An empty one is valid: no proxy.
func CheckProxy(proxy string) error {
	if proxy == "" {
		return nil
	}
	if !strings.Contains(proxy, "://") {
		proxy = "http://" + proxy
	}
	u, err := url.Parse(proxy)
	fault := "cannot be read"
	if err == nil && u.Host != "" {
		if u.Scheme == "http" || u.Scheme == "https" {
			return nil
		}
		fault = fmt.Sprintf("has the scheme %q: agents need a proxy with CONNECT (http)", u.Scheme)
	}
	return model.Errorf(model.Invalid, "invalid URL of the HTTP proxy: the value of HTTPS_PROXY %s", fault).
		WithHint("write the URL as http://USER:PASSWORD@HOST:PORT, with @ : / in a password as %%40 %%3A %%2F")
}

// dialProxy connects to the HTTP proxy and opens a tunnel to addr.
func dialProxy(ctx context.Context, direct *net.Dialer, proxy *url.URL, addr string) (net.Conn, error) {
	port := map[string]string{"http": "80", "https": "443"}[proxy.Scheme]
	nc, err := direct.DialContext(ctx, "tcp", net.JoinHostPort(proxy.Hostname(), cmp.Or(proxy.Port(), port)))
	if err != nil {
		return nil, proxyUnreachable(proxy, addr, err)
	}
	defer context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })()
	if proxy.Scheme == "https" {
		nc = tls.Client(nc, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: proxy.Hostname()})
	}
	status, err := openTunnel(nc, proxy.User, addr)
	switch {
	case err != nil:
		err = proxyUnreachable(proxy, addr, err)
	case status != http.StatusOK:
		err = tunnelRefused(proxy, addr, status)
	default:
		return nc, nil
	}
	nc.Close()
	return nil, err
}

// openTunnel requests a tunnel from an HTTP proxy by CONNECT (RFC 9110, 9.3.6). The peer sends nothing before the TLS
// client does, so the reader's buffer is empty after the response.
func openTunnel(nc net.Conn, user *url.Userinfo, addr string) (status int, err error) {
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: http.Header{}}
	if password, _ := user.Password(); user != nil {
		r.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := r.Write(nc); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(bufio.NewReader(nc), r)
	if err != nil {
		return 0, err
	}
	response.Body.Close()
	return response.StatusCode, nil
}

// noProxyHint returns the hint to connect without the proxy, by the variable NO_PROXY.
func noProxyHint(addr string) string { return "or connect without it: NO_PROXY=" + model.HostOf(addr) }

// proxyUnreachable returns the error of an unreachable proxy, without its password, with a hint.
func proxyUnreachable(proxy *url.URL, addr string, err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return model.Errorf(model.Unavailable, "connect to the proxy %s: %w", proxy.Redacted(), err).
		WithHint("check that the proxy runs; HTTPS_PROXY in the agent's settings (/etc/muster/agent.env) or environment names it; %s", noProxyHint(addr))
}

// tunnelRefused returns the error of a proxy that refuses to open a tunnel.
func tunnelRefused(proxy *url.URL, addr string, status int) error {
	answer := fmt.Sprintf("%d %s", status, http.StatusText(status))
	switch status {
	case http.StatusProxyAuthRequired:
		demand := "requires user and password"
		if proxy.User != nil {
			demand = "refuses this user and password"
		}
		return model.Errorf(model.Unavailable, "authentication failed: the proxy %s %s (%s)", proxy.Redacted(), demand, answer).
			WithHint("set HTTPS_PROXY=http://USER:PASSWORD@%s in the agent's settings (/etc/muster/agent.env; @ : / in a password are %%40 %%3A %%2F) and restart the agent; %s", proxy.Host, noProxyHint(addr))
	case http.StatusForbidden, http.StatusMethodNotAllowed:
		return model.Errorf(model.Unavailable, "the proxy %s refuses to connect to %s (%s)", proxy.Redacted(), addr, answer).
			WithHint("allow CONNECT to this host and port on the proxy (squid: add the port to SSL_ports), %s", noProxyHint(addr))
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return model.Errorf(model.Unavailable, "the proxy %s cannot reach %s (%s)", proxy.Redacted(), addr, answer).
			WithHint("check that the server runs and that the proxy's machine can reach it; %s", noProxyHint(addr))
	}
	return model.Errorf(model.Unavailable, "the proxy %s refuses to connect to %s: the proxy's answer is %s", proxy.Redacted(), addr, answer).
		WithHint("use a proxy that supports CONNECT; HTTPS_PROXY in the agent's settings (/etc/muster/agent.env) or environment names it; %s", noProxyHint(addr))
}

// untrustedServerError is the error of a server whose certificate the agent does not trust.
type untrustedServerError struct {
	pki.RefusedCertificate
	err error
}

// Error returns the reason why the server's certificate is not trusted.
func (u *untrustedServerError) Error() string { return u.err.Error() }

// Unwrap returns the error of the certificate check.
func (u *untrustedServerError) Unwrap() error { return u.err }

// explainConnect adds a hint for the operator to the error of a failed connection or TLS handshake.
func explainConnect(addr string, err error) error {
	var u *untrustedServerError
	if errors.As(err, &u) {
		u.Server = addr
		if explained := u.ForAgents(u.err); explained != nil {
			return explained
		}
	}
	switch text := err.Error(); {
	case strings.Contains(text, "tls: no application protocol"):
		return model.Errorf(model.Unavailable, "the server at %s does not serve agents", addr).
			WithHint("people or another program use this address: set --server to the address for agents (on the server: --listen-agents)")
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return model.Errorf(model.Unavailable, "%s does not use TLS: the address is not a Muster server, or is its admin listener", addr).
			WithHint("agents connect to --listen or --listen-agents of the server: --server HOST:8443")
	}
	if explained := explainUnreachable(addr, err); explained != nil {
		return explained
	}
	return fmt.Errorf("open a session with the server %s: %w", addr, err)
}

// explainUnreachable returns an error with a hint if err means that the server is unreachable. For other errors it
// returns nil.
func explainUnreachable(addr string, err error) error {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" {
		return nil
	}
	host, port, _ := net.SplitHostPort(addr)
	return model.Errorf(model.Unavailable, "no server answers at %s: %w", addr, op.Err).
		WithHint("check the connection: nc -vz %s %s; on the server: muster status", host, port)
}

// explainLostConnection returns the error of a connection that ended without the message Bye, with a hint.
func explainLostConnection(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		lost := &model.Error{Class: model.Unavailable, Message: "the connection was lost", Cause: err}
		return lost.WithHint("the server stopped, or a proxy or firewall closed the connection; results stay in the spool, the agent connects again")
	}
	return err
}
