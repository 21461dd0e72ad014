package muster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// TestResultsOfForeignDefinitionsAreRefused sends results of former checks, other namespaces' checks and
// built-in checks, and expects only the former accepted. Foreign are checks of another namespace and the
// server's built-in checks.
func TestResultsOfForeignDefinitionsAreRefused(t *testing.T) {
	w := newTestServer(t, nil)
	define := func(id model.DefinitionID, check model.CheckID, namespace model.NamespaceID) {
		w.plan.mu.Lock()
		w.plan.definitions[id] = (&model.CheckDefinition{Definition: model.Definition{ID: id, Unit: check, Namespace: namespace}}).ToDefinition()
		w.plan.mu.Unlock()
	}
	define(2, model.FirstCheck+1, model.DefaultNamespace)
	define(3, model.FirstCheck+2, model.SharedNamespace)
	define(4, model.FirstCheck+3, 77)
	keepalive := model.BuiltinDefinitionID(model.KeepaliveCheck)
	define(keepalive, model.KeepaliveCheck, model.DefaultNamespace)
	a := w.openAgent(w.addNode(1, 1))
	b := resultBatch(1, 5, 1)
	for i, id := range []model.DefinitionID{1, 2, 3, 4, keepalive} {
		b.Signals[i].Definition = id
	}
	a.send(b)
	a.waitAck(5)
	a.expectRefused("4 unknown_definition", "5 unknown_definition")
}

// TestLostResultsAreChargedPerCheck reports lost results of 120 checks, and expects the rate limit to count one result
// each. The message (a gap) says that the agent has dropped results. The charge is to the rate limit.
func TestLostResultsAreChargedPerCheck(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.Limits.NodeResultsPerSec, c.Limits.RateBurst = 100, time.Second })
	a := w.openAgent(w.addNode(1, 1))
	a.send(&wire.Batch{StreamKey: liveStream, First: 1, Gap: &wire.Gap{Last: 1, Counts: make([]wire.GapCount, 120)}})
	testenv.Until(w.t, "the node is throttled", func() bool { return w.countMetric("throttled_total", "node") > 0 })
}

// TestBytesOfResultsAndFactsAreCharged checks that the bytes of results and facts count against the byte rate limit.
func TestBytesOfResultsAndFactsAreCharged(t *testing.T) {
	for name, frame := range map[string][]byte{
		"results": wire.AppendBatch(nil, &wire.Batch{StreamKey: liveStream, First: 1, Signals: []wire.Signal{
			wire.ResultSignal(wire.Signal{Definition: 1}, wire.Result{Output: make([]byte, 3000)})}}),
		"facts": wire.AppendFacts(nil, &wire.Facts{Facts: map[string]string{"text": strings.Repeat("x", 3000)}}),
	} {
		w := newTestServer(t, func(c *Config) { c.Limits.RateBurst = time.Second })
		w.nodes.setLimits(model.DefaultNamespace, core.NamespaceLimits{NodeBytesPerSec: 2000})
		w.openRaw(w.addNode(1, 1)).writeFrame(frame)
		testenv.Until(w.t, "the node is throttled for its "+name, func() bool { return w.countMetric("throttled_total", "node_bytes") > 0 })
	}
}

// rawClient is a test client that can write any bytes, even invalid frames, to the server.
type rawClient struct {
	*wsconn.Conn
	t testing.TB
}

// rawClient connects a client that can write arbitrary bytes.
func (w *testServer) rawClient(nc net.Conn) *rawClient {
	w.t.Helper()
	conn := testenv.Value(wsconn.Connect(nc, w.addr, Path, wire.Subprotocol, wsconn.Options{Timeout: time.Minute, Buffers: new(wsconn.Buffers)}))(w.t)
	w.t.Cleanup(func() { conn.Close() })
	return &rawClient{conn, w.t}
}

// dial opens a TCP connection to the test server.
func (w *testServer) dial() net.Conn {
	w.t.Helper()
	nc := testenv.Value(net.Dial("tcp", w.addr))(w.t)
	return nc
}

// openRaw opens a session with a test client that can then write any bytes.
func (w *testServer) openRaw(uid uuid.UUID) *rawClient {
	w.t.Helper()
	f := w.rawClient(w.dial())
	f.writeFrame(wire.AppendHello(nil, &wire.Hello{Protocol: wire.Protocol, Node: uid, Features: wire.Features(), Streams: []wire.StreamRange{{StreamKey: liveStream, First: 1}}}))
	if kind, _ := f.readMessage(); kind != wire.KindWelcome {
		w.t.Fatalf("server says %d, want Welcome", kind)
	}
	return f
}

// writeFrame sends a message in one WebSocket frame.
func (f *rawClient) writeFrame(frame []byte) {
	f.t.Helper()
	testenv.NoError(f.t, f.Write(append(make([]byte, wsconn.Headroom), frame...)))
}

// writeBytes writes raw bytes to the TCP connection.
func (f *rawClient) writeBytes(b []byte) { _, _ = f.NetConn().Write(b) }

// readMessage reads the next message of the server.
func (f *rawClient) readMessage() (wire.Kind, []byte) {
	f.t.Helper()
	_ = f.NetConn().SetReadDeadline(time.Now().Add(20 * time.Second))
	for {
		op, frame, err := f.Read(wire.MaxFrame)
		if err != nil {
			f.t.Fatalf("server says nothing: %v", err)
		}
		if op != wsconn.Binary {
			continue
		}
		kind, body, err := wire.FrameKind(frame)
		testenv.NoError(f.t, err)
		return kind, body
	}
}

// refusal reads messages until the connection closes, and returns the server's Refuse message. It also returns the
// code of the close frame.
func (f *rawClient) refusal() (r wire.Refuse, code uint16) {
	f.t.Helper()
	kind, body := f.readMessage()
	for kind != wire.KindRefuse {
		kind, body = f.readMessage()
	}
	testenv.NoError(f.t, r.Decode(body))
	_, _, err := f.Read(wire.MaxFrame)
	var closed *wsconn.CloseError
	if !errors.As(err, &closed) {
		f.t.Fatalf("after Refuse: %v", err)
	}
	return r, closed.Code
}

// encodeFrame returns a WebSocket frame with the given header and payload, masked with zeroes.
func encodeFrame(h ws.Header, payload string) []byte {
	var b bytes.Buffer
	h.Length = max(h.Length, int64(len(payload)))
	_ = ws.WriteHeader(&b, h)
	b.WriteString(payload)
	return b.Bytes()
}

// A protocol error ends its session with a reason for the client. It may come before or after Hello. Other sessions go
// on.
func TestProtocolErrorsGetAReason(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.Limits.FrameBytes = 300 << 10 })
	other := w.openAgent(w.addNode(1, 1))
	masked := ws.Header{Fin: true, Masked: true, OpCode: ws.OpBinary}
	with := func(change func(*ws.Header)) ws.Header { h := masked; change(&h); return h }
	for i, c := range []struct {
		name  string
		bytes []byte
		code  string
		close uint16
	}{
		{"text", encodeFrame(with(func(h *ws.Header) { h.OpCode = ws.OpText }), "hello"), "websocket", 1002},
		{"a fragment", encodeFrame(with(func(h *ws.Header) { h.Fin = false }), "x"), "websocket", 1002},
		{"the rest of a fragment", encodeFrame(with(func(h *ws.Header) { h.OpCode = ws.OpContinuation }), "x"), "websocket", 1002},
		{"not masked", encodeFrame(with(func(h *ws.Header) { h.Masked = false }), "x"), "websocket", 1002},
		{"compressed", encodeFrame(with(func(h *ws.Header) { h.Rsv = ws.Rsv(true, false, false) }), "x"), "websocket", 1002},
		{"a kind that is not", encodeFrame(with(func(h *ws.Header) { h.OpCode = 0x5 }), "x"), "websocket", 1002},
		{"a long ping", encodeFrame(with(func(h *ws.Header) { h.OpCode = ws.OpPing; h.Length = 200 }), ""), "websocket", 1002},
		{"a length beyond all", append([]byte{0x82, 0xff}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0), "websocket", 1002},
		{"too large", encodeFrame(with(func(h *ws.Header) { h.Length = 1 << 40 }), "x"), "too_large", 1009},
		{"too large and sent", encodeFrame(masked, strings.Repeat("x", 4<<20)), "too_large", 1009},
		{"no protobuf", encodeFrame(masked, "\xff\xff\xff"), "malformed", 1008},
		{"an empty frame", encodeFrame(masked, ""), "malformed", 1008},
		{"a malformed signal", encodeFrame(masked, "\x32\x02\x32\x70"), "malformed", 1008},
		{"a batch cut short", encodeFrame(masked, "\x32\x03\x32\x7f\x00"), "malformed", 1008},
	} {
		for _, when := range []string{"before Hello", "in a session"} {
			t.Run(c.name+" "+when, func(t *testing.T) {
				var f *rawClient
				before := w.countMetric("handshakes_total", c.code) + w.countMetric("ended_total", c.code)
				if when == "before Hello" {
					f = w.rawClient(w.dial())
				} else {
					f = w.openRaw(w.addNode(100+i, 1))
				}
				f.t = t
				f.writeBytes(c.bytes)
				r, code := f.refusal()
				if r.Code != c.code || code != c.close || r.Message == "" || r.RetryMs == 0 && c.code != "malformed" {
					t.Errorf("refusal %+v, close code %d", r, code)
				}
				testenv.Until(t, "it is counted", func() bool {
					return w.countMetric("handshakes_total", c.code)+w.countMetric("ended_total", c.code) == before+1
				})
			})
		}
	}
	other.send(resultBatch(1, 3, 1))
	other.waitAck(3)
	testenv.Until(t, "only the other session is open", func() bool { return w.server.Sessions() == 1 })
	w.checkOutcomes()
}

// TestPeersThatDoNotReadDelayNoSession connects many clients that do not read, and expects no delay of other
// sessions. Acknowledgements and assignments arrive even if such peers outnumber the writer goroutines.
func TestPeersThatDoNotReadDelayNoSession(t *testing.T) {
	w := newTestServer(t, nil)
	large := &model.CheckDefinition{Definition: model.Definition{ID: 5, Unit: model.FirstCheck, Namespace: 1}, Command: &model.Command{Shell: randomText(200 << 10)}}
	large.Hash = wire.DefinitionHash(wire.AppendDefinition(nil, large.ToDefinition()))
	w.plan.definitions[5] = &large.Definition
	for id := model.DefinitionID(6); id < 9; id++ {
		more := *large
		more.ID, more.Command = id, &model.Command{Shell: randomText(200<<10 + int(id))}
		more.Hash = wire.DefinitionHash(wire.AppendDefinition(nil, more.ToDefinition()))
		w.plan.definitions[id] = &more.Definition
	}
	good := w.openAgent(w.addNode(1, 1))
	good.waitAssignment(1)
	var foes []*rawClient
	// More of them than there are writers of either kind.
	for i := range 12 {
		nc := testenv.Value((&net.Dialer{Control: shrinkReceiveBuffer}).Dial("tcp", w.addr))(t)
		f := w.rawClient(nc)
		f.writeFrame(wire.AppendHello(nil, &wire.Hello{Protocol: wire.Protocol, Node: w.addNode(100+i, 5, 6, 7, 8), Features: wire.Features()}))
		foes = append(foes, f)
	}
	// The kernel buffers two megabytes for a peer that does not read. A peer that confirms another hash is sent the
	// whole assignment again.
	testenv.Until(t, "writers are stuck", func() bool {
		for _, f := range foes {
			f.writeBytes(encodeFrame(ws.Header{Fin: true, Masked: true, OpCode: ws.OpBinary}, string(wire.AppendAssignmentStatus(nil, &wire.AssignmentStatus{Hash: [32]byte{7}}))))
		}
		return testutil.ToFloat64(w.server.metrics.Stuck) >= pushWriters+1
	})
	began := time.Now()
	good.send(resultBatch(1, 1, 1))
	good.waitAck(1)
	w.plan.assign(1001, w.plan.AssignmentOf(1001).UID, 1, 2)
	w.plan.notify(directory.Change{Assignments: []model.NodeID{1001}})
	good.waitAssignment(2)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("acknowledgement and assignment took %s", took)
	}
}

// randomText returns a random text that compression cannot shorten.
func randomText(n int) string {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range b {
		b[i] = byte('!' + r.UintN(90))
	}
	return string(b)
}

// shrinkReceiveBuffer makes a socket's receive buffer small (2 KiB), so that the sender soon has to wait.
func shrinkReceiveBuffer(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 2048) })
}

// TestRepeatedHellosAreLimited sends Hello messages of one node too often, and expects the node to wait. Other
// nodes need not wait.
func TestRepeatedHellosAreLimited(t *testing.T) {
	w := newTestServer(t, nil)
	uid := w.addNode(1, 1)
	limited := 0
	for range 30 {
		f := w.rawClient(w.dial())
		f.writeFrame(wire.AppendHello(nil, &wire.Hello{Protocol: wire.Protocol, Node: uid}))
		if kind, body := f.readMessage(); kind == wire.KindRefuse {
			var r wire.Refuse
			if err := r.Decode(body); err != nil || r.Code != "limited" || r.RetryMs < 1000 {
				t.Fatalf("%+v %v", r, err)
			}
			limited++
		}
		f.Close()
	}
	if limited < 8 || limited > 11 {
		t.Errorf("%d of 30 Hellos were refused", limited)
	}
	w.openAgent(w.addNode(2, 1)).send(resultBatch(1, 1, 1))
}

// TestConnectionsAndHellosOfANodeAreLimited expects separate limits per node for connections and Hello
// messages.
func TestConnectionsAndHellosOfANodeAreLimited(t *testing.T) {
	var a arrivalLimits
	now := int64(1)
	come := func(n model.NodeID) bool { return a.countHello(n, now) == 0 }
	for i := range 20 {
		if !come(1) {
			t.Fatalf("Hello %d must wait", i)
		}
	}
	if come(1) || !come(2) {
		t.Error("the 21st, or another's first")
	}
	if now += int64(3 * time.Second); !come(1) || come(1) {
		t.Error("one every three seconds")
	}
	if now += int64(10 * time.Minute); !come(3) || len(a.hellos) != 1 {
		t.Errorf("%d nodes are remembered", len(a.hellos))
	}
	uid, var4 := uuid.New(), 0
	var leaves []func()
	for range 10 {
		if leave, ok := a.countOpening(uid); ok {
			leaves, var4 = append(leaves, leave), var4+1
		}
	}
	if _, ok := a.countOpening(uuid.New()); var4 != maxOpeningConns || !ok {
		t.Errorf("%d at once", var4)
	}
	for _, leave := range leaves {
		leave()
	}
	if len(a.opening) != 1 {
		t.Errorf("%d are remembered", len(a.opening))
	}
}

// Pings, repeated batches and messages of unknown kinds count against the node's rate limit.
func TestEveryMessageIsCharged(t *testing.T) {
	for name, message := range map[string][]byte{
		"pings":              encodeFrame(ws.Header{Fin: true, Masked: true, OpCode: ws.OpPing}, strings.Repeat("x", 125)),
		"repetitions":        encodeFrame(ws.Header{Fin: true, Masked: true, OpCode: ws.OpBinary}, string(wire.AppendBatch(nil, resultBatch(1, 1, 1)))),
		"holding":            encodeFrame(ws.Header{Fin: true, Masked: true, OpCode: ws.OpBinary}, string(wire.AppendAssignmentStatus(nil, &wire.AssignmentStatus{Hash: [32]byte{7}}))),
		"of a later version": encodeFrame(ws.Header{Fin: true, Masked: true, OpCode: ws.OpBinary}, "\x7a\x00"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestServer(t, func(c *Config) { c.Limits.NodeResultsPerSec, c.Limits.RateBurst = 50, time.Second })
			f := w.openRaw(w.addNode(1, 1))
			go func() { _, _ = io.Copy(io.Discard, f.NetConn()) }()
			f.writeBytes(bytes.Repeat(message, 100))
			testenv.Until(t, "it waits", func() bool { return w.countMetric("throttled_total", "node") > 0 })
		})
	}
}

// FuzzFrame sends random messages to a session, and expects the session to handle or refuse each. Each has an outcome,
// and the journal gets only entries that can be decoded.
func FuzzFrame(f *testing.F) {
	f.Add(wire.AppendBatch(nil, resultBatch(1, 3, 1)), wire.AppendBatch(nil, resultBatch(4, 1, 9)))
	f.Add(wire.AppendBatch(nil, &wire.Batch{StreamKey: liveStream, First: 1, Gap: &wire.Gap{Last: 9, Reason: "full"}}), wire.AppendBatch(nil, resultBatch(10, 1, 1)))
	f.Add(wire.AppendAssignmentStatus(nil, &wire.AssignmentStatus{Hash: [32]byte{1}}), wire.AppendBye(nil, &wire.Bye{Reason: "stop"}))
	f.Add([]byte{0x32, 0x04, 0x32, 0x02, 0xff, 0xff}, []byte{})
	w := newTestServer(f, nil)
	uid := w.addNode(1, 1, 2)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		hello := &wire.Hello{Protocol: wire.Protocol, Node: uid, Streams: []wire.StreamRange{{StreamKey: liveStream}}}
		x, refusal := w.server.admitAgent(nil, hello, Proof{})
		if refusal != nil {
			t.Fatal(refusal)
		}
		x.streams = joinStreams(hello.Streams, nil)
		// No writer takes the session, so its duties stay.
		x.BlockWriters()
		for _, message := range [][]byte{first, second} {
			if out := x.handleFrame(message); out >= outcomes {
				t.Fatalf("outcome %d", out)
			}
		}
	})
}

// Each received message of an agent is counted in the metrics, with one outcome such as kept. The number of received
// messages is the sum of all outcomes.
func TestEveryMessageHasOneOutcome(t *testing.T) {
	const unackedBytes = 1000
	ways := map[frameOutcome]func(w *testServer, a *testAgent, node uuid.UUID){
		batchKept: func(_ *testServer, a *testAgent, _ uuid.UUID) { a.send(resultBatch(1, 1, 1)) },
		batchRepeated: func(_ *testServer, a *testAgent, _ uuid.UUID) {
			a.send(resultBatch(1, 1, 1))
			a.send(resultBatch(1, 1, 1))
		},
		numbersMissing: func(_ *testServer, a *testAgent, _ uuid.UUID) { a.send(resultBatch(3, 1, 1)) },
		frameMalformed: func(_ *testServer, a *testAgent, _ uuid.UUID) { sendRaw(a, wire.AppendHello(nil, &wire.Hello{})) },
		batchOversized: func(_ *testServer, a *testAgent, _ uuid.UUID) { a.send(resultBatch(1, 11, 1)) },
		tooManyStreams: func(_ *testServer, a *testAgent, _ uuid.UUID) {
			for i := range maxStreams {
				b := resultBatch(1, 1, 1)
				b.Stream = wire.StreamID(100 + i)
				a.send(b)
				a.wait("kept, or the end", func() bool { return a.acks[b.StreamKey] == 1 || a.hasEnded })
			}
		},
		journalRefused: func(w *testServer, a *testAgent, _ uuid.UUID) {
			w.journal.update(func() { w.journal.refusesAppends = true })
			a.send(resultBatch(1, 1, 1))
		},
		serverStalled: func(w *testServer, a *testAgent, _ uuid.UUID) {
			now := time.Now()
			w.stalled.Store(&now)
			a.send(resultBatch(1, 1, 1))
		},
		sessionDisplaced: func(w *testServer, a *testAgent, node uuid.UUID) {
			w.journal.pauseCommits(true)
			testenv.Until(w.t, "its assignment is confirmed", func() bool { return testutil.ToFloat64(w.server.metrics.frames[assignmentConfirmed]) == 1 })
			// The server counts in steps of 64 bytes, the agent does not: so the agent may
			// send one more than the server takes before something is acknowledged.
			for i := range unackedBytes/128 + 1 {
				a.send(resultBatch(uint64(i*3+1), 3, 1))
			}
			testenv.Until(w.t, "the reader waits", func() bool {
				return w.server.registry.Len() == 1 && testutil.ToFloat64(w.server.metrics.Received) == 1+unackedBytes/128+1
			})
			opened := make(chan error, 1)
			go func() {
				_, err := w.openSession(node, nil)
				opened <- err
			}()
			testenv.Until(w.t, "the older session is over", func() bool { return testutil.ToFloat64(w.server.metrics.frames[sessionDisplaced]) == 1 })
			w.journal.pauseCommits(false)
			if err := <-opened; err != nil {
				t.Error(err)
			}
		},
		assignmentConfirmed: func(*testServer, *testAgent, uuid.UUID) {}, // the answer to its first assignment
		agentLeaves:         func(_ *testServer, a *testAgent, _ uuid.UUID) { sendRaw(a, wire.AppendBye(nil, &wire.Bye{})) },
		agentStats: func(_ *testServer, a *testAgent, _ uuid.UUID) {
			sendRaw(a, wire.AppendStats(nil, &wire.Stats{Runs: 1}))
		},
		requestTooSoon: func(_ *testServer, a *testAgent, _ uuid.UUID) {
			sendRaw(a, wire.AppendStats(nil, &wire.Stats{Runs: 1}))
			sendRaw(a, wire.AppendStats(nil, &wire.Stats{Runs: 2}))
		},
		runAnswered: func(w *testServer, a *testAgent, _ uuid.UUID) {
			testenv.NoError(w.t, w.requestRun(1001, 1))
			a.wait("the run", func() bool { return len(a.runs) == 1 })
			sendRaw(a, wire.AppendRunOutput(nil, &wire.RunOutput{ID: a.runs[0].ID, Last: true}))
		},
		answerUnrequested: func(_ *testServer, a *testAgent, _ uuid.UUID) {
			sendRaw(a, wire.AppendRunOutput(nil, &wire.RunOutput{ID: 1, Last: true}))
		},
		factsChanged: func(_ *testServer, a *testAgent, _ uuid.UUID) {
			sendRaw(a, wire.AppendFacts(nil, &wire.Facts{Facts: map[string]string{"kernel": "6.12"}}))
		},
		secretsRequested: func(w *testServer, a *testAgent, _ uuid.UUID) {
			w.server.registry.Get(1001).proven.Store(true)
			sendRaw(a, wire.AppendExchange(nil, &wire.Exchange{ID: 1, SecretsRequest: &wire.SecretsRequest{Names: []string{"default/x"}}}))
		},
		unknownKind: func(_ *testServer, a *testAgent, _ uuid.UUID) { sendRaw(a, []byte{15<<3 | 2, 0}) },
	}
	for out := range outcomes {
		way, ok := ways[out]
		if !ok {
			t.Errorf("no message ends as %s here", outcomeNames[out])
			continue
		}
		t.Run(outcomeNames[out], func(t *testing.T) {
			w := newTestServer(t, func(c *Config) {
				c.Limits = Limits{BatchSignals: 10, SessionLimits: core.SessionLimits{UnackedBytes: unackedBytes}}
				c.Secret = func(context.Context, string, string) (core.SecretValue, error) {
					return core.SecretValue{}, errors.New("none")
				}
			})
			node := w.addNode(1, 1)
			a := w.openAgent(node)
			way(w, a, node)
			testenv.Until(w.t, "the outcome is counted", func() bool { return testutil.ToFloat64(w.server.metrics.frames[out]) == 1 })
			switch out {
			case numbersMissing, frameMalformed, batchOversized, tooManyStreams, journalRefused: // end the session
				if r := a.refusal(); r.Code != outcomeNames[out] || r.Message == "" || r.RetryMs == 0 {
					t.Errorf("refusal %+v, want code %s", r, outcomeNames[out])
				}
			}
			w.checkOutcomes()
		})
	}
}

// TestProtocolPageNamesEveryCode expects the protocol's page to explain every code of a refusal.
func TestProtocolPageNamesEveryCode(t *testing.T) {
	page := testenv.Value(os.ReadFile("../../../docs/protocol/README.md"))(t)
	codes := map[string]bool{}
	refusal := regexp.MustCompile(`(?:Refusal\(|Code: |r\.Code, r\.Type = )"(\w+)"`)
	violation := regexp.MustCompile(`violation\((\w+),`)
	files := testenv.Value(filepath.Glob("*.go"))(t)
	byName := map[string]frameOutcome{"numbersMissing": numbersMissing, "frameMalformed": frameMalformed, "batchOversized": batchOversized, "tooManyStreams": tooManyStreams, "journalRefused": journalRefused}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source := testenv.Value(os.ReadFile(file))(t)
		for _, m := range refusal.FindAllStringSubmatch(string(source), -1) {
			codes[m[1]] = true
		}
		for _, m := range violation.FindAllStringSubmatch(string(source), -1) {
			out, ok := byName[m[1]]
			if !ok {
				t.Fatalf("%s: violation(%s, …) is not on the list of this test", file, m[1])
			}
			codes[outcomeNames[out]] = true
		}
	}
	for v := refusedDefinition; v <= refusedMalformed; v++ {
		if v != refusedStates { // the view says which limit
			codes[verdictNames[v]] = true
		}
	}
	if len(codes) < 15 {
		t.Fatalf("only %d codes found: %v", len(codes), codes)
	}
	for code := range codes {
		if !strings.Contains(string(page), "`"+code+"`") {
			t.Errorf("docs/protocol/README.md does not say what `%s` means", code)
		}
	}
}
