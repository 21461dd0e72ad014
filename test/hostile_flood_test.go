//go:build linux

package test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"golang.org/x/net/http2"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/test/harness"
)

// openDescriptors returns the number of open file descriptors of a process.
func openDescriptors(t *testing.T, pid int) int {
	t.Helper()
	list := testenv.Value(os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)))(t)
	return len(list)
}

// TestIdleConnectionsCloseFirst opens idle connections up to the server's limit, and expects new agents to
// connect. The server closes idle connections first.
func TestIdleConnectionsCloseFirst(t *testing.T) {
	const limit = 300
	h := newHostileAgents(t, 10, func(s *harness.Server) {
		s.Wrap = []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, limit)}
	}, "--snapshot-cycle", "1s")
	unharmed := h.startServiceCheck()
	places := int(h.Metric("muster_connections_limit"))
	require(t, places >= 100 && places <= limit-50, "%d places of %d descriptors", places, limit)
	// Half of the connections send nothing, half send nothing after the TLS handshake.
	var idle []net.Conn
	defer func() {
		for _, nc := range idle {
			nc.Close()
		}
	}()
	var opening sync.WaitGroup
	var mu sync.Mutex
	turn := make(chan struct{}, 20)
	for i := range 4 * limit {
		turn <- struct{}{}
		opening.Go(func() {
			defer func() { <-turn }()
			nc, err := net.DialTimeout("tcp", h.Listen, 10*time.Second)
			if err != nil {
				return
			}
			mu.Lock()
			idle = append(idle, nc)
			mu.Unlock()
			if i%2 == 1 {
				_ = nc.SetDeadline(time.Now().Add(5 * time.Second))
				_ = tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}).Handshake()
			}
		})
	}
	opening.Wait()
	n := openDescriptors(t, h.PID())
	assert(t, n <= limit-20, "%d of %d descriptors are open", n, limit)
	expectTexts(t, h.Log(), "the server is at its limit of connections", "LimitNOFILE=N")
	// While strangers hold all places, an agent, a person and a change are accepted. Each may
	// need a second try, as clients do.
	try := func(what string, do func() error) {
		harness.Until(t, 20*time.Second, what, func() (string, bool) { err := do(); return fmt.Sprint(err), err == nil })
	}
	try("another agent's session", func() error {
		e, err := h.openWebSocket(h.tls(1))
		if err != nil {
			return err
		}
		e.send(wire.AppendHello(nil, &wire.Hello{Protocol: wire.Protocol, Node: nodeUID(1)}))
		if kind, _, err := e.receive(); err != nil || kind != wire.KindWelcome {
			return fmt.Errorf("message %d, %w", kind, err)
		}
		return nil
	})
	assert(t, h.Metric("muster_connections_refused_total", "evicted") != 0, "no idle connection was evicted")
	h.Client()
	try("a change", func() error {
		r := harness.Run(t, h.Env(), "apply", "-f", filepath.Join(harness.Root(), "docs/examples/disk.yaml"), "--yes")
		if r.Code != 0 {
			return fmt.Errorf("code %d: %s", r.Code, r.Errors)
		}
		return nil
	})
	saved := h.Metric("muster_snapshot_saved_total")
	h.AwaitMetric(saved+1, "muster_snapshot_saved_total")
	unharmed(10*time.Second, 200)
	log := h.Log()
	assert(t, !strings.Contains(log, "too many open files"), "descriptors ran out:\n%s", lastBytes(log))
	h.Stop()
}

// lastBytes returns the last 2,000 bytes of a text.
func lastBytes(text string) string { return text[max(0, len(text)-2000):] }

// TestSlowPeersDelayNoOtherAgent connects slow peers at each protocol layer, and expects no delay for other
// agents.
func TestSlowPeersDelayNoOtherAgent(t *testing.T) {
	h := newHostileAgents(t, 60, nil)
	unharmed := h.startServiceCheck()
	ctx, cancel := context.WithCancel(t.Context())
	var dripping sync.WaitGroup
	defer dripping.Wait()
	defer cancel()
	// drip writes byte by byte.
	drip := func(w io.Writer, text string) {
		dripping.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for i := range len(text) {
				if _, err := io.WriteString(w, text[i:i+1]); err != nil {
					return
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	person := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}
	for i := range 20 {
		nc, err := net.Dial("tcp", h.Listen) // slow within the TLS handshake
		testenv.NoError(t, err)
		defer nc.Close()
		drip(nc, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"+strings.Repeat("\x00", 1000))
		for _, request := range []string{ // slow within the head or the body of an HTTP request
			"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 5000),
			"POST /api/v1/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n{" + strings.Repeat(" ", 5000),
			"POST /api/v1/apply HTTP/1.1\r\nHost: x\r\nContent-Length: 33000000\r\n\r\n" + strings.Repeat(" ", 5000),
			"POST /agent/v1/enrol HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\n{\r\n", 1000),
		} {
			e := testenv.Value(h.dialTLS(person))(t)
			drip(e.Conn, request)
		}
		e, err := h.dialTLS(h.tls(1 + i)) // slow within the WebSocket request
		testenv.NoError(t, err)
		drip(e.Conn, "GET /agent/v1/session HTTP/1.1\r\nHost: "+strings.Repeat("x", 5000))
		if e, err = h.openWebSocket(h.tls(21 + i)); err != nil { // slow within Hello, whose header announces 200 KiB
			t.Fatal(err)
		}
		drip(e.Conn, string(encodeRawFrame(ws.Header{Fin: true, Masked: true, OpCode: ws.OpBinary, Length: 200 << 10}, strings.Repeat("x", 5000))))
		e = h.sendHello(41 + i%19) // slow within a batch
		drip(e.Conn, string(encodeRawFrame(ws.Header{Fin: true, Masked: true, OpCode: ws.OpBinary, Length: 1 << 20}, strings.Repeat("x", 5000))))
	}
	// Other clients log in and out meanwhile.
	for range 10 {
		began := time.Now()
		h.Client()
		took := time.Since(began)
		assert(t, took <= 10*time.Second, "a login took %s", took)
		h.sendHello(59).Close()
	}
	// The server must not reserve the announced megabyte of each batch.
	unharmed(10*time.Second, 100)
}

// A node that floods the server with results is limited, and other nodes are not delayed.
func TestFloodingNodeIsLimited(t *testing.T) {
	h := newHostileAgents(t, 5, nil)
	unharmed := h.startServiceCheck()

	t.Run("Hello", func(t *testing.T) {
		limited := 0
		for range 30 {
			e := testenv.Value(h.openWebSocket(h.tls(1)))(t)
			e.send(wire.AppendHello(nil, &wire.Hello{Protocol: wire.Protocol, Node: nodeUID(1)}))
			kind, body, err := e.receive()
			var r wire.Refuse
			if kind == wire.KindRefuse && r.Decode(body) == nil && r.Code == "limited" {
				limited++
			} else if err != nil || kind != wire.KindWelcome {
				t.Fatalf("message %d, %v", kind, err)
			}
			e.Close()
		}
		assert(t, limited >= 5, "%d of 30 sessions were refused", limited)
	})
	t.Run("connections on their way", func(t *testing.T) {
		crowded := 0
		for range 8 {
			e := testenv.Value(h.dialTLS(h.tls(2)))(t)
			_ = e.SetReadDeadline(time.Now().Add(time.Second))
			line, _ := bufio.NewReader(e.Conn).ReadString('\n')
			if strings.Contains(line, "429") {
				crowded++
			}
		}
		assert(t, crowded == 4 && h.Metric("muster_session_handshakes_total", "crowded") >= 4, "%d of 8 were sent away", crowded)
	})
	t.Run("pings, and nothing is read", func(t *testing.T) {
		e := h.sendHello(3)
		ping := []byte(strings.Repeat(string(encodeRawFrame(ws.Header{Fin: true, Masked: true, OpCode: ws.OpPing}, strings.Repeat("x", 125))), 200))
		_ = e.SetWriteDeadline(time.Now().Add(3 * time.Second))
		for {
			if _, err := e.Conn.Write(ping); err != nil {
				break
			}
		}
		// A burst of ten seconds at a thousand a second, and then a thousand a second.
		n := h.Metric("muster_session_controls_received_total")
		assert(t, n <= 20_000, "%v pings were answered", n)
		assert(t, h.Metric("muster_limits_met_total", "node_rate") != 0, "the limit was not counted")
	})
	unharmed(5*time.Second, 64)
}

// The server refuses endless HTTP headers with bounded memory, on all its listeners.
func TestEndlessHeadersAreRefused(t *testing.T) {
	listen := harness.ReservePort(t)
	h := newHostileAgents(t, 1, nil, "--sensu-listen", listen, "--sensu-tls", "off")
	unharmed := h.startServiceCheck()
	for range 5 {
		e := testenv.Value(h.dialTLS(&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}))(t)
		said := exchangeRaw(e.Conn, "GET /livez HTTP/1.1\r\nHost: x\r\n"+strings.Repeat("X-A: "+strings.Repeat("y", 1000)+"\r\n", 500))
		assert(t, strings.Contains(said, "431"), "got %.200q", said)
		//lint:ignore SA1019 it speaks HTTP/2 and nothing else, and sends headers of any size
		client := &http.Client{Timeout: 20 * time.Second, Transport: &http2.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		request, _ := http.NewRequest("GET", "https://"+h.Listen+"/livez", nil)
		for i := range 500 {
			request.Header.Set(fmt.Sprint("X-", i), strings.Repeat("y", 1000))
		}
		if answer, err := client.Do(request); err == nil {
			if answer.Body.Close(); answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("HTTP/2: %s", answer.Status)
			}
		}
		client.CloseIdleConnections()
	}
	for _, bomb := range []string{strings.Repeat("X-A: "+strings.Repeat("y", 1000)+"\r\n", 64<<10), "X-A: " + strings.Repeat("y", 64<<20)} {
		for range 3 {
			nc := testenv.Value(net.Dial("tcp", listen))(t)
			t.Cleanup(func() { nc.Close() })
			_ = nc.SetDeadline(time.Now().Add(30 * time.Second))
			said := exchangeRaw(nc, "GET / HTTP/1.1\r\nHost: x\r\n"+bomb)
			assert(t, strings.Contains(said, "431"), "at Sensu's listener: got %.200q", said)
		}
	}
	unharmed(5*time.Second, 64)
}

// Password guessing at the port for Sensu agents is limited. It does not delay agents with a right password.
func TestPasswordGuessingIsLimitedOnSensuPort(t *testing.T) {
	listen := harness.ReservePort(t)
	h := newHostileAgents(t, 1, nil, "--sensu-listen", listen, "--sensu-tls", "off")
	h.Client()
	password := tempFile(t, "password", "P@ssw0rd!")
	for _, user := range []string{"agent", "second"} {
		h.CLI("auth", "user", "create", user, "--role", "agent", "--password-file", password)
	}
	come := func(from, name, user, password string) string {
		nc, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 20 * time.Second}).Dial("tcp", listen)
		if err != nil {
			return err.Error()
		}
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(20 * time.Second))
		r, _ := http.NewRequest("GET", "http://"+listen+"/", nil)
		r.SetBasicAuth(user, password)
		_, _ = fmt.Fprintf(nc, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"+
			"Sensu-AgentName: %s\r\nSensu-Namespace: default\r\nAuthorization: %s\r\n\r\n", name, r.Header.Get("Authorization"))
		line, _ := bufio.NewReader(nc).ReadString('\n')
		_, code, _ := strings.Cut(strings.TrimSpace(line), " ")
		return code[:min(3, len(code))]
	}
	expectEqual(t, "status of the first connection", come("127.0.0.1", "first", "agent", "P@ssw0rd!"), "101")
	const guesses = 1000
	var mu sync.Mutex
	codes := map[string]int{}
	var all sync.WaitGroup
	for i := range guesses {
		all.Go(func() {
			got := come("127.0.0.1", fmt.Sprint("guess", i), "agent", fmt.Sprint("guess", i))
			mu.Lock()
			codes[got]++
			mu.Unlock()
		})
	}
	h.AwaitMetric(1, "muster_sensu_guessing_total")
	for _, one := range [][2]string{{"127.0.0.1", "agent"}, {"127.0.0.2", "second"}} {
		began := time.Now()
		if got := come(one[0], "good-"+one[1], one[1], "P@ssw0rd!"); got != "101" || time.Since(began) > 5*time.Second {
			t.Errorf("%s from %s: %s after %s", one[1], one[0], got, time.Since(began))
		}
	}
	all.Wait()
	assert(t, codes["401"] != 0 && codes["401"] <= 20, "%d guesses: %v", guesses, codes)
	expectEqual(t, "guessing addresses counted", h.Metric("muster_sensu_guessing_total"), 1)
	expectEqual(t, "log lines about guessed passwords", strings.Count(h.Log(), "from one address"), 1)
}

// The server ends watch requests whose client never reads, over HTTP/1 and HTTP/2.
func TestUnreadWatchRequestsEnd(t *testing.T) {
	skipIfShort(t, "a write is waited for ten seconds")
	h := newHostileAgents(t, 3, nil)
	unharmed := h.startServiceCheck()
	h.Client()
	token := adminToken(t, h.Server)
	watch := "GET /api/v1/events/watch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\n\r\n"
	for range 10 {
		e := testenv.Value(h.dialTLS(&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}))(t)
		_, _ = io.WriteString(e.Conn, watch)
		//lint:ignore SA1019 it speaks HTTP/2 and nothing else
		client := &http.Client{Transport: &http2.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		defer client.CloseIdleConnections()
		request, _ := http.NewRequestWithContext(t.Context(), "GET", "https://"+h.Listen+"/api/v1/events/watch", nil)
		request.Header.Set("Authorization", "Bearer "+token)
		answer, err := client.Do(request)
		require(t, err == nil && answer.StatusCode == 200, "watch: %v", err)
		defer answer.Body.Close() // the body is never read
	}
	awaitEqual(t, "twenty watches", 20, func() float64 { return h.Metric("muster_api_watches") })
	loud := h.startWellBehavedAgent(1, 5*time.Millisecond)
	loud.setOutputSize(100 << 10)
	awaitEqual(t, "open watches", 0, func() float64 { return h.Metric("muster_api_watches") })
	unharmed(5*time.Second, 200)
}
