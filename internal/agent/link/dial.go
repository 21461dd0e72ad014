package link

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/wire"
)

// TLSConfig is mutual TLS with the identity got at enrolment. Trusted is a server
// certificate of the server's own CA and nothing else; by which name or address the
// server was reached does not matter, because that CA makes no other servers.
// Sessions that share the configuration share tickets for cheap resumption. now (nil:
// time.Now) may be behind: see pki.ValidAt.
func TLSConfig(id *pki.Identity, now func() time.Time) *tls.Config {
	if now == nil {
		now = time.Now
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{wire.Subprotocol},
		Certificates: []tls.Certificate{id.Certificate}, ClientSessionCache: tls.NewLRUClientSessionCache(4),
		InsecureSkipVerify: true, // replaced by VerifyConnection
		VerifyConnection: func(state tls.ConnectionState) error {
			leaf := state.PeerCertificates[0]
			_, err := leaf.Verify(x509.VerifyOptions{
				Roots: id.CA, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, CurrentTime: pki.ValidAt(now(), leaf),
			})
			if err == nil && state.NegotiatedProtocol != wire.Subprotocol {
				err = fmt.Errorf("server does not speak %s", wire.Subprotocol)
			}
			return err
		},
	}
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

// NewDialer returns a dialer that honours HTTPS_PROXY and NO_PROXY as lookup (nil:
// the environment) gives them: CONNECT, with credentials where the URL has any.
func NewDialer(lookup func(string) string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	if lookup == nil {
		lookup = os.Getenv
	}
	first := func(names ...string) string {
		for _, name := range names {
			if v := lookup(name); v != "" {
				return v
			}
		}
		return ""
	}
	proxies := httpproxy.Config{HTTPSProxy: first("HTTPS_PROXY", "https_proxy"), NoProxy: first("NO_PROXY", "no_proxy")}
	choose := proxies.ProxyFunc()
	direct := &net.Dialer{Timeout: 15 * time.Second}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		proxy, err := choose(&url.URL{Scheme: "https", Host: addr})
		if err != nil {
			return nil, fmt.Errorf("read HTTPS_PROXY: %w", err)
		}
		if proxy == nil {
			return direct.DialContext(ctx, network, addr)
		}
		nc, err := throughProxy(ctx, direct, proxy, addr)
		if err != nil {
			return nil, fmt.Errorf("connect through proxy %s: %w", proxy.Redacted(), err)
		}
		return nc, nil
	}
}

func throughProxy(ctx context.Context, direct *net.Dialer, proxy *url.URL, addr string) (net.Conn, error) {
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[proxy.Scheme]
	}
	if port == "" {
		return nil, fmt.Errorf("scheme %q: want http or https", proxy.Scheme)
	}
	nc, err := direct.DialContext(ctx, "tcp", net.JoinHostPort(proxy.Hostname(), port))
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })()
	if proxy.Scheme == "https" {
		nc = tls.Client(nc, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: proxy.Hostname()})
	}
	if err := connect(nc, proxy.User, addr); err != nil {
		nc.Close()
		return nil, err
	}
	return nc, nil
}

// connect asks for a tunnel (RFC 9110, 9.3.6). Nothing can follow the answer before
// we speak, so the reader may be dropped with its buffer.
func connect(nc net.Conn, user *url.Userinfo, addr string) error {
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: http.Header{}}
	if user != nil {
		password, _ := user.Password()
		r.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := r.Write(nc); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(nc), r)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("proxy answers %s", response.Status)
	}
	return nil
}
