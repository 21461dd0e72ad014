package muster

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// header is what a balancer writes first.
func header(t testing.TB, version byte, source string) string {
	t.Helper()
	h := proxyproto.HeaderProxyFromAddrs(version, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(source)), net.TCPAddrFromAddrPort(netip.MustParseAddrPort(source)))
	data, err := h.Format()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func listed(networks ...string) func(*Config) {
	return func(c *Config) {
		for _, n := range networks {
			c.ProxyFrom = append(c.ProxyFrom, netip.MustParsePrefix(n))
		}
	}
}

// logs is a log that tests read.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// A listed balancer speaks for others, also where its header and what follows come in one
// piece; what does not begin with a header of it is refused, each way by its own name.
func TestProxyHeaders(t *testing.T) {
	const local = "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
	text := &logs{}
	log := slog.New(slog.NewTextHandler(text, nil))
	ours := newHouseWith(t, listed("127.0.0.1/32"), log)
	others := newHouseWith(t, listed("192.0.2.0/24", "2001:db8::/32"), log)
	for _, c := range []struct {
		name   string
		house  *house
		header string
		whence string // as the server sees it; empty: refused
		why    string
	}{
		{"version 2", ours, header(t, 2, "203.0.113.9:4711"), "203.0.113.9:4711", ""},
		{"version 2, IPv6", ours, header(t, 2, "[2001:db8::9]:4711"), "[2001:db8::9]:4711", ""},
		{"version 1", ours, header(t, 1, "203.0.113.9:4711"), "203.0.113.9:4711", ""},
		{"version 1, no address", ours, "PROXY UNKNOWN\r\n", "127.0.0.1", ""},
		{"a health check that goes on", ours, local, "127.0.0.1", ""},
		{"no header", ours, "", "", "proxy_missing"},
		{"half a header", ours, "PROXY TCP4 203.0.113.9\r\n", "", "proxy_malformed"},
		{"an address that is none", ours, "PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n", "", "proxy_malformed"},
		{"not listed, version 1", others, header(t, 1, "203.0.113.9:4711"), "", "proxy_not_listed"},
		{"not listed, version 2", others, header(t, 2, "203.0.113.9:4711"), "", "proxy_not_listed"},
		{"not listed, no header", others, "", "127.0.0.1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.house.count("handshakes_total", c.why)
			address, err := clientAddress(t, c.house, c.header)
			if c.why == "" {
				if err != nil || !strings.HasPrefix(address, c.whence) {
					t.Errorf("the server sees %q (%v), want %s", address, err, c.whence)
				}
				return
			}
			if err == nil {
				t.Errorf("answered: %q", address)
			}
			testenv.Until(t, "it is counted as "+c.why, func() bool { return c.house.count("handshakes_total", c.why) == before+1 })
		})
	}
	for _, line := range []string{"--proxy-from 127.0.0.1;", "from a network of --proxy-from"} {
		if n := text.count(line); n != 1 {
			t.Errorf("%q is said %d times in a minute:\n%s", line, n, text.text.String())
		}
	}
}

// clientAddress asks the server, behind a header, whom it sees.
func clientAddress(t *testing.T, h *house, header string) (string, error) {
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: h.authority.Pool()},
		DialContext: withProxyHeader(header),
	}}
	answer, err := client.Get("https://" + h.tls + "/whence")
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}

// behind dials, and lets a header go together with the first bytes.
func withProxyHeader(header string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, address)
		return &headed{Conn: nc, header: header}, err
	}
}

type headed struct {
	net.Conn
	header string
}

func (h *headed) Write(b []byte) (int, error) {
	if h.header == "" {
		return h.Conn.Write(b)
	}
	_, err := h.Conn.Write(append([]byte(h.header), b...))
	h.header = ""
	return len(b), err
}

// Health checks come every second for years: they are counted, and fill no log. Whoever
// says nothing holds his place no longer than a handshake may last.
func TestProxyHealthChecks(t *testing.T) {
	text := &logs{}
	h := newHouseWith(t, func(c *Config) { listed("127.0.0.0/8")(c); c.Limits.Handshake = 2 * time.Second }, slog.New(slog.NewTextHandler(text, nil)))
	for i, say := range []string{"", "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"} {
		nc, err := net.Dial("tcp", h.tls)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(nc, say)
		_ = nc.(*net.TCPConn).CloseWrite()
		testenv.Until(t, "it is counted", func() bool { return h.count("handshakes_total", "proxy_check") == float64(i+1) })
		nc.Close()
	}
	nc, err := net.Dial("tcp", h.tls)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_, _ = io.WriteString(nc, "PROXY TCP4")
	nc, err = net.Dial("tcp", h.tls)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	testenv.Until(t, "the silent one is closed", func() bool { return h.count("handshakes_total", "proxy_timeout") == 1 })
	if text.count("level=WARN") > 1 { // half a header is worth a line
		t.Errorf("health checks are told:\n%s", text.text.String())
	}
}

// An agent behind a balancer has the address that the balancer tells.
func TestAgentBehindABalancer(t *testing.T) {
	h := newHouseWith(t, listed("127.0.0.1/32"), nil)
	id := h.joinBy("web01", withProxyHeader(header(t, 2, "203.0.113.9:4711")))
	plain := h.addr
	h.addr = h.tls
	a, err := h.open(id.Node, func(c *link.Config, _ *wire.Hello) {
		c.TLS, c.ServerKey, c.Dial = link.TLSConfig(id, nil), id.ServerKey, withProxyHeader(header(t, 2, "203.0.113.9:4712"))
	})
	h.addr = plain
	if err != nil {
		t.Fatal(err)
	}
	a.wait("assignment", func() bool { return len(a.held) == 1 })
	node, _ := h.nodes.Lookup(id.Node)
	if got := h.server.registry.Get(node.ID).Conn.NetConn().RemoteAddr().String(); got != "203.0.113.9:4712" {
		t.Errorf("the session is from %s", got)
	}
}
