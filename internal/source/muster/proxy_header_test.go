package muster

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/pires/go-proxyproto"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// proxyHeader returns a PROXY header with a client's address.
func proxyHeader(t testing.TB, version byte, source string) string {
	t.Helper()
	h := proxyproto.HeaderProxyFromAddrs(version, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(source)), net.TCPAddrFromAddrPort(netip.MustParseAddrPort(source)))
	data := testenv.Value(h.Format())(t)
	return string(data)
}

// trustProxies returns a function that adds networks of load balancers to a Config. Connections from these networks
// must begin with a PROXY header.
func trustProxies(networks ...string) func(*Config) {
	return func(c *Config) {
		for _, n := range networks {
			c.ProxyFrom = append(c.ProxyFrom, netip.MustParsePrefix(n))
		}
	}
}

// logBuffer collects the server's log for tests. A test may read it concurrently.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write appends log output of the server to the buffer, for the test.
func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// countText returns how many times a text occurs in the log.
func (l *logBuffer) countText(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// The PROXY header of a configured load balancer sets the client's address. A connection without the expected header
// is refused, and counted by its cause.
func TestListedBalancersHeaderNamesTheClient(t *testing.T) {
	const local = "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
	text := &logBuffer{}
	log := slog.New(slog.NewTextHandler(text, nil))
	ours := newTLSServerWith(t, trustProxies("127.0.0.1/32"), log)
	others := newTLSServerWith(t, trustProxies("192.0.2.0/24", "2001:db8::/32"), log)
	for _, c := range []struct {
		name   string
		house  *tlsServer
		header string
		whence string // as the server sees it; empty: refused
		why    string
	}{
		{"version 2", ours, proxyHeader(t, 2, "203.0.113.9:4711"), "203.0.113.9:4711", ""},
		{"version 2, IPv6", ours, proxyHeader(t, 2, "[2001:db8::9]:4711"), "[2001:db8::9]:4711", ""},
		{"version 1", ours, proxyHeader(t, 1, "203.0.113.9:4711"), "203.0.113.9:4711", ""},
		{"version 1, no address", ours, "PROXY UNKNOWN\r\n", "127.0.0.1", ""},
		{"a health check that goes on", ours, local, "127.0.0.1", ""},
		{"no header", ours, "", "", "proxy_missing"},
		{"half a header", ours, "PROXY TCP4 203.0.113.9\r\n", "", "proxy_malformed"},
		{"an address that is none", ours, "PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n", "", "proxy_malformed"},
		{"not listed, version 1", others, proxyHeader(t, 1, "203.0.113.9:4711"), "", "proxy_not_listed"},
		{"not listed, version 2", others, proxyHeader(t, 2, "203.0.113.9:4711"), "", "proxy_not_listed"},
		{"not listed, no header", others, "", "127.0.0.1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.house.countMetric("handshakes_total", c.why)
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
			testenv.Until(t, "it is counted as "+c.why, func() bool { return c.house.countMetric("handshakes_total", c.why) == before+1 })
		})
	}
	for _, line := range []string{"--proxy-from 127.0.0.1;", "from a network of --proxy-from"} {
		if n := text.countText(line); n != 1 {
			t.Errorf("%q is logged %d times in a minute, want once:\n%s", line, n, text.text.String())
		}
	}
}

// clientAddress sends a request with a PROXY header and returns the client's address that the server saw.
func clientAddress(t *testing.T, h *tlsServer, header string) (string, error) {
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

// withProxyHeader returns a dial function whose connections send a PROXY header before their first bytes.
func withProxyHeader(header string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, address)
		return &proxyConn{Conn: nc, header: header}, err
	}
}

// proxyConn is a connection that starts with a PROXY header.
type proxyConn struct {
	net.Conn
	header string
}

// Write sends the PROXY header before the first bytes.
func (h *proxyConn) Write(b []byte) (int, error) {
	if h.header == "" {
		return h.Conn.Write(b)
	}
	_, err := h.Conn.Write(append([]byte(h.header), b...))
	h.header = ""
	return len(b), err
}

// TestHealthChecksOfBalancersAreNotLogged checks that TCP health checks of load balancers are counted and not logged.
// A connection without a complete header is closed after Limits.Handshake.
func TestHealthChecksOfBalancersAreNotLogged(t *testing.T) {
	text := &logBuffer{}
	h := newTLSServerWith(t, func(c *Config) { trustProxies("127.0.0.0/8")(c); c.Limits.Handshake = 2 * time.Second }, slog.New(slog.NewTextHandler(text, nil)))
	for i, say := range []string{"", "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"} {
		nc := testenv.Value(net.Dial("tcp", h.tls))(t)
		_, _ = io.WriteString(nc, say)
		_ = nc.(*net.TCPConn).CloseWrite()
		testenv.Until(t, "it is counted", func() bool { return h.countMetric("handshakes_total", "proxy_check") == float64(i+1) })
		nc.Close()
	}
	for _, begin := range []string{"PROXY TCP4", ""} {
		nc := testenv.Value(net.Dial("tcp", h.tls))(t)
		defer nc.Close()
		_, _ = io.WriteString(nc, begin)
	}
	testenv.Until(t, "the silent one is closed", func() bool { return h.countMetric("handshakes_total", "proxy_timeout") == 1 })
	if text.countText("level=WARN") > 1 { // half a header is worth a line
		t.Errorf("health checks are logged:\n%s", text.text.String())
	}
}

// TestAgentHasTheAddressOfItsProxyHeader connects an agent through a load balancer, and expects the agent's address.
// The address comes from the PROXY header.
func TestAgentHasTheAddressOfItsProxyHeader(t *testing.T) {
	h := newTLSServerWith(t, trustProxies("127.0.0.1/32"), nil)
	id := h.enrolBy("web01", withProxyHeader(proxyHeader(t, 2, "203.0.113.9:4711")))
	plain := h.addr
	h.addr = h.tls
	a, err := h.openSession(id.Node, func(c *link.Config, _ *wire.Hello) {
		c.TLS, c.ServerKey, c.Dial = link.TLSConfig(id, nil), id.ServerKey, withProxyHeader(proxyHeader(t, 2, "203.0.113.9:4712"))
	})
	h.addr = plain
	testenv.NoError(t, err)
	a.waitAssignment(1)
	node, _ := h.nodes.Lookup(id.Node)
	if got := h.server.registry.Get(node.ID).Conn.NetConn().RemoteAddr().String(); got != "203.0.113.9:4712" {
		t.Errorf("the session is from %s", got)
	}
}

// assignProxies adds a check with id 7 about the given proxy nodes to a node's assignment.
func (m *memoryPlan) assignProxies(node model.NodeID, proxies ...model.NodeID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := *m.assignments[node]
	c := &model.CheckDefinition{Definition: model.Definition{ID: 7, Unit: model.FirstCheck + 7, Namespace: model.DefaultNamespace, Name: "ping"}, Command: &model.Command{Shell: "true"}, FailAfter: 1, RecoverAfter: 1, Proxy: true}
	c.Hash = wire.DefinitionHash(wire.AppendDefinition(nil, c.ToDefinition()))
	m.definitions[7] = &c.Definition
	a.Definitions = append(slices.Clone(a.Definitions), &c.Definition)
	checks := wire.ProxyChecks{Sets: []wire.ProxySet{{Definitions: []model.DefinitionID{7}, Nodes: proxies}}}
	var nodes []directory.ProxyNode
	for _, id := range proxies {
		checks.Nodes = append(checks.Nodes, wire.ProxyNode{Node: id, Name: "p"})
		nodes = append(nodes, directory.ProxyNode{ID: id, UID: uuid.NewSHA1(uuid.Nil, []byte{byte(id)}), Namespace: 3})
	}
	a.Proxied = directory.NewProxyTargets(checks, nodes, a.Definitions)
	a.Hash = wire.AssignmentHash(a.Definitions, nil, &a.Proxied.ProxyChecks)
	m.assignments[node] = &a
}

// outputOf returns the output of a result, or an empty text for a result without output.
func outputOf(s wire.Signal) string {
	r, err := s.Result()
	if err != nil {
		return err.Error()
	}
	return string(r.Output)
}

// readJournal returns what the journal has, results about proxy nodes and the signals in batches.
func (w *testServer) readJournal(t *testing.T) (proxied []wire.Record, own []wire.Signal) {
	t.Helper()
	w.journal.mu.Lock()
	defer w.journal.mu.Unlock()
	for _, data := range w.journal.entries {
		var r wire.Record
		testenv.NoError(t, r.Decode(data))
		switch r.Kind {
		case wire.RecordProxyResult:
			proxied = append(proxied, r)
		case wire.RecordBatch:
			var b wire.Batch
			testenv.NoError(t, b.Decode(r.Batch))
			own = append(own, b.Signals...)
		}
	}
	return proxied, own
}

// A node may send results about a proxy node only if its assignment lists the proxy node. A result about a proxy node
// is kept once, with that node; its number stays with the sender.
func TestNodeReportsOnAssignedProxyNodes(t *testing.T) {
	w := newTestServer(t, nil)
	uid := w.addNode(1, 1)
	w.plan.assignProxies(1001, 50, 51)
	a := w.openAgent(uid)
	a.wait("assignment", func() bool { return len(a.assignments) == 1 && len(a.assignments[0].ProxyChecks.Nodes) == 2 })

	say := func(definition model.DefinitionID, about model.NodeID) wire.Signal {
		return wire.ResultSignal(wire.Signal{Definition: definition, Node: about}, wire.Result{Status: model.Warning, Output: []byte("so and so")})
	}
	first := &wire.Batch{StreamKey: liveStream, First: 1, Signals: []wire.Signal{say(7, 50), say(1, 0), say(7, 52), say(7, 0), say(1, 50), say(7, 51), say(7, 1001)}}
	a.send(first)
	a.waitAck(7)
	a.wait("refusals", func() bool { return len(a.refused) == 4 })
	for i, want := range []uint64{3, 4, 5, 7} {
		if r := a.refused[i]; r.Number != want || r.Code != "proxy" || r.Reason == "" {
			t.Errorf("refused %+v, want number %d", r, want)
		}
	}
	// The same once more, and a batch that is new from number 8 on.
	a.send(&wire.Batch{StreamKey: liveStream, First: 6, Signals: []wire.Signal{say(7, 51), say(1, 0), say(7, 50)}})
	a.waitAck(8)
	proxied, own := w.readJournal(t)
	var got [][2]uint64
	for _, r := range proxied {
		p := r.ProxyResult
		var s wire.Signal
		if err := s.Decode(p.Signal); err != nil || outputOf(s) != "so and so" || s.Node != r.Node || p.By != 1001 || p.Namespace != 3 || p.StreamKey != liveStream {
			t.Errorf("kept %+v of %+v: %v", s, p, err)
		}
		got = append(got, [2]uint64{uint64(r.Node), p.Number})
	}
	if want := [][2]uint64{{50, 1}, {51, 6}, {50, 8}}; !slices.Equal(got, want) {
		t.Errorf("kept of proxy nodes %v, want %v", got, want)
	}
	for i, s := range own {
		bare := s.Node != 0 && s.Definition == 0 && len(s.Body) == 0
		if mine := s.Definition == 1 && outputOf(s) == "so and so"; !bare && !mine && s.Kind != wire.SignalKeepalive {
			t.Errorf("number %d of the node's own is %+v", i, s)
		}
	}

	// The node may not report on a proxy node that its assignment no longer has.
	w.plan.assignProxies(1001, 51)
	w.plan.notify(directory.Change{Assignments: []model.NodeID{1001}})
	a.wait("assignment", func() bool { return len(a.assignments) == 2 && len(a.assignments[1].ProxyChecks.Nodes) == 1 })
	a.send(&wire.Batch{StreamKey: liveStream, First: 9, Signals: []wire.Signal{say(7, 50), say(7, 51)}})
	a.waitAck(10)
	testenv.Until(t, "one more is refused", func() bool { return w.countMetric("signals_total", "proxy") == 5 })
	w.checkOutcomes()
}
