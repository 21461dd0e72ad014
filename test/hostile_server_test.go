//go:build linux

package test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/klauspost/compress/s2"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
	"github.com/muster-fleet/muster/test/harness"
)

// An agent survives malicious messages from a server with a valid certificate. It neither ends nor uses more memory.
func TestAgentSurvivesMaliciousServer(t *testing.T) {
	skipIfShort(t, "an agent waits before it connects again, and there are many lies")
	t.Parallel()
	s := harness.StartServer(t)
	a := s.NewAgent("busy")
	s.Apply(busyCheck("beat", "1s", "5s", "date"))
	a.Start()
	results := func() uint64 { return getEvent(t, s.API, "busy", "beat").Results }
	harness.Until(t, 40*time.Second, "results arrive", func() (string, bool) { return a.Log(), results() > 2 })
	a.Stop()

	binary := ws.Header{Fin: true, OpCode: ws.OpBinary}
	frame := func(message []byte) []byte { return encodeRawFrame(binary, string(message)) }
	welcome := func(change func(*wire.Welcome)) []byte {
		w := &wire.Welcome{Protocol: wire.Protocol, Name: "busy", Node: 1, KeepaliveMs: 1000}
		change(w)
		return frame(wire.AppendWelcome(nil, w))
	}
	fine := welcome(func(*wire.Welcome) {})
	// An assignment whose content is what the fields say, compressed.
	packed := func(fields []byte) []byte {
		body := append([]byte{0x4a}, varint(len(fields))...)
		body = append(body, fields...)
		message := append([]byte{0x22}, varint(len(body))...)
		return frame(append(message, body...))
	}
	lies := map[string][]byte{
		"a frame of a gigabyte":            append(fine, encodeRawFrame(ws.Header{Fin: true, OpCode: ws.OpBinary, Length: 1 << 30}, strings.Repeat("x", 1<<20))...),
		"an assignment that unpacks to 1G": append(fine, packed(s2.Encode(nil, make([]byte, 1<<30)))...),
		"an assignment that says 4G":       append(fine, packed(append([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, make([]byte, 40)...))...),
		"many packed ones in one":          append(fine, frame(decompressionBomb())...),
		"an assignment that nobody signed": append(fine, frame(wire.AppendPackedAssignment(nil, &wire.Assignment{Generation: wire.Generation{Epoch: 1 << 62}, HasProperties: true, Signature: make([]byte, 64)}))...),
		"a Welcome with limits of one":     welcome(func(w *wire.Welcome) { w.MaxFrame, w.MaxUnacked, w.MaxOutput, w.KeepaliveMs = 1, 1, 1, 1 }),
		"slow for ever":                    append(fine, frame(wire.AppendBackPressure(nil, &wire.BackPressure{LingerMs: 1<<32 - 1, LastsMs: 1<<32 - 1}))...),
		"text":                             append(fine, encodeRawFrame(ws.Header{Fin: true, OpCode: ws.OpText}, "hello")...),
		"masked":                           append(fine, encodeRawFrame(ws.Header{Fin: true, Masked: true, OpCode: ws.OpBinary}, "x")...),
		"no protobuf":                      append(fine, frame([]byte("\xff\xff\xff"))...),
		"acknowledges what was never sent": append(fine, frame(wire.AppendAck(nil, &wire.Ack{Last: []wire.StreamLast{{StreamKey: neighbourKey, Last: 1 << 60}}}))...),
		"very many acknowledgements":       append(fine, bytes.Repeat(frame(wire.AppendAck(nil, &wire.Ack{})), 10_000)...),
		"very many pings":                  append(fine, bytes.Repeat(encodeRawFrame(ws.Header{Fin: true, OpCode: ws.OpPing}, strings.Repeat("x", 125)), 5_000)...),
		"very many runs":                   append(fine, bytes.Repeat(frame(wire.AppendRun(nil, &wire.Run{Definition: 1})), 10_000)...),
		"a second Welcome":                 append(fine, fine...),
		"something before Welcome":         frame(wire.AppendAck(nil, &wire.Ack{})),
		"more bytes than a buffer before":  bytes.Repeat([]byte("x"), 100_000),
	}
	names := make([]string, 0, len(lies))
	for name := range lies {
		names = append(names, name)
	}
	liar := startMaliciousServer(t, s, lies, names)
	b := *a
	b.Args = append([]string{}, "--server", liar.address, "--log-level", "debug")
	b.Start()
	harness.Until(t, 120*time.Second, "the malicious server sent each message", func() (string, bool) { told := liar.connections(); return fmt.Sprint(told), told >= len(lies) })
	require(t, !b.Ended(), "the agent ended:\n%s", b.Log())
	if kb := peakMemory(t, b.PID()); kb > 80<<10 {
		t.Errorf("the agent's memory peaked at %d kB", kb)
	} else {
		t.Logf("the agent's memory peaked at %d kB", kb)
	}
	b.Stop()
	before := results()
	a.Start()
	harness.Until(t, 40*time.Second, "the agent's own server gets more results", func() (string, bool) { return a.Log(), results() > before+2 })
}

// varint returns the protobuf varint of a number.
func varint(n int) (b []byte) {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// decompressionBomb returns a malicious Assignment message that decompresses to much more than allowed. Each field
// decompresses to the maximum size of a frame.
func decompressionBomb() []byte {
	definition := append(append([]byte{0x22}, varint(256<<10+4)...), append([]byte{0x12}, append(varint(256<<10), make([]byte, 256<<10)...)...)...)
	one := s2.Encode(nil, definition)
	var body []byte
	for len(body) < 500<<10 {
		body = append(append(append(body, 0x4a), varint(len(one))...), one...)
	}
	return append(append([]byte{0x22}, varint(len(body))...), body...)
}

// maliciousServer is a server that sends malicious messages to agents. Each connection gets a different message.
type maliciousServer struct {
	address string
	mu      sync.Mutex
	n       int
}

// connections returns how many connections the server has accepted so far.
func (l *maliciousServer) connections() int { l.mu.Lock(); defer l.mu.Unlock(); return l.n }

// startMaliciousServer starts a malicious server with a valid certificate. Each connection gets a malicious message.
func startMaliciousServer(t *testing.T, s *harness.Server, lies map[string][]byte, names []string) *maliciousServer {
	t.Helper()
	authority := s.Authority()
	tcp := testenv.Value(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{wire.Subprotocol}, GetCertificate: authority.GetCertificate}))(t)
	l := &maliciousServer{address: tcp.Addr().String()}
	var serving sync.WaitGroup
	t.Cleanup(func() { tcp.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			nc, err := tcp.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { l.serve(nc, lies, names) })
		}
	})
	return l
}

// serve accepts the session of one connected agent, and sends one malicious message.
func (l *maliciousServer) serve(nc net.Conn, lies map[string][]byte, names []string) {
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(5 * time.Second))
	conn, err := wsconn.Accept(nc, "/agent/v1/session", wire.Subprotocol, wsconn.Options{Timeout: time.Minute, Buffers: new(wsconn.Buffers)})
	if err != nil {
		return
	}
	if _, _, err := conn.Read(wire.MaxFrame); err != nil { // Hello
		return
	}
	l.mu.Lock()
	name := names[l.n%len(names)]
	l.n++
	l.mu.Unlock()
	_, _ = nc.Write(lies[name])
	_ = nc.SetDeadline(time.Now().Add(time.Second))
	for {
		if _, _, err := conn.Read(wire.MaxFrame); err != nil {
			return
		}
	}
}

// A handler cannot send messages to the server's own listeners or to a link-local address. Only the setting
// --outbound-allow permits such addresses. The setting allows exceptions.
func TestHandlersCannotReachServerListeners(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	for name, c := range map[string]struct{ url, want string }{
		"api": {"https://" + s.Listen + "/api/v1/me", "is a listener of this server"}, "admin": {"http://" + s.Admin + "/metrics", "is a listener of this server"},
		"localhost": {"http://localhost" + s.Admin[strings.LastIndexByte(s.Admin, ':'):] + "/metrics", "is a listener of this server"},
		"cloud":     {"http://169.254.169.254/latest/meta-data", "is a link-local address"},
	} {
		s.Apply(fmt.Sprintf("{kind: Handler, metadata: {name: %s}, spec: {webhook: {url: %q}}}", name, c.url))
		if result := s.Try("handler", "test", name); !harness.Contains(result.Out+result.Errors, c.want) {
			t.Errorf("%s: %s", name, result.Out+result.Errors)
		}
	}
	s.Stop()
}

// TestAdminListenerAnswersDespiteIdleConnections opens the maximum of idle connections to the admin listener, and
// expects the listener to answer.
func TestAdminListenerAnswersDespiteIdleConnections(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	for range 100 {
		conn := testenv.Value(net.Dial("tcp", s.Admin))(t)
		t.Cleanup(func() { conn.Close() })
	}
	harness.Until(t, 20*time.Second, "the admin listener accepts", func() (string, bool) {
		code, _, err := s.GetAdmin("/livez")
		return fmt.Sprint(code, err), code == 200
	})
	s.Stop()
}
