package link

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/muster-fleet/muster/internal/model"
)

// NewDialer returns a dialer that follows HTTPS_PROXY and NO_PROXY, as lookup (nil: the environment)
// returns them: it opens tunnels by CONNECT, with credentials where the URL has some. Enrolment,
// renewals and sessions dial with it.
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

// CheckProxy returns the fault of a proxy's address, without the password in it. An address without a
// scheme is http. An empty one is valid: no proxy.
func CheckProxy(proxy string) error {
	if proxy == "" {
		return nil
	}
	if !strings.Contains(proxy, "://") {
		proxy = "http://" + proxy
	}
	u, err := url.Parse(proxy)
	what := ""
	switch {
	case err != nil || u.Host == "":
		what = "cannot be read"
	case u.Scheme != "http" && u.Scheme != "https":
		what = fmt.Sprintf("has the scheme %q: agents ask for a tunnel by CONNECT", u.Scheme)
	default:
		return nil
	}
	return model.Errorf(model.Invalid, "HTTPS_PROXY %s", what).
		WithHint("write it as http://USER:PASSWORD@HOST:PORT, with @ : / in a password as %%40 %%3A %%2F")
}

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
	status, err := connect(nc, proxy.User, addr)
	if err == nil && status != http.StatusOK {
		nc.Close()
		return nil, tunnelRefused(proxy, addr, status)
	}
	if err != nil {
		nc.Close()
		return nil, proxyUnreachable(proxy, addr, err)
	}
	return nc, nil
}

// connect requests a tunnel (RFC 9110, 9.3.6). The peer sends nothing before the TLS client does, so
// the reader's buffer is empty after the response.
func connect(nc net.Conn, user *url.Userinfo, addr string) (status int, err error) {
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: http.Header{}}
	if user != nil {
		password, _ := user.Password()
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

// bypassHint tells how to connect without the proxy.
func bypassHint(addr string) string { return "or connect without it: NO_PROXY=" + model.HostOf(addr) }

func proxyUnreachable(proxy *url.URL, addr string, err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return model.Errorf(model.Unavailable, "no connection to the proxy %s: %w", proxy.Redacted(), err).
		WithHint("does it run there? HTTPS_PROXY in the agent's settings (/etc/muster/agent.env) or environment names it; %s", bypassHint(addr))
}

// tunnelRefused returns the error of a proxy that opens no tunnel.
func tunnelRefused(proxy *url.URL, addr string, status int) error {
	answer := fmt.Sprintf("%d %s", status, http.StatusText(status))
	switch status {
	case http.StatusProxyAuthRequired:
		what := "asks for user and password"
		if proxy.User != nil {
			what = "does not take this user and password"
		}
		return model.Errorf(model.Unavailable, "the proxy %s %s (%s)", proxy.Redacted(), what, answer).
			WithHint("set HTTPS_PROXY=http://USER:PASSWORD@%s in the agent's settings (/etc/muster/agent.env; @ : / in a password are %%40 %%3A %%2F) and restart it; %s", proxy.Host, bypassHint(addr))
	case http.StatusForbidden, http.StatusMethodNotAllowed:
		return model.Errorf(model.Unavailable, "the proxy %s opens no tunnel to %s (%s)", proxy.Redacted(), addr, answer).
			WithHint("let it allow CONNECT to this host and port (squid: add the port to SSL_ports), %s", bypassHint(addr))
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return model.Errorf(model.Unavailable, "the proxy %s does not reach %s (%s)", proxy.Redacted(), addr, answer).
			WithHint("does the server run, and may the proxy's machine connect to it? %s", bypassHint(addr))
	}
	return model.Errorf(model.Unavailable, "the proxy %s opens no tunnel to %s: it answers %s", proxy.Redacted(), addr, answer).
		WithHint("is that a proxy for CONNECT? HTTPS_PROXY in the agent's settings (/etc/muster/agent.env) or environment names it; %s", bypassHint(addr))
}
