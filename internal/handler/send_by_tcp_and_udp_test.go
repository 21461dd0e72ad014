package handler

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// lineReceiver is a TCP server for tests that reads each line as a JSON notification.
type lineReceiver struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
	got   chan *Notification
}

// newLineReceiver starts a TCP server that decodes each line as a notification.
func newLineReceiver(t *testing.T, config *tls.Config) *lineReceiver {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.NoError(t, err)
	if config != nil {
		l = tls.NewListener(l, config)
	}
	p := &lineReceiver{Listener: l, got: make(chan *Notification, 100_000)}
	go func() {
		for {
			conn, err := p.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.conns = append(p.conns, conn)
			p.mu.Unlock()
			go p.read(t, conn)
		}
	}()
	t.Cleanup(func() { p.Close(); p.closeConnections() })
	return p
}

// read decodes each line of a connection as a notification.
func (p *lineReceiver) read(t *testing.T, conn net.Conn) {
	for r := bufio.NewReader(conn); ; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		n, err := Decode(line)
		if err != nil {
			t.Errorf("%v: %q", err, line)
			return
		}
		p.got <- n
	}
}

// closeConnections closes all connections of the receiver, and returns the number of closed connections.
func (p *lineReceiver) closeConnections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.conns)
	for _, conn := range p.conns {
		conn.Close()
	}
	p.conns = nil
	return n
}

// TestTCPSendsOneLine sends messages by TCP with and without TLS and expects one JSON line each.
func TestTCPSendsOneLine(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	testenv.NoError(t, err)
	plain, secure := newLineReceiver(t, nil), newLineReceiver(t, &tls.Config{Certificates: []tls.Certificate{pair}})
	out := newTestSender(t, Options{})
	note := testNotifications()[Opened]
	for _, c := range []struct {
		peer *lineReceiver
		spec model.TCP
	}{
		{plain, model.TCP{Address: plain.Addr().String()}},
		{secure, model.TCP{Address: secure.Addr().String(), TLS: true, CA: filepath.Join(dir, "cert.pem")}},
	} {
		if _, err := out.Send(t.Context(), &model.HandlerSpec{TCP: &c.spec}, note.message(t)); err != nil {
			t.Fatal(err)
		}
		if n := receiveFrom(t, "line", c.peer.got); n.Problem != note.Problem || n.Output != note.Output {
			t.Errorf("%+v", n)
		}
	}
	untrusted := model.TCP{Address: secure.Addr().String(), TLS: true}
	if _, err := out.Send(t.Context(), &model.HandlerSpec{TCP: &untrusted}, note.message(t)); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}

// TestUDPDatagramFitsItsLimit sends long notifications by UDP and expects each in one datagram, with its output cut.
func TestUDPDatagramFitsItsLimit(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	testenv.NoError(t, err)
	defer conn.Close()
	out := newTestSender(t, Options{})
	long := *testNotifications()[Opened]
	long.Output = strings.Repeat("ünïcode \" ", 5000)
	huge := long
	huge.Labels = map[string]string{}
	for i := range 64 {
		huge.Labels[fmt.Sprint(i)] = strings.Repeat("l", 255)
	}
	for _, n := range []*Notification{testNotifications()[Opened], &long, &huge} {
		if _, err := out.Send(t.Context(), &model.HandlerSpec{UDP: &model.UDP{Address: conn.LocalAddr().String()}}, n.message(t)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 64<<10)
		testenv.NoError(t, conn.SetReadDeadline(time.Now().Add(maxWait)))
		size, _, err := conn.ReadFrom(buf)
		if err != nil || size > maxDatagram {
			t.Fatal(size, err)
		}
		got, err := Decode(buf[:size])
		if err != nil || got.Problem != n.Problem || len(n.Output) > maxDatagram && !strings.HasSuffix(got.Output, "(cut)") {
			t.Errorf("%v %+v", err, got)
		}
	}
}

// TestStreamKeepsOrderAndReconnects closes the connections of a stream handler, and expects all messages of
// each problem in order. It uses its connections again, and reconnects after the peer has closed.
func TestStreamKeepsOrderAndReconnects(t *testing.T) {
	p := newLineReceiver(t, nil)
	out := newTestSender(t, Options{})
	spec := &model.HandlerSpec{Stream: &model.Stream{Address: p.Addr().String(), Connections: 3}}
	send := func(problem, kind int) {
		n := testNotifications()[Opened]
		n.Problem, n.Count = fmt.Sprint("p", problem), kind
		payload, err := json.Marshal(n)
		if err != nil {
			t.Error(err)
		}
		if _, err := out.Send(t.Context(), spec, &Message{Key: "k", Payload: payload, Note: n}); err != nil {
			t.Error(err)
		}
	}
	var wg sync.WaitGroup
	const problems, each = 40, 25
	for problem := range problems {
		wg.Go(func() {
			for i := range each {
				send(problem, i)
			}
		})
	}
	wg.Wait()
	next := map[string]int{}
	for range problems * each {
		n := receiveFrom(t, "line", p.got)
		if n.Count != next[n.Problem] {
			t.Fatalf("%s: %d came in place of %d", n.Problem, n.Count, next[n.Problem])
		}
		next[n.Problem]++
	}
	if n := p.closeConnections(); n != 3 {
		t.Errorf("%d connections were made", n)
	}
	testenv.Until(t, "the end is noticed", func() bool {
		out.mu.Lock()
		defer out.mu.Unlock()
		for _, c := range out.streams {
			if c.conn.Load() != nil {
				return false
			}
		}
		return true
	})
	send(1, 0)
	receiveFrom(t, "line over a new connection", p.got)
}

// TestUnreadStreamBlocksNoOtherStream connects one receiver that does not read, and expects no delay in streams
// to other receivers. Writes to its own stream wait until they time out.
func TestUnreadStreamBlocksNoOtherStream(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.NoError(t, err)
	defer l.Close()
	out := newTestSender(t, Options{})
	n := testNotifications()[Opened]
	n.Output = strings.Repeat("x", 1<<20)
	spec := &model.HandlerSpec{Stream: &model.Stream{Address: l.Addr().String(), Connections: 1}, Timeout: model.Duration(300 * time.Millisecond)}
	for range 100 { // until the buffers of the connection are full
		if _, err = out.Send(t.Context(), spec, n.message(t)); err != nil {
			break
		}
	}
	if err == nil || IsFinal(err) {
		t.Fatalf("%v", err)
	}
	p := newLineReceiver(t, nil)
	if _, err := out.Send(t.Context(), &model.HandlerSpec{Stream: &model.Stream{Address: p.Addr().String()}}, n.message(t)); err != nil {
		t.Fatal(err)
	}
	receiveFrom(t, "line by another stream", p.got)
}
