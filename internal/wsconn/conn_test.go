package wsconn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/muster-fleet/muster/internal/testenv"
)

// newConnPair returns both ends of one connection after the opening handshake.
func newConnPair(t testing.TB) (server, client *Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.NoError(t, err)
	defer l.Close()
	o := Options{Timeout: 10 * time.Second, Buffers: new(Buffers)}
	accepted := make(chan *Conn, 1)
	go func() {
		nc, err := l.Accept()
		if err != nil {
			accepted <- nil
			return
		}
		c, err := Accept(nc, "/path", "sub.v1", o)
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	nc, err := net.Dial("tcp", l.Addr().String())
	testenv.NoError(t, err)
	client, err = Connect(nc, "host", "/path", "sub.v1", o)
	testenv.NoError(t, err)
	server = <-accepted
	t.Cleanup(func() { server.Close(); client.Close() })
	return server, client
}

// newTestMessage returns a message of n bytes, with free space for the frame header in front.
func newTestMessage(n int) []byte {
	return append(make([]byte, Headroom), bytes.Repeat([]byte{'m'}, n)...)
}

// TestMessagesOfAllSizesArrive sends messages of many lengths in both directions, and expects unchanged messages. The
// lengths are encoded differently; some messages are sent together.
func TestMessagesOfAllSizesArrive(t *testing.T) {
	server, client := newConnPair(t)
	sizes := []int{0, 1, 125, 126, 127, idleBufferBytes - 8, idleBufferBytes - 1, idleBufferBytes, idleBufferBytes + 1, 4095, 65535, 65536, 1 << 20, 3, 900, 900, 900, 0}
	for _, ends := range [][2]*Conn{{server, client}, {client, server}} {
		go func() {
			for _, n := range sizes {
				if err := ends[0].Write(newTestMessage(n)); err != nil {
					t.Error(err)
				}
			}
		}()
		for _, n := range sizes {
			op, got, err := ends[1].Read(1 << 20)
			if err != nil || op != Binary || !bytes.Equal(got, bytes.Repeat([]byte{'m'}, n)) {
				t.Fatalf("message of %d bytes: op %v, %d bytes, %v", n, op, len(got), err)
			}
		}
	}
}

// TestPingAndCloseAreAnswered sends a ping and a close frame, and expects a pong and a close frame as answers.
func TestPingAndCloseAreAnswered(t *testing.T) {
	server, client := newConnPair(t)
	testenv.NoError(t, client.Ping(nil))
	if op, _, err := server.Read(10); op != Ping || err != nil {
		t.Fatalf("server read %v, %v", op, err)
	}
	if op, _, err := client.Read(10); op != Pong || err != nil {
		t.Fatalf("client read %v, %v", op, err)
	}
	testenv.NoError(t, server.WriteClose(1008, strings.Repeat("because ", 100)))
	_, _, err := client.Read(10)
	var closed *CloseError
	if !errors.As(err, &closed) || closed.Code != 1008 || !strings.HasPrefix(closed.Reason, "because") {
		t.Fatalf("client read %v", err)
	}
}

// TestInvalidFramesAreRefused sends frames that break the WebSocket standard (RFC 6455), and expects errors.
func TestInvalidFramesAreRefused(t *testing.T) {
	mask := func(h ws.Header) ws.Header { h.Masked = true; return h }
	huge := []byte{0x82, 0xff}
	huge = binary.BigEndian.AppendUint64(huge, 1<<63)
	for _, c := range []struct {
		name string
		raw  []byte
		want error
	}{
		{"not masked", ws.MustCompileFrame(ws.NewBinaryFrame([]byte("x"))), ErrProtocol},
		{"text", encodeFrame(mask(ws.Header{Fin: true, OpCode: ws.OpText, Length: 1})), ErrProtocol},
		{"fragment", encodeFrame(mask(ws.Header{OpCode: ws.OpBinary, Length: 1})), ErrProtocol},
		{"reserved bit", encodeFrame(mask(ws.Header{Fin: true, Rsv: 4, OpCode: ws.OpBinary, Length: 1})), ErrProtocol},
		{"long ping", encodeFrame(mask(ws.Header{Fin: true, OpCode: ws.OpPing, Length: 126})), ErrProtocol},
		{"too large", encodeFrame(mask(ws.Header{Fin: true, OpCode: ws.OpBinary, Length: 101})), ErrTooLarge},
		{"length with the highest bit", append(huge, 0, 0, 0, 0), ws.ErrHeaderLengthMSB},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, client := newConnPair(t)
			testenv.Value(client.nc.Write(c.raw))(t)
			if _, _, err := server.Read(100); !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
		})
	}
}

// encodeFrame returns a frame with the given header and a payload of zeroes.
func encodeFrame(h ws.Header) []byte {
	var b bytes.Buffer
	_ = ws.WriteHeader(&b, h)
	b.Write(make([]byte, h.Length))
	return b.Bytes()
}

// TestFragmentedMessagesAreJoined sends a message in several frames, and expects one message. Pings come in between;
// the option Fragments must allow several frames.
func TestFragmentedMessagesAreJoined(t *testing.T) {
	part := func(op ws.OpCode, fin bool, text string) []byte {
		f := ws.NewFrame(op, fin, []byte(text))
		return ws.MustCompileFrame(ws.MaskFrame(f))
	}
	for _, c := range []struct {
		name  string
		parts [][]byte
		want  string
		err   error
	}{
		{"three", [][]byte{part(ws.OpBinary, false, "one "), part(ws.OpContinuation, false, "two "), part(ws.OpContinuation, true, "three")}, "one two three", nil},
		{"a ping among them", [][]byte{part(ws.OpBinary, false, "a"), part(ws.OpPing, true, "?"), part(ws.OpContinuation, true, "b")}, "ab", nil},
		{"empty ones", [][]byte{part(ws.OpBinary, false, ""), part(ws.OpContinuation, true, "")}, "", nil},
		{"too long together", [][]byte{part(ws.OpBinary, false, strings.Repeat("a", 60)), part(ws.OpContinuation, true, strings.Repeat("b", 60))}, "", ErrTooLarge},
		{"goes on without a beginning", [][]byte{part(ws.OpContinuation, true, "a")}, "", ErrProtocol},
		{"another message within", [][]byte{part(ws.OpBinary, false, "a"), part(ws.OpBinary, true, "b")}, "", ErrProtocol},
		{"a ping in parts", [][]byte{part(ws.OpPing, false, "a")}, "", ErrProtocol},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, client := newConnPair(t)
			server.fragments = true
			testenv.Value(client.nc.Write(bytes.Join(c.parts, nil)))(t)
			op, got, err := server.Read(100)
			if !errors.Is(err, c.err) || err == nil && (op != Binary || string(got) != c.want) {
				t.Fatalf("got %v %q, %v", op, got, err)
			}
		})
	}
	server, client := newConnPair(t)
	server.fragments = true
	go func() {
		_, _ = client.nc.Write(append(part(ws.OpBinary, false, "a"), bytes.Repeat(part(ws.OpContinuation, false, ""), maxFrames)...))
	}()
	if _, _, err := server.Read(100); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("parts without end: %v", err)
	}
}

// TestInvalidHandshakesAreRefused sends handshakes with a wrong path or subprotocol, and expects a refusal.
func TestInvalidHandshakesAreRefused(t *testing.T) {
	for _, c := range []struct{ name, path, sub string }{{"path", "/other", "sub.v1"}, {"subprotocol", "/path", "sub.v2"}} {
		t.Run(c.name, func(t *testing.T) {
			a, b := net.Pipe()
			defer a.Close()
			go func() {
				defer b.Close()
				if _, err := Accept(b, "/path", "sub.v1", Options{}); err == nil {
					t.Error("accepted")
				}
			}()
			if _, err := Connect(a, "host", c.path, c.sub, Options{}); err == nil {
				t.Error("connected")
			}
		})
	}
}

// FuzzRead reads random bytes as frames, and expects no message above the length limit. It reads as server and as
// client.
func FuzzRead(f *testing.F) {
	f.Add(encodeFrame(ws.Header{Fin: true, Masked: true, OpCode: ws.OpBinary, Length: 5}), true)
	f.Add(encodeFrame(ws.Header{Fin: true, OpCode: ws.OpBinary, Length: 2000}), false)
	f.Add(encodeFrame(ws.Header{Fin: true, OpCode: ws.OpClose, Length: 2}), false)
	f.Fuzz(func(t *testing.T, data []byte, server bool) {
		c := newConn(&replayConn{r: bytes.NewReader(data)}, !server, Options{Timeout: time.Hour, Buffers: new(Buffers)})
		c.fragments = server
		for {
			_, p, err := c.Read(4096)
			if err != nil {
				return
			}
			if len(p) > 4096 {
				t.Fatalf("%d bytes", len(p))
			}
		}
	})
}

// FuzzHandshake sends random handshakes, and expects only the right path and subprotocol to be accepted.
func FuzzHandshake(f *testing.F) {
	const request = "GET /path HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: sub.v1\r\n\r\n"
	f.Add([]byte(request))
	f.Add([]byte(strings.Replace(request, "/path", "/other", 1)))
	f.Add([]byte(strings.Replace(request, "sub.v1", "sub.v2, sub.v1", 1)))
	f.Add([]byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: sub.v1\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		o := Options{Timeout: time.Hour, Buffers: new(Buffers)}
		if _, err := Accept(&replayConn{r: bytes.NewReader(data)}, "/path", "sub.v1", o); err == nil &&
			(!bytes.Contains(data, []byte("/path")) || !bytes.Contains(data, []byte("sub.v1"))) {
			t.Fatalf("let in: %q", data)
		}
		if _, err := Connect(&replayConn{r: bytes.NewReader(data)}, "host", "/path", "sub.v1", o); err == nil {
			t.Fatalf("an answer to somebody else's key is taken: %q", data)
		}
	})
}

// replayConn is an in-memory network connection for tests that returns given bytes to readers. Its Read returns
// given bytes.
type replayConn struct {
	net.Conn
	r io.Reader
}

// Read returns bytes from memory.
func (r *replayConn) Read(p []byte) (int, error) { return r.r.Read(p) }

// Write discards the bytes.
func (r *replayConn) Write(p []byte) (int, error) { return len(p), nil }

// SetWriteDeadline does nothing, because writes never block.
func (r *replayConn) SetWriteDeadline(time.Time) error { return nil }

// Close does nothing, because the bytes are in memory.
func (r *replayConn) Close() error { return nil }

// BenchmarkRoundTrip measures the time from a sent message to its acknowledgement, over loopback TCP. A round trip is
// a message with four results, and its acknowledgement.
func BenchmarkRoundTrip(b *testing.B) {
	server, client := newConnPair(b)
	go func() {
		reply := newTestMessage(30)
		for {
			if _, _, err := server.Read(1 << 20); err != nil {
				return
			}
			_ = server.Write(reply)
		}
	}()
	buf := newTestMessage(480)
	b.ReportAllocs()
	for b.Loop() {
		testenv.NoError(b, client.Write(buf))
		if _, _, err := client.Read(1 << 20); err != nil {
			b.Fatal(err)
		}
	}
}

// TestOneSystemCallReadsSeveralMessages sends several messages together, and expects one system call to read
// all of the messages. HasFrame reports another complete message. Messages that the server sends together
// arrive one by one.
func TestOneSystemCallReadsSeveralMessages(t *testing.T) {
	sizes := []int{0, 3, 125, 126, 900, 900, 5000, readAheadBytes - 8, readAheadBytes, readAheadBytes + 1, 65536, 1 << 20, 7, 7}
	accepted, client := newConnPair(t)
	server := NewServerConn(accepted.nc, Options{Timeout: 10 * time.Second, Buffers: new(Buffers)})
	var frames []byte
	for _, n := range sizes {
		m := bytes.Repeat([]byte{'m'}, n)
		frames = AppendFrame(frames, m[:n/2], m[n/2:])
	}
	go func() {
		if err := server.Send(frames); err != nil {
			t.Error(err)
		}
		for _, n := range sizes {
			if err := client.Write(newTestMessage(n)); err != nil {
				t.Error(err)
			}
		}
		_ = client.nc.(*net.TCPConn).CloseWrite()
	}()
	for _, c := range []*Conn{client, server} {
		for i, n := range sizes {
			if !c.HasFrame() {
				testenv.NoError(t, c.Wait())
			}
			op, p, err := c.Read(1 << 20)
			if err != nil || op != Binary || len(p) != n || bytes.Count(p, []byte{'m'}) != n {
				t.Fatalf("message %d of %d bytes: %v, %d bytes, %v", i, n, op, len(p), err)
			}
		}
	}
	if err := server.Wait(); !errors.Is(err, io.EOF) || server.readAhead != nil {
		t.Errorf("at the end: %v; a buffer is held: %v", err, server.readAhead != nil)
	}
}

// TestSendingClientReadsCloseReason sends a too large message, and expects the client to read the refusal's
// reason. The server's close frame has the reason, and arrives while the client still sends.
func TestSendingClientReadsCloseReason(t *testing.T) {
	for range 5 {
		server, client := newConnPair(t)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_ = client.Write(newTestMessage(2 << 20))
		}()
		if _, _, err := server.Read(1 << 20); !errors.Is(err, ErrTooLarge) {
			t.Fatal(err)
		}
		testenv.NoError(t, server.WriteClose(1009, "too long"))
		go server.CloseGracefully(10 * time.Second)
		_, _, err := client.Read(100)
		var closed *CloseError
		if !errors.As(err, &closed) || closed.Code != 1009 {
			t.Fatalf("client read %v", err)
		}
		<-sent
		client.Close()
	}
}

// TestCloseGracefullyEndsWithAHangingPeer calls CloseGracefully with a peer that neither reads nor closes, and expects
// a quick return.
func TestCloseGracefullyEndsWithAHangingPeer(t *testing.T) {
	server, _ := newConnPair(t)
	began := time.Now()
	server.CloseGracefully(50 * time.Millisecond)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}

// TestMessageHeaderAllocatesNoPayload sends only the header of a long message, and expects no memory for the
// payload.
func TestMessageHeaderAllocatesNoPayload(t *testing.T) {
	server, client := newConnPair(t)
	head := encodeFrame(ws.Header{Fin: true, Masked: true, OpCode: ws.OpBinary, Length: 1 << 20})
	head = head[:len(head)-1<<20]
	testenv.Value(client.nc.Write(append(head, make([]byte, 3000)...)))(t)
	_ = server.nc.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	if _, _, err := server.Read(1 << 20); err == nil {
		t.Fatal("read a message that has not come")
	}
	if n := cap(*server.longPayload); n > maxUnprovenBytes {
		t.Errorf("%d bytes were made room for", n)
	}
	// A long message that does arrive is read whole.
	server, client = newConnPair(t)
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	go func() { _ = client.Write(append(make([]byte, Headroom), want...)) }() // masks its own copy
	op, got, err := server.Read(1 << 20)
	if err != nil || op != Binary || !bytes.Equal(got, want) {
		t.Fatalf("%v %d bytes %v", op, len(got), err)
	}
}
