//go:build linux

package test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/test/harness"
)

// The server refuses each violation of the agent protocol with a reason, and counts the violation. Another agent's
// results are acknowledged meanwhile, and the server's memory stays bounded.
func TestProtocolViolationsEndTheSession(t *testing.T) {
	h := newHostileAgents(t, 40, nil)
	unharmed := h.startServiceCheck()
	binary := ws.Header{Fin: true, Masked: true, OpCode: ws.OpBinary}
	with := func(change func(*ws.Header)) ws.Header { x := binary; change(&x); return x }
	frame := func(message []byte) []byte { return encodeRawFrame(binary, string(message)) }
	batch := func(first uint64, n int) []byte {
		b := &wire.Batch{StreamKey: neighbourKey, First: first}
		for range n {
			b.Signals = append(b.Signals, wire.Signal{Kind: wire.SignalKeepalive})
		}
		return frame(wire.AppendBatch(nil, b))
	}
	hello := func(n int, change func(*wire.Hello)) []byte {
		x := &wire.Hello{Protocol: wire.Protocol, Node: nodeUID(n), Features: wire.Features(), Streams: []wire.StreamRange{{StreamKey: neighbourKey, First: 1}}}
		change(x)
		return frame(wire.AppendHello(nil, x))
	}
	nothing := func(*wire.Hello) {}
	for i, c := range []struct {
		name  string
		open  bool // sent within a session, else before Hello
		bytes func(n int) []byte
		code  string
		says  string
	}{
		{"a frame too large", true, func(int) []byte { return encodeRawFrame(binary, strings.Repeat("x", 3<<20)) }, "too_large", "at most 1048576"},
		{"a frame that says it has a terabyte", true, func(int) []byte { return encodeRawFrame(with(func(h *ws.Header) { h.Length = 1 << 40 }), "x") }, "too_large", "at most"},
		{"a length with the highest bit", true, func(int) []byte { return append([]byte{0x82, 0xff}, strings.Repeat("\xff", 12)...) }, "websocket", ""},
		{"no protobuf", true, func(int) []byte { return frame([]byte("\xff\xff\xff\xff")) }, "malformed", "Frame"},
		{"half a batch", true, func(int) []byte { return frame([]byte("\x32\x05\x32\x7f\x01\x02\x03")) }, "malformed", "Batch"},
		{"two messages in a frame", true, func(int) []byte { return frame([]byte("\x32\x00\x32\x00")) }, "malformed", "more than one"},
		{"not masked", true, func(int) []byte { return encodeRawFrame(with(func(h *ws.Header) { h.Masked = false }), "x") }, "websocket", "mask"},
		{"in fragments", true, func(int) []byte { return encodeRawFrame(with(func(h *ws.Header) { h.Fin = false }), "x") }, "websocket", "fragments"},
		{"reserved bits", true, func(int) []byte {
			return encodeRawFrame(with(func(h *ws.Header) { h.Rsv = ws.Rsv(false, true, false) }), "x")
		}, "websocket", "reserved bit"},
		{"text", true, func(int) []byte { return encodeRawFrame(with(func(h *ws.Header) { h.OpCode = ws.OpText }), "{}") }, "websocket", "binary"},
		{"a kind that does not exist", true, func(int) []byte { return encodeRawFrame(with(func(h *ws.Header) { h.OpCode = 0xb }), "") }, "websocket", "kind 11"},
		{"a jump without a gap", true, func(int) []byte { return batch(5, 1) }, "numbers_missing", "numbers 1 to 4"},
		{"too many signals", true, func(int) []byte { return batch(1, 1001) }, "malformed", "at most 1000"},
		{"number zero", true, func(int) []byte { return batch(0, 1) }, "malformed", "begin at 1"},
		{"a number beyond all", true, func(int) []byte { return batch(1<<61, 1) }, "malformed", "number"},
		{"a gap that ends before it begins", true, func(int) []byte {
			return frame(wire.AppendBatch(nil, &wire.Batch{StreamKey: neighbourKey, First: 9, Gap: &wire.Gap{Last: 3}}))
		}, "malformed", "before first"},
		{"a second Hello", true, func(n int) []byte { return hello(n, nothing) }, "malformed", "second Hello"},
		{"a batch before Hello", false, func(int) []byte { return batch(1, 1) }, "malformed", "expected Hello as the first message"},
		{"another node's id", false, func(n int) []byte { return hello(n, func(h *wire.Hello) { h.Node = nodeUID(0) }) }, "identity", "certificate"},
		{"the id of nobody", false, func(n int) []byte { return hello(n, func(h *wire.Hello) { h.Node = uuid.Nil }) }, "identity", "certificate"},
		{"another version", false, func(n int) []byte { return hello(n, func(h *wire.Hello) { h.Protocol = 99 }) }, "protocol", "version 99"},
		{"very many streams", false, func(n int) []byte {
			return hello(n, func(h *wire.Hello) {
				for i := range 40 {
					h.Streams = append(h.Streams, wire.StreamRange{StreamKey: wire.StreamKey{Stream: wire.StreamID(i)}})
				}
			})
		}, "streams", "at most"},
		{"a Hello too large", false, func(n int) []byte {
			return hello(n, func(h *wire.Hello) {
				h.Facts = map[string]string{}
				for i := range 20 {
					h.Facts[fmt.Sprint("k", i)] = strings.Repeat("x", 30<<10)
				}
			})
		}, "too_large", "at most 262144"},
		{"pings and no Hello", false, func(int) []byte {
			return []byte(strings.Repeat(string(encodeRawFrame(with(func(h *ws.Header) { h.OpCode = ws.OpPing }), "x")), 20))
		}, "malformed", "no Hello"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := i + 1
			counted := func() float64 {
				return h.Metric("muster_session_ended_total", `"`+c.code+`"`) + h.Metric("muster_session_handshakes_total", `"`+c.code+`"`)
			}
			was := counted()
			var e *attacker
			if c.open {
				e = h.sendHello(n)
			} else {
				var err error
				if e, err = h.openWebSocket(h.tls(n)); err != nil {
					t.Fatal(err)
				}
			}
			go func() { _, _ = e.Conn.Write(c.bytes(n)) }()
			r, err := e.readRefusal()
			assert(t, err == nil && r.Code == c.code && strings.Contains(r.Message, c.says),
				"%+v %v, want %s: …%s…", r, err, c.code, c.says)
			// The server counts when the session has ended, after its last message.
			awaitEqual(t, "number of refusals counted", 1, func() float64 { return counted() - was })
		})
	}

	t.Run("replayed", func(t *testing.T) { // a repeated batch is acknowledged again and stored once
		e := h.sendHello(39)
		kept := h.Metric("muster_session_signals_total", `"admitted"`)
		for range 3 {
			_, _ = e.Conn.Write(batch(1, 10))
			kind, body, err := e.receive()
			for err == nil && kind != wire.KindAck {
				kind, body, err = e.receive()
			}
			var ack wire.Ack
			require(t, err == nil && ack.Decode(body) == nil && len(ack.Last) == 1 && ack.Last[0].Last == 10,
				"%d %+v %v", kind, ack, err)
		}
		n := h.Metric("muster_session_frames_total", `"repeated"`)
		assert(t, n >= 2, "%v batches counted as repeated", n)
		// The neighbour's signals count too, one at a time.
		more := h.Metric("muster_session_signals_total", `"admitted"`) - kept
		assert(t, more < 200, "%v signals kept", more)
	})

	unharmed(5*time.Second, 64)
	// The neighbour still sends: a received message may not have its outcome counted yet.
	harness.Until(t, 10*time.Second, "the server counted an outcome for each message", func() (string, bool) {
		received, handled := h.Metric("muster_session_frames_received_total"), h.Metric("muster_session_frames_total")
		return fmt.Sprintf("%v messages received, %v outcomes", received, handled), received == handled
	})
	h.Stop()
}

// TestUnauthorizedConnectionsAreCounted opens connections without permission, and expects each kind in the
// metrics.
func TestUnauthorizedConnectionsAreCounted(t *testing.T) {
	h := newHostileAgents(t, 10, nil)
	unharmed := h.startServiceCheck()
	failed := func(why string) float64 { return h.Metric("muster_session_handshakes_total", `"`+why+`"`) }
	refused := func(t *testing.T, why string, cfg *tls.Config, says string) {
		t.Helper()
		was := failed(why)
		e, err := h.dialTLS(cfg)
		if err == nil { // TLS 1.3 reports the refusal with the first read
			_, err = e.Conn.Read(make([]byte, 1))
		}
		assert(t, err != nil && strings.Contains(err.Error(), says), "got %v, want %q", err, says)
		harness.Until(t, 10*time.Second, "it is counted as "+why, func() (string, bool) { n := failed(why); return fmt.Sprint(n), n == was+1 })
	}
	good := h.tls(1)

	other := testenv.Value(pki.Open(t.TempDir(), []string{"localhost"}, nil))(t)
	// A copy of the server's CA with a clock of 25 years ago; pki.Open writes into its folder.
	past := testenv.Value(pki.Open(copyDirectory(t, filepath.Join(h.Data, "pki")), []string{"localhost"}, func() time.Time { return time.Now().AddDate(-25, 0, 0) }))(t)
	own := testenv.Value(tls.LoadX509KeyPair(filepath.Join(h.Data, "pki", "server.crt"), filepath.Join(h.Data, "pki", "server.key")))(t)
	key := testenv.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der := testenv.Value(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	shows := func(certificates ...tls.Certificate) func(*tls.Config) {
		return func(cfg *tls.Config) { cfg.Certificates = certificates }
	}
	for _, c := range []struct {
		name, why, says string
		change          func(cfg *tls.Config)
	}{
		{"no certificate", "tls_no_certificate", "certificate required", shows()},
		{"a certificate of another CA", "tls_certificate_of_another_ca", "unknown certificate authority", shows(issueCertificate(t, other, nodeUID(1)))},
		{"an expired certificate", "tls_certificate_expired", "expired certificate", shows(issueCertificate(t, past, nodeUID(1)))},
		{"the server's own certificate", "tls_certificate", "bad certificate", shows(own)},
		{"a certificate that it signed itself", "tls_certificate_of_another_ca", "unknown certificate authority", func(cfg *tls.Config) {
			// Send it even if the server asks for other issuers.
			cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
			}
		}},
		{"TLS 1.2", "tls", "protocol version", func(cfg *tls.Config) { cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }},
		{"a protocol of its own", "tls_alpn", "no application protocol", func(cfg *tls.Config) { cfg.NextProtos = []string{"muster.v9"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := good.Clone()
			c.change(cfg)
			refused(t, c.why, cfg, c.says)
		})
	}
	t.Run("both protocols", func(t *testing.T) { // a client that offers both counts as an agent, which needs a certificate
		cfg := good.Clone()
		cfg.NextProtos = []string{"h2", "http/1.1", wire.Subprotocol}
		e, err := h.dialTLS(cfg)
		require(t, err == nil && e.Conn.(*tls.Conn).ConnectionState().NegotiatedProtocol == wire.Subprotocol, "%v", err)
		cfg.Certificates = nil
		refused(t, "tls_no_certificate", cfg, "certificate required")
	})
	t.Run("a browser on the agents' path", func(t *testing.T) {
		cfg := good.Clone()
		cfg.NextProtos, cfg.Certificates = []string{"http/1.1"}, nil
		e := testenv.Value(h.dialTLS(cfg))(t)
		said := exchangeRaw(e.Conn, "GET /agent/v1/session HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: muster.v1\r\nConnection: close\r\n\r\n")
		assert(t, strings.HasPrefix(said, "HTTP/1.1 401"), "unexpected answer: %.200s", said)
	})
	t.Run("a person's ticket is no agent's", func(t *testing.T) {
		cache := tls.NewLRUClientSessionCache(4)
		person := &tls.Config{RootCAs: good.RootCAs, ServerName: "localhost", NextProtos: []string{"http/1.1"}, ClientSessionCache: cache}
		e := testenv.Value(h.dialTLS(person))(t)
		_ = exchangeRaw(e.Conn, "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") // the answer brings the session ticket
		agent := person.Clone()
		agent.NextProtos = []string{wire.Subprotocol}
		refused(t, "tls_no_certificate", agent, "certificate required")
	})
	for why, c := range map[string]struct{ request, says string }{
		"tls_plain_http": {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "https://"}, "tls_no_tls": {"SSH-2.0-OpenSSH_9.7\r\n", ""},
	} {
		t.Run(why, func(t *testing.T) {
			was := failed(why)
			nc := testenv.Value(net.Dial("tcp", h.Listen))(t)
			defer nc.Close()
			_ = nc.SetDeadline(time.Now().Add(20 * time.Second))
			said := exchangeRaw(nc, c.request)
			assert(t, strings.Contains(said, c.says) && (c.says == "" || strings.Contains(said, "400")), "got %q", said)
			expectEqual(t, "number of refusals counted", failed(why), was+1)
		})
	}
	t.Run("no request of WebSocket", func(t *testing.T) {
		for i, request := range []string{
			"GET /agent/v1/session HTTP/1.1\r\nHost: x\r\n\r\n", "POST /agent/v1/session HTTP/1.1\r\nHost: x\r\n\r\n", "GET /other HTTP/1.1\r\nHost: x\r\n\r\n",
			"GET /agent/v1/session HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
			"GET " + strings.Repeat("/x", 5000) + " HTTP/1.1\r\n\r\n",
			"GET /agent/v1/session HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 100_000) + "\r\n\r\n",
		} {
			was := failed("websocket")
			e, err := h.dialTLS(h.tls(2 + i)) // another node each time: a node may open few connections at once
			testenv.NoError(t, err)
			said := exchangeRaw(e.Conn, request)
			assert(t, strings.HasPrefix(said, "HTTP/1.1 4"), "%.60q: got %.100q", request, said)
			harness.Until(t, 10*time.Second, fmt.Sprintf("%.60q is counted", request), func() (string, bool) { n := failed("websocket"); return fmt.Sprint(n), n == was+1 })
		}
	})
	t.Run("a node that was deleted", func(t *testing.T) {
		h.Client()
		e := h.sendHello(1)
		h.CLI("delete", "node", "load-00001", "-n", "load", "--yes")
		r, err := e.readRefusal()
		assert(t, err == nil && r.Code == "deleted", "%+v %v", r, err)
		again := testenv.Value(h.openWebSocket(h.tls(1)))(t)
		again.send(wire.AppendHello(nil, &wire.Hello{Protocol: wire.Protocol, Node: nodeUID(1)}))
		r, err = again.readRefusal()
		assert(t, err == nil && r.Code == "deleted" && strings.Contains(r.Hint, "muster-agent reset-identity"), "%+v %v", r, err)
	})
	unharmed(5*time.Second, 200)
	h.Stop()
}

// issueCertificate issues a node's certificate with a certificate authority.
func issueCertificate(t *testing.T, a *pki.Authority, uid uuid.UUID) tls.Certificate {
	t.Helper()
	key := testenv.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	csr := testenv.Value(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key))(t)
	text := testenv.Value(a.IssueNodeCertificate(csr, uid))(t)
	block, _ := pem.Decode(text)
	return tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}
}

// copyDirectory copies a folder and returns the copy's path.
func copyDirectory(t *testing.T, from string) (copied string) {
	t.Helper()
	copied = filepath.Join(t.TempDir(), "copy")
	harness.CopyFolder(t, from, copied)
	return copied
}
