//go:build linux

package test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
	"github.com/muster-fleet/muster/test/harness"
)

// hostileAgents is a test fixture with a server, misbehaving agents and one well-behaved agent. The
// well-behaved agent must not be disturbed.
type hostileAgents struct {
	*harness.Server
	t            *testing.T
	certificates func(uuid.UUID) (*tls.Config, error)
}

// newHostileAgents starts a server with n nodes for misbehaving agents.
func newHostileAgents(t *testing.T, nodes int, prepare func(*harness.Server), args ...string) *hostileAgents {
	t.Helper()
	t.Parallel()
	s := harness.NewServer(t, args...)
	s.Plain = "" // agents use TLS in practice
	if prepare != nil {
		prepare(s)
	}
	s.Prepare(harness.Fleet{Agents: nodes, Checks: 2, Interval: time.Minute})
	s.Start()
	certificates := testenv.Value(simulated.Certificates(s.Authority()))(t)
	return &hostileAgents{Server: s, t: t, certificates: certificates}
}

// nodeUID returns the id of the i-th node in the test fleet.
func nodeUID(i int) uuid.UUID { return harness.NodeUID(i) }

// tls returns the TLS configuration of the agent on the i-th node.
func (h *hostileAgents) tls(i int) *tls.Config {
	h.t.Helper()
	cfg := testenv.Value(h.certificates(nodeUID(i)))(h.t)
	return cfg
}

// wellBehavedAgent is a well-behaved agent that shares the server with misbehaving agents. It measures how fast the server
// acknowledges its results.
type wellBehavedAgent struct {
	h       *hostileAgents
	session *link.Session
	cancel  context.CancelFunc
	done    chan struct{}

	mu         sync.Mutex
	definition model.DefinitionID // of its results
	items      model.DefinitionID // of its first Template; zero: none
	text       []byte
	flips      bool                            // each result of a batch has another status
	block      func(n uint64) *wire.ValueBlock // the next block of values, sent instead of results; nil: results
	acked      uint64
	sent       time.Time
	most       time.Duration
	n          int
	wake       chan struct{}
	err        error
}

var neighbourKey = wire.StreamKey{Stream: 4711}

// startWellBehavedAgent starts a well-behaved agent that sends results. It stops at expectFast or at the test's end.
func (h *hostileAgents) startWellBehavedAgent(i int, every time.Duration) *wellBehavedAgent {
	h.t.Helper()
	return h.startWellBehavedAgentAs(nodeUID(i), every)
}

// startWellBehavedAgentAs starts a well-behaved agent for the node with the given id.
func (h *hostileAgents) startWellBehavedAgentAs(uid uuid.UUID, every time.Duration) *wellBehavedAgent {
	h.t.Helper()
	certificate, err := h.certificates(uid)
	testenv.NoError(h.t, err)
	ctx, cancel := context.WithCancel(h.t.Context())
	g := &wellBehavedAgent{h: h, cancel: cancel, done: make(chan struct{}), wake: make(chan struct{}, 1), text: []byte("all is well")}
	cfg := &link.Config{Node: uid, TLS: certificate}
	hello := &wire.Hello{Name: "good", Streams: []wire.StreamRange{{StreamKey: neighbourKey, First: 1}}}
	if g.session, err = link.Open(ctx, cfg, h.Listen, hello, nil, g); err != nil {
		h.t.Fatalf("the good agent: %v", err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		if err := g.session.Read(); err != nil && ctx.Err() == nil {
			g.mu.Lock()
			g.err = err
			g.mu.Unlock()
			g.wakeSender()
		}
	})
	go func() {
		defer close(g.done)
		g.run(ctx, every)
		g.session.Close()
		reading.Wait()
	}()
	h.t.Cleanup(func() { cancel(); <-g.done })
	return g
}

// run sends a result at each interval until ctx ends.
func (g *wellBehavedAgent) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := uint64(0); ; {
		if !g.awaitState(ctx, func() bool { return g.definition != 0 }) {
			return
		}
		g.mu.Lock()
		g.sent = time.Now()
		batch := g.batchLocked(last + 1)
		last += uint64(len(batch.Signals))
		g.mu.Unlock()
		err := g.session.Send(batch)
		if err != nil && ctx.Err() == nil {
			g.mu.Lock()
			g.err = err
			g.mu.Unlock()
			return
		}
		if !g.awaitState(ctx, func() bool { return g.acked >= last }) {
			return
		}
		g.mu.Lock()
		g.most, g.n = max(g.most, time.Since(g.sent)), g.n+1
		g.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// batchLocked returns the next batch to send, with item values or results. The caller holds the lock.
func (g *wellBehavedAgent) batchLocked(first uint64) *wire.Batch {
	if g.block != nil && g.items != 0 {
		block := wire.Signal{Kind: wire.SignalValueBlock, Definition: g.items, Body: wire.AppendValueBlock(nil, g.block(first))}
		return &wire.Batch{StreamKey: neighbourKey, First: first, Signals: []wire.Signal{block}}
	}
	result := func(status model.Status) wire.Signal {
		return wire.ResultSignal(wire.Signal{Definition: g.definition}, wire.Result{Status: status, Output: g.text})
	}
	b := &wire.Batch{StreamKey: neighbourKey, First: first, Signals: []wire.Signal{result(model.OK)}}
	if g.flips {
		b.Signals = append(b.Signals, result(model.Critical), result(model.OK), result(model.Critical))
	}
	return b
}

// flipStatus makes the agent send results whose statuses change each time. Each later batch has four results.
func (g *wellBehavedAgent) flipStatus() {
	g.mu.Lock()
	g.flips = true
	g.mu.Unlock()
}

// sendValues makes the agent send values of items instead of results. The items are in its first Template.
func (g *wellBehavedAgent) sendValues(block func(n uint64) *wire.ValueBlock) {
	g.mu.Lock()
	g.block = block
	g.mu.Unlock()
}

// awaitState waits until the state of the well-behaved agent fulfils a condition. It returns false if ctx has
// ended or sending has failed.
func (g *wellBehavedAgent) awaitState(ctx context.Context, ok func() bool) bool {
	for {
		g.mu.Lock()
		over, is := g.err != nil, ok()
		g.mu.Unlock()
		if is || over {
			return is && !over
		}
		select {
		case <-g.wake:
		case <-ctx.Done():
			return false
		}
	}
}

// startServiceCheck starts a well-behaved agent, and returns a function that checks the server's speed and
// memory. The returned function fails the test unless each of the neighbour's results was acknowledged within a
// time and the server's memory grew by at most so many MiB.
func (h *hostileAgents) startServiceCheck() (unharmed func(within time.Duration, mebibytes int64)) {
	h.t.Helper()
	g, before := h.startWellBehavedAgent(0, 20*time.Millisecond), h.residentBytes()
	return func(within time.Duration, mebibytes int64) {
		h.t.Helper()
		g.expectFast(within)
		grown := h.residentBytes() - before
		assert(h.t, grown <= mebibytes<<20, "the server has %d MiB more than before", grown>>20)
	}
}

// setOutputSize sets the size of the well-behaved agent's outputs in bytes.
func (g *wellBehavedAgent) setOutputSize(n int) {
	g.mu.Lock()
	g.text = bytes.Repeat([]byte("all is well "), n/12)
	g.mu.Unlock()
}

// wakeSender wakes the goroutine that sends results, for example after an acknowledgement.
func (g *wellBehavedAgent) wakeSender() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// expectFast stops the well-behaved agent, and expects that each result was acknowledged within a given time.
func (g *wellBehavedAgent) expectFast(within time.Duration) {
	g.h.t.Helper()
	g.mu.Lock()
	most, n, err, waiting := g.most, g.n, g.err, time.Since(g.sent)
	if g.acked >= uint64(n)+1 {
		waiting = 0
	}
	g.mu.Unlock()
	g.cancel()
	<-g.done
	assert(g.h.t, err == nil && n != 0 && max(most, waiting) <= within,
		"the neighbour: %d results, the slowest acknowledged after %s (now waiting %s), %v", n, most, waiting, err)
	g.h.t.Logf("the good agent: %d results, the slowest acknowledged after %s", n, most)
}

// resetLatency returns the longest acknowledgement time and the number of results, and restarts both from zero.
func (g *wellBehavedAgent) resetLatency() (time.Duration, int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	most, n := g.most, g.n
	g.most, g.n = 0, 0
	return most, n
}

// readLatency returns the longest acknowledgement time and the number of results. Unlike resetLatency, it
// resets nothing.
func (g *wellBehavedAgent) readLatency() (time.Duration, int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.most, g.n
}

// OpenedSession does nothing, because the test agent needs no reaction to the session's start.
func (g *wellBehavedAgent) OpenedSession(*link.Session, *wire.Welcome) {}

// Assigned records the assigned checks and Templates, for which the test agent sends results. The agent sends
// results and values for these.
func (g *wellBehavedAgent) Assigned(_ *link.Session, held *link.Assignment) {
	g.mu.Lock()
	for _, c := range slices.Backward(held.Definitions) {
		if c.AsCheck() != nil {
			g.definition = c.ID
		} else if c.AsTemplate() != nil {
			g.items = c.ID
		}
	}
	g.mu.Unlock()
	g.wakeSender()
}

// Acked records the time between a result's sending and its acknowledgement.
func (g *wellBehavedAgent) Acked(_ *link.Session, ack *wire.Ack) {
	g.mu.Lock()
	for _, l := range ack.Last {
		g.acked = max(g.acked, l.Last)
	}
	g.mu.Unlock()
	g.wakeSender()
}

// RunNow does nothing, because the test agent runs no commands.
func (g *wellBehavedAgent) RunNow(*link.Session, *wire.Run) {}

// RoundRobinRuns does nothing, because the test agent runs no round-robin checks.
func (g *wellBehavedAgent) RoundRobinRuns(*link.Session, *wire.RoundRobinRuns) {}

// Reply does nothing, because the test agent sends no requests.
func (g *wellBehavedAgent) Reply(*link.Session, *wire.Exchange) {}

// BackPressure does nothing, because the test agent needs no back-pressure.
func (g *wellBehavedAgent) BackPressure(*link.Session, *wire.BackPressure) {}

// ServerStops does nothing, because the test agent needs no notice of the server's stop.
func (g *wellBehavedAgent) ServerStops(*link.Session, time.Duration, string) {}

// attacker is a connection on which a test breaks the agent protocol. A test sends arbitrary bytes to the
// server over it.
type attacker struct {
	t testing.TB
	net.Conn
	ws *wsconn.Conn
}

// dialTLS opens a TLS connection to the server as a misbehaving agent. Its error is that of the handshake or, as TLS 1.3
// reports a refused client afterwards, of the first read.
func (h *hostileAgents) dialTLS(cfg *tls.Config) (*attacker, error) {
	nc, err := net.Dial("tcp", h.Listen)
	if err != nil {
		return nil, err
	}
	h.t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(30 * time.Second))
	conn := tls.Client(nc, cfg)
	if err := conn.Handshake(); err != nil {
		return nil, err
	}
	return &attacker{t: h.t, Conn: conn}, nil
}

// openWebSocket opens a WebSocket to the server, over TLS.
func (h *hostileAgents) openWebSocket(cfg *tls.Config) (*attacker, error) {
	e, err := h.dialTLS(cfg)
	if err != nil {
		return nil, err
	}
	e.ws, err = wsconn.Connect(e.Conn, h.Listen, "/agent/v1/session", wire.Subprotocol, wsconn.Options{Timeout: time.Minute, Buffers: new(wsconn.Buffers)})
	return e, err
}

// send sends a message to the server, and ignores connection errors.
func (e *attacker) send(frame []byte) { _ = e.trySend(frame) }

// trySend sends a message to the server, and returns any connection error.
func (e *attacker) trySend(frame []byte) error {
	return e.ws.Write(append(make([]byte, wsconn.Headroom), frame...))
}

// receive reads the next binary message from the server.
func (e *attacker) receive() (wire.Kind, []byte, error) {
	for {
		op, frame, err := e.ws.Read(wire.MaxFrame)
		if err != nil {
			return 0, nil, err
		}
		if op == wsconn.Binary {
			kind, body, err := wire.FrameKind(frame)
			return kind, body, err
		}
	}
}

// sendHello opens a session as the i-th node, and sends its Hello message.
func (h *hostileAgents) sendHello(i int) *attacker {
	h.t.Helper()
	e := testenv.Value(h.openWebSocket(h.tls(i)))(h.t)
	e.send(wire.AppendHello(nil, &wire.Hello{Protocol: wire.Protocol, Node: nodeUID(i), Features: wire.Features(), Streams: []wire.StreamRange{{StreamKey: neighbourKey, First: 1}}}))
	kind, body, err := e.receive()
	require(h.t, err == nil && kind == wire.KindWelcome, "node %d: the server says %d %q, %v", i, kind, body, err)
	return e
}

// readChecks reads the server's messages up to the assignment, and returns the ids of the assigned checks. It returns
// the compiled definitions in the message.
func (e *attacker) readChecks(t *testing.T) (ids []model.DefinitionID) {
	t.Helper()
	for {
		kind, body, err := e.receive()
		testenv.NoError(t, err)
		var a wire.Assignment
		if kind != wire.KindAssignment {
			continue
		}
		testenv.NoError(t, a.Decode(body))
		for i := range a.Add {
			ids = append(ids, a.Add[i].ID)
		}
		return ids
	}
}

// readRefusal reads messages until the Refuse message, and returns the Refuse message.
func (e *attacker) readRefusal() (r wire.Refuse, err error) {
	for {
		kind, body, err := e.receive()
		if err != nil {
			return r, err
		}
		if kind == wire.KindRefuse {
			if err := r.Decode(body); err != nil {
				return r, err
			}
			var closed *wsconn.CloseError
			if _, _, err := e.ws.Read(wire.MaxFrame); !errors.As(err, &closed) {
				return r, err
			}
			return r, nil
		}
	}
}

// encodeRawFrame returns a WebSocket frame with the given header. The header may contradict the payload.
func encodeRawFrame(h ws.Header, payload string) []byte {
	var b bytes.Buffer
	h.Length = max(h.Length, int64(len(payload)))
	_ = ws.WriteHeader(&b, h)
	b.WriteString(payload)
	return b.Bytes()
}

// residentBytes returns the server's resident memory in bytes.
func (h *hostileAgents) residentBytes() int64 {
	return int64(h.Metric("process_resident_memory_bytes"))
}

// exchangeRaw sends raw bytes on a connection and returns the answer.
func exchangeRaw(conn io.ReadWriter, request string) string {
	_, _ = io.WriteString(conn, request)
	text, _ := io.ReadAll(io.LimitReader(conn, 1<<20))
	return strings.ToValidUTF8(string(text), "?")
}

// adminToken returns the administrator's token from the context file.
func adminToken(t *testing.T, s *harness.Server) string {
	t.Helper()
	c, err := client.LoadContext(s.Context)
	require(t, err == nil && c.Token != "", "no token: %v", err)
	return c.Token
}
