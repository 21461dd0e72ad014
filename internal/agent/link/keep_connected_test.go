package link

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// TestMain runs the tests of the package and fails if a goroutine still runs at the end.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scriptedServer is a test server that runs the next function of a list for each connection.
type scriptedServer struct {
	t     *testing.T
	l     net.Listener
	mu    sync.Mutex
	n     int
	steps []func(*serverConn)
	wg    sync.WaitGroup
}

// serverConn is the server's end of one test connection.
type serverConn struct {
	t    *testing.T
	conn *wsconn.Conn
}

// startServer starts a scripted server on a free loopback port.
func startServer(t *testing.T, steps ...func(*serverConn)) *scriptedServer {
	return startServerAt(t, "127.0.0.1:0", steps...)
}

// startServerAt starts a scripted test server at an address. Each connection runs the next function of the list.
func startServerAt(t *testing.T, address string, steps ...func(*serverConn)) *scriptedServer {
	l, err := net.Listen("tcp", address)
	testenv.NoError(t, err)
	s := &scriptedServer{t: t, l: l, steps: steps}
	s.wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			step := s.steps[min(s.n, len(s.steps)-1)]
			s.n++
			s.mu.Unlock()
			s.wg.Go(func() {
				defer nc.Close()
				conn, err := wsconn.Accept(nc, Path, wire.Subprotocol, wsconn.Options{Timeout: time.Minute, Buffers: new(wsconn.Buffers)})
				if errors.Is(err, io.EOF) { // tryServer connects without a session
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				step(&serverConn{t: t, conn: conn})
			})
		}
	})
	t.Cleanup(func() { l.Close(); s.wg.Wait() })
	return s
}

// writeFrame sends one frame to the agent.
func (p *serverConn) writeFrame(frame []byte) {
	_ = p.conn.Write(append(make([]byte, wsconn.Headroom), frame...))
}

// readMessage returns the next message of the agent, or kind 0 if the connection has ended.
func (p *serverConn) readMessage() (wire.Kind, []byte) {
	for {
		op, frame, err := p.conn.Read(wire.MaxFrame)
		if err != nil {
			return 0, nil
		}
		if op == wsconn.Binary {
			kind, body, err := wire.FrameKind(frame)
			if err != nil {
				p.t.Error(err)
			}
			return kind, body
		}
	}
}

// answerHello reads the agent's first message (Hello) and answers with Welcome, which opens the session.
func (p *serverConn) answerHello(w wire.Welcome) wire.Hello {
	var h wire.Hello
	if kind, body := p.readMessage(); kind != wire.KindHello || h.Decode(body) != nil {
		p.t.Errorf("message %d before Hello", kind)
	}
	w.Protocol = wire.Protocol
	if w.Last == nil {
		w.Last = []wire.StreamLast{{StreamKey: testStream}}
	}
	p.writeFrame(wire.AppendWelcome(nil, &w))
	return h
}

// readBatch returns the next batch of the agent, or nil if the connection has ended.
func (p *serverConn) readBatch() *wire.Batch {
	for {
		kind, body := p.readMessage()
		switch kind {
		case 0:
			return nil
		case wire.KindBatch:
			b := new(wire.Batch)
			if err := b.Decode(body); err != nil {
				p.t.Error(err)
			}
			return b
		}
	}
}

// ackBatches calls receive with each batch of the agent and acknowledges the batch, until the session ends.
func (p *serverConn) ackBatches(receive func(*wire.Batch)) {
	for b := p.readBatch(); b != nil; b = p.readBatch() {
		receive(b)
		p.sendAck(b.First + uint64(len(b.Signals)) - 1)
	}
}

// sendAck acknowledges all messages of the agent up to a sequence number.
func (p *serverConn) sendAck(last uint64) {
	p.writeFrame(wire.AppendAck(nil, &wire.Ack{Last: []wire.StreamLast{{StreamKey: testStream, Last: last}}}))
}

var testStream = wire.StreamKey{Stream: 9}

// memorySource is a test's queue of numbered messages such as results, in memory instead of on disk.
type memorySource struct {
	mu              sync.Mutex
	first           uint64 // number of signals[0]
	sent            uint64 // highest given to the link
	signals         []wire.Signal
	urgent          bool
	keepalives      int
	nowMs           uint64 // of the batches
	maxBatchSignals int    // signals in one batch; zero: as many as may be
	notify          chan struct{}
	acked           chan uint64
}

// newMemorySource returns a memorySource without results
func newMemorySource() *memorySource {
	return &memorySource{first: 1, notify: make(chan struct{}, 1), acked: make(chan uint64, 100)}
}

// add adds n results to the messages in memory.
func (s *memorySource) add(n int, urgent bool) {
	s.mu.Lock()
	for range n {
		s.signals = append(s.signals, wire.ResultSignal(wire.Signal{Definition: 1}, wire.Result{}))
	}
	s.urgent = s.urgent || urgent
	s.mu.Unlock()
	pause.Wake(s.notify)
}

// Streams returns the first and last sequence number of the messages in memory.
func (s *memorySource) Streams() []wire.StreamRange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []wire.StreamRange{{StreamKey: testStream, First: s.first, Last: s.first + uint64(len(s.signals)) - 1}}
}

// Backlog returns the number of unacknowledged results
func (s *memorySource) Backlog() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(len(s.signals))
}

// Resume drops the messages in memory that the server already has, at the start of a session.
func (s *memorySource) Resume(last []wire.StreamLast) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = last[0].Last
	s.dropThrough(last[0].Last)
	return nil
}

// dropThrough drops all messages up to a sequence number.
func (s *memorySource) dropThrough(last uint64) {
	for s.first <= last && len(s.signals) > 0 {
		s.first++
		s.signals = s.signals[1:]
	}
}

// Next fills the batch with the next unsent results
func (s *memorySource) Next(b *wire.Batch, _, most int) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := s.signals[max(s.sent+1, s.first)-s.first:]
	if len(wait) == 0 {
		return false, nil
	}
	wait = wait[:min(len(wait), most, cmp.Or(s.maxBatchSignals, most))]
	*b = wire.Batch{StreamKey: testStream, First: s.sent + 1, NowMs: s.nowMs, Signals: wait}
	s.sent += uint64(len(wait))
	s.urgent = false
	return true, nil
}

// Unsent returns the number of unsent messages, and whether an urgent message must be sent immediately.
func (s *memorySource) Unsent() (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.first + uint64(len(s.signals)) - 1 - max(s.sent, s.first-1)), s.urgent
}

// Notify returns the channel that receives a value when a message for the server is added.
func (s *memorySource) Notify() <-chan struct{} { return s.notify }

// Keepalive appends a keepalive message to the queue and counts the keepalives.
func (s *memorySource) Keepalive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepalives++
	s.signals = append(s.signals, wire.Signal{Kind: wire.SignalKeepalive})
	return nil
}

// Acked removes results that the server acknowledged, and reports the last acknowledged sequence number to the
// test.
func (s *memorySource) Acked(ack *wire.Ack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range ack.Last {
		s.dropThrough(l.Last)
		s.acked <- l.Last
	}
}

// ignoredEvents is an implementation of Events for tests that need no notice of events, with empty methods.
type ignoredEvents struct{}

// Connected does nothing, because the test needs no notice of the start of a session.
func (ignoredEvents) Connected(string, *wire.Welcome) {}

// Disconnected does nothing, because the test needs no notice of the end of a session.
func (ignoredEvents) Disconnected(string, error) {}

// Assigned does nothing, because the test runs no checks of an assignment.
func (ignoredEvents) Assigned(*Session, *Assignment) {}

// RunNow does nothing, because the test runs no checks on request.
func (ignoredEvents) RunNow(*Session, *wire.Run) {}

// RoundRobinRuns does nothing, because the test runs no round-robin checks.
func (ignoredEvents) RoundRobinRuns(*Session, *wire.RoundRobinRuns) {}

// Reply does nothing, because the test sends no requests that the server answers.
func (ignoredEvents) Reply(*Session, *wire.Exchange) {}

// startRun starts Run, the loop of sessions, and returns a channel with its final error.
func startRun(t *testing.T, source Source, change func(*RunConfig), servers ...string) chan error {
	cfg := RunConfig{Servers: servers, Hello: func() wire.Hello { return wire.Hello{} }, Linger: 50 * time.Millisecond,
		Backoff: Backoff{First: 5 * time.Millisecond, Max: 20 * time.Millisecond}}
	if change != nil {
		change(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { end <- Run(ctx, cfg, source, ignoredEvents{}) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return end
}

// waitAck waits until the server has acknowledged all messages up to the given sequence number.
func (s *memorySource) waitAck(t *testing.T, want uint64) {
	t.Helper()
	for last := uint64(0); last < want; {
		select {
		case last = <-s.acked:
		case <-time.After(time.Minute):
			t.Fatalf("no acknowledgement of %d within a minute", want)
		}
	}
}

// TestOrdinaryResultsWaitAndShareOneBatch expects ordinary results to share one batch, and urgent results to leave
// immediately.
func TestOrdinaryResultsWaitAndShareOneBatch(t *testing.T) {
	got := make(chan *wire.Batch, 10)
	s := startServer(t, func(p *serverConn) {
		p.answerHello(wire.Welcome{})
		p.ackBatches(func(b *wire.Batch) { got <- b })
	})
	source := newMemorySource()
	startRun(t, source, func(c *RunConfig) { c.Linger = time.Second }, s.l.Addr().String())
	for range 3 {
		source.add(1, false)
	}
	if b := <-got; len(b.Signals) != 3 {
		t.Fatalf("first frame has %d signals, want all three", len(b.Signals))
	}
	source.waitAck(t, 3)
	start := time.Now()
	source.add(1, true)
	<-got
	if took := time.Since(start); took > 900*time.Millisecond {
		t.Fatalf("a change of status left after %v", took)
	}
}

// TestBatchKeepsTimesFromBeforeReboot expects a batch to carry the spool's clock or the boot clock, whichever
// is later. A batch with a signal from before a reboot has a later clock.
func TestBatchKeepsTimesFromBeforeReboot(t *testing.T) {
	for nowMs, want := range map[uint64]uint64{3_600_000: 3_600_000, 4000: 5000} {
		got := make(chan *wire.Batch, 1)
		s := startServer(t, func(p *serverConn) {
			p.answerHello(wire.Welcome{})
			got <- p.readBatch()
		})
		source := newMemorySource()
		source.nowMs = nowMs
		source.add(1, true)
		startRun(t, source, func(c *RunConfig) { c.BootMs = func() uint64 { return 5000 } }, s.l.Addr().String())
		if b := <-got; b == nil || b.NowMs != want {
			t.Errorf("batch with time %d: %+v, want %d", nowMs, b, want)
		}
	}
}

// TestUnacknowledgedBatchesAreResent closes a connection before the acknowledgement and expects the unacknowledged
// results again in the next session
func TestUnacknowledgedBatchesAreResent(t *testing.T) {
	s := startServer(t,
		func(p *serverConn) { // receives three signals and ends the session without an acknowledgement
			p.answerHello(wire.Welcome{})
			p.readBatch()
		},
		func(p *serverConn) { // the server has stored two of the three signals
			h := p.answerHello(wire.Welcome{Last: []wire.StreamLast{{StreamKey: testStream, Last: 2}}})
			if h.Backlog != 3 || h.Streams[0].Last != 3 {
				t.Errorf("hello %+v", h)
			}
			if b := p.readBatch(); b == nil || b.First != 3 || len(b.Signals) != 1 {
				t.Errorf("sent again %+v", b)
			}
			p.sendAck(3)
			p.readBatch()
		})
	source := newMemorySource()
	source.add(3, true)
	startRun(t, source, nil, s.l.Addr().String())
	source.waitAck(t, 3)
}

// TestOutputLongerThanAFrameIsCut sends a result above the server's maximum size, and expects a shortened result. The
// next result must be unchanged.
func TestOutputLongerThanAFrameIsCut(t *testing.T) {
	got := make(chan wire.Signal, 10)
	s := startServer(t, func(p *serverConn) {
		p.answerHello(wire.Welcome{MaxFrame: 4096})
		p.ackBatches(func(b *wire.Batch) {
			b.Signals[0].Body = bytes.Clone(b.Signals[0].Body)
			got <- b.Signals[0]
		})
	})
	source := newMemorySource()
	source.maxBatchSignals = 1
	source.add(2, true)
	source.signals[0] = wire.ResultSignal(source.signals[0], wire.Result{Output: bytes.Repeat([]byte("ä"), 5000)})
	startRun(t, source, nil, s.l.Addr().String())
	source.waitAck(t, 2)
	signal := <-got
	first, err := signal.Result()
	if n := len(first.Output); err != nil || n < 3000 || n > 4096 || !utf8.Valid(first.Output) || uint64(n)+first.Cut != 10_000 {
		t.Fatalf("%d bytes arrived, %d cut", n, first.Cut)
	}
	signal = <-got
	if second, err := signal.Result(); err != nil || second.Cut != 0 {
		t.Fatalf("%+v, %v", second, err)
	}
}

// TestAgentTriesTheNextServerAfterAnUnreachableOne lists an unreachable server first and expects a session at the
// second.
func TestAgentTriesTheNextServerAfterAnUnreachableOne(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.NoError(t, err)
	dead.Close()
	s := startServer(t, func(p *serverConn) {
		p.answerHello(wire.Welcome{})
		p.readBatch()
		p.sendAck(1)
		p.readBatch()
	})
	source := newMemorySource()
	source.add(1, true)
	startRun(t, source, nil, dead.Addr().String(), s.l.Addr().String())
	source.waitAck(t, 1)
}

// TestRefusalWithoutRetryEndsRun refuses a session without a retry time and expects Run to end with the server's
// reason.
func TestRefusalWithoutRetryEndsRun(t *testing.T) {
	s := startServer(t, func(p *serverConn) {
		p.readMessage()
		p.writeFrame(wire.AppendRefuse(nil, &wire.Refuse{Code: "identity", Message: "not you", Hint: "enrol"}))
		p.readMessage()
	})
	err := <-startRun(t, newMemorySource(), nil, s.l.Addr().String())
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Code != "identity" {
		t.Fatalf("Run ended with %v", err)
	}
}

// TestSilentSessionSendsKeepalives expects keepalive messages in a session without results.
func TestSilentSessionSendsKeepalives(t *testing.T) {
	s := startServer(t, func(p *serverConn) {
		p.answerHello(wire.Welcome{KeepaliveMs: 30})
		p.ackBatches(func(b *wire.Batch) {
			if b.Signals[0].Kind != wire.SignalKeepalive {
				t.Errorf("signal %+v", b.Signals[0])
			}
		})
	})
	source := newMemorySource()
	startRun(t, source, nil, s.l.Addr().String())
	source.waitAck(t, 3)
}

// TestFullWindowWaitsForAcknowledgement limits the unacknowledged bytes to one batch, and expects the second batch
// only after an acknowledgement.
func TestFullWindowWaitsForAcknowledgement(t *testing.T) {
	step := make(chan struct{})
	s := startServer(t, func(p *serverConn) {
		p.answerHello(wire.Welcome{MaxUnacked: 1})
		p.readBatch()
		<-step // the second one cannot be under way
		p.sendAck(1)
		p.readBatch()
		p.sendAck(2)
		p.readBatch()
	})
	source := newMemorySource()
	startRun(t, source, nil, s.l.Addr().String())
	source.add(1, true)
	testenv.Until(t, "the first is sent", func() bool { n, _ := source.Unsent(); return n == 0 })
	source.add(1, true)
	close(step)
	source.waitAck(t, 2)
}

// TestBackoffGrowsAndHonoursTheServersRetry expects delays between connection attempts to double up to a maximum. No
// delay is shorter than the server's RetryMs.
func TestBackoffGrowsAndHonoursTheServersRetry(t *testing.T) {
	b := Backoff{First: time.Second, Max: time.Minute}
	for _, c := range []struct {
		err    error
		n      int
		random float64
		want   time.Duration
		give   bool
	}{
		{io.EOF, 0, 0.5, 500 * time.Millisecond, false},
		{io.EOF, 3, 0.5, 4 * time.Second, false},
		{io.EOF, 10, 0.5, 30 * time.Second, false},
		{io.EOF, 1000, 0.999, 59940 * time.Millisecond, false},
		{&RefusedError{wire.Refuse{RetryMs: 5000}}, 0, 0, 5 * time.Second, false},
		{&RefusedError{wire.Refuse{}}, 0, 0, 0, true},
		{fmt.Errorf("read: %w", &ServerStoppingError{Retry: 7 * time.Second}), 0, 0, 7 * time.Second, false},
	} {
		if wait, give := b.delayAfter(c.err, c.n, c.random); wait != c.want || give != c.give {
			t.Errorf("%v after %d: %v %v, want %v %v", c.err, c.n, wait, give, c.want, c.give)
		}
	}
}

// TestDialerSendsCredentialsToTheProxyAndHonoursNoProxy dials through a proxy with a password, and expects direct
// connections to hosts in NO_PROXY.
func TestDialerSendsCredentialsToTheProxyAndHonoursNoProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.NoError(t, err)
	asked := make(chan *http.Request, 2)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			r, err := http.ReadRequest(bufio.NewReader(nc))
			if err != nil {
				t.Error(err)
			}
			asked <- r
			answer := "HTTP/1.1 200 OK\r\n\r\nhello"
			if r.Header.Get("Proxy-Authorization") == "" {
				answer = "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
			}
			_, _ = io.WriteString(nc, answer)
			nc.Close()
		}
	})
	defer wg.Wait()
	defer l.Close()
	env := func(user string) func(string) string {
		return func(name string) string {
			return map[string]string{"HTTPS_PROXY": "http://" + user + l.Addr().String(), "NO_PROXY": "direct.example"}[name]
		}
	}
	nc, err := NewDialer(env("me:secret@"))(t.Context(), "tcp", "muster.example:8443")
	testenv.NoError(t, err)
	nc.Close()
	if r := <-asked; r.Method != "CONNECT" || r.Host != "muster.example:8443" || r.Header.Get("Proxy-Authorization") != "Basic bWU6c2VjcmV0" {
		t.Fatalf("asked the proxy %+v", r)
	}
	if _, err := NewDialer(env(""))(t.Context(), "tcp", "muster.example:8443"); err == nil || !strings.Contains(err.Error(), "407") {
		t.Fatalf("without credentials: %v", err)
	}
	// Not through the proxy: the name does not resolve.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	<-asked
	_, _ = NewDialer(env(""))(ctx, "tcp", "direct.example:1")
	if len(asked) != 0 {
		t.Fatal("NO_PROXY is not honoured")
	}
}

// TestStatsAreSentSoonAfterEachSessionOpens expects a Stats message (the agent's counters) soon after each session
// opens. The byte counters do not restart at zero.
func TestStatsAreSentSoonAfterEachSessionOpens(t *testing.T) {
	received := make(chan wire.Stats, 100)
	s := startServer(t, func(p *serverConn) {
		p.answerHello(wire.Welcome{})
		kind, body := p.readMessage()
		for kind != 0 && kind != wire.KindStats {
			kind, body = p.readMessage()
		}
		var x wire.Stats
		if err := x.Decode(body); kind != 0 && err != nil {
			p.t.Error(err)
		} else if kind != 0 {
			received <- x // then the server ends the session: the next one sends Stats again
		}
	})
	startRun(t, newMemorySource(), func(c *RunConfig) {
		c.Rand = func() float64 { return 0 }
		c.Stats = func() wire.Stats { return wire.Stats{Runs: 7} }
	}, s.l.Addr().String())
	first, second := <-received, <-received
	if first.Runs != 7 || first.BytesSent == 0 || second.BytesSent <= first.BytesSent {
		t.Errorf("received %+v, then %+v", first, second)
	}
}

// TestLaterStatsAreSentTogetherWithABatch expects the first Stats message (the agent's counters) after some seconds,
// and later messages only with batches. Each later message leaves together with a batch of results.
func TestLaterStatsAreSentTogetherWithABatch(t *testing.T) {
	r := &sessionRunner{cfg: RunConfig{Rand: func() float64 { return 0.5 }}}
	opened := time.Now()
	first := r.newStatsSchedule(opened) // due after 2.5 s
	later := statsSchedule{at: opened.Add(time.Minute)}
	for _, c := range []struct {
		stats     statsSchedule
		at        time.Duration
		batchSent bool
		due       bool
	}{
		{first, 2 * time.Second, true, false}, {first, 3 * time.Second, false, true},
		{later, 59 * time.Second, true, false}, {later, 61 * time.Second, false, false},
		{later, 5 * time.Minute, false, false}, {later, 61 * time.Second, true, true},
	} {
		if got := c.stats.due(opened.Add(c.at), c.batchSent); got != c.due {
			t.Errorf("due after %s with batchSent %v: got %v", c.at, c.batchSent, got)
		}
	}
	tick := opened.Add(time.Hour)
	if got := first.wakeTime(tick).Sub(opened); got != 2500*time.Millisecond {
		t.Errorf("the first Stats wake the link after %s, want 2.5s", got)
	}
	if got := later.wakeTime(tick); got != tick {
		t.Errorf("later Stats wake the link after %s, want no wake-up", got.Sub(opened))
	}
}
