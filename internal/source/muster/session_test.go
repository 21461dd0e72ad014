package muster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// TestMain runs the tests and fails if a goroutine is left over.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A session sends the assignment and acknowledges batches. The next session continues after the last sequence number.
func TestSessionAcknowledgesBatches(t *testing.T) {
	w := newTestServer(t, nil)
	uid := w.addNode(1, 1, 2)
	a := w.openAgent(uid)
	if a.welcome.Node != 1001 || a.welcome.Name != "node1" || a.welcome.Incarnation != 42 || a.welcome.KeepaliveMs != 20000 {
		t.Fatalf("welcome %+v", a.welcome)
	}
	a.wait("assignment", func() bool { return len(a.assignments) == 1 && len(a.assignments[0].Definitions) == 2 })
	a.send(resultBatch(1, 3, 1))
	a.send(resultBatch(4, 1, 2))
	a.waitAck(4)
	testenv.NoError(t, w.requestRun(1001, 2))
	a.wait("run", func() bool { return len(a.runs) == 1 && a.runs[0].Definition == 2 })

	a.Bye("done")
	testenv.Until(w.t, "the session's end is kept", func() bool {
		w.journal.mu.Lock()
		defer w.journal.mu.Unlock()
		return len(w.journal.marks) == 2
	})
	again := w.openAgent(uid)
	if len(again.welcome.Last) != 1 || again.welcome.Last[0].Last != 4 {
		t.Fatalf("last numbers %+v", again.welcome.Last)
	}
	w.journal.mu.Lock()
	marks := fmt.Sprint(len(w.journal.marks), w.journal.marks[0].Start, w.journal.marks[1].Start, w.journal.marks[1].Clean)
	w.journal.mu.Unlock()
	if marks != "3 true false true" {
		t.Fatalf("marks: %s, want begun, ended clean, begun", marks)
	}
	w.checkOutcomes()
}

// A batch is acknowledged only after its commit in the journal.
func TestAcknowledgementFollowsTheCommit(t *testing.T) {
	w := newTestServer(t, nil)
	a := w.openAgent(w.addNode(1, 1))
	w.journal.pauseCommits(true)
	a.send(resultBatch(1, 5, 1))
	testenv.Until(w.t, "the batch is with the journal", func() bool { return w.journal.queued() > 0 })
	// The journal has the batch but has not committed it; a round trip over the same connection shows that no Ack was
	// sent.
	testenv.NoError(t, w.requestRun(1001, 1))
	a.wait("run", func() bool { return len(a.runs) == 1 })
	a.mu.Lock()
	early := a.acks[liveStream]
	a.mu.Unlock()
	if early != 0 {
		t.Fatalf("acknowledged %d before the commit", early)
	}
	w.journal.pauseCommits(false)
	a.waitAck(5)
}

// A failed journal commit ends the session without an acknowledgement, and the agent can send the batch again.
func TestFailedCommitEndsTheSession(t *testing.T) {
	w := newTestServer(t, nil)
	uid := w.addNode(1, 1)
	a := w.openAgent(uid)
	w.journal.update(func() { w.journal.commitError = errors.New("disk is gone") })
	a.send(resultBatch(1, 5, 1))
	a.wait("end", func() bool { return a.hasEnded })
	w.journal.update(func() { w.journal.commitError = nil })
	b := w.openAgent(uid)
	if b.welcome.Last[0].Last != 0 {
		t.Fatalf("server claims to have kept %d", b.welcome.Last[0].Last)
	}
	b.send(resultBatch(1, 5, 1))
	b.waitAck(5)
}

// A batch that an agent sends twice is acknowledged both times and stored once.
func TestRepeatedBatchIsAcknowledgedAndStoredOnce(t *testing.T) {
	w := newTestServer(t, nil)
	a := w.openAgent(w.addNode(1, 1))
	a.send(resultBatch(1, 5, 1))
	a.waitAck(5)
	a.update(func() { a.acks[liveStream] = 0 })
	a.send(resultBatch(1, 5, 1))
	a.waitAck(5)
	a.send(resultBatch(6, 1, 1))
	a.waitAck(6)
	if n := w.countMetric("frames_total", "repeated"); n != 1 {
		t.Fatalf("%v repeated", n)
	}
	w.journal.mu.Lock()
	entries := len(w.journal.entries)
	w.journal.mu.Unlock()
	if entries != 3 { // mark, two batches
		t.Fatalf("%d entries", entries)
	}
}

// TestGapReplacesMissingNumbers reports results that the agent dropped, and expects the server to acknowledge
// the missing numbers. The report is called a gap.
func TestGapReplacesMissingNumbers(t *testing.T) {
	w := newTestServer(t, nil)
	a := w.openAgent(w.addNode(1, 1))
	a.send(&wire.Batch{StreamKey: liveStream, First: 1, Gap: &wire.Gap{Last: 100, Reason: "spool was full", Counts: []wire.GapCount{{Kind: wire.SignalResult, Definition: 1, Count: 100}}}})
	a.send(resultBatch(101, 1, 1))
	a.waitAck(101)
}

// sendRaw sends raw bytes to the server as one message of the test agent.
func sendRaw(a *testAgent, message []byte) {
	a.t.Helper()
	testenv.NoError(a.t, a.SendFrame(wire.StreamKey{}, 0, append(make([]byte, wsconn.Headroom), message...)))
}

// The server answers each invalid Hello with a refusal code, such as unknown or retired.
func TestHelloIsRefusedWithACode(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.Limits.Sessions = 1 })
	known := w.addNode(1, 1)
	retired := w.addNode(2, 1)
	w.nodes.retire(retired, Retirement{Code: "retired", Sentence: "node node2 was retired by ada: scrapped", Type: "muster node token"})
	rebuilt := w.addNode(4, 1)
	w.nodes.setNode(rebuilt, core.Node{ID: 1004, Name: "node4", Key: "new"})
	keyless := w.addNode(5, 1)
	other := w.addNode(3, 1)
	_ = w.openAgent(known)
	for _, c := range []struct {
		code string
		uid  uuid.UUID
	}{{"unknown", uuid.New()}, {"retired", retired}, {"limited", other}} {
		_, err := w.openSession(c.uid, nil)
		if r := refusalOf(t, err); r.Code != c.code || r.Message == "" {
			t.Errorf("refusal %+v, want code %s", r, c.code)
		}
	}
	for _, c := range []struct {
		code  string
		hello wire.Hello
		proof Proof
	}{
		{"protocol", wire.Hello{Protocol: 99, Node: known}, Proof{}},
		{"identity", wire.Hello{Protocol: wire.Protocol, Node: known}, Proof{Node: other}},
		{"identity", wire.Hello{Protocol: wire.Protocol, Node: keyless}, Proof{Node: keyless, Key: "new"}}, // node4's key
		{"replaced", wire.Hello{Protocol: wire.Protocol, Node: rebuilt}, Proof{Node: rebuilt, Key: "old"}},
		{"streams", wire.Hello{Protocol: wire.Protocol, Node: known, Streams: make([]wire.StreamRange, maxStreams+1)}, Proof{}},
	} {
		if _, r := w.server.admitAgent(nil, &c.hello, c.proof); r == nil || r.Code != c.code {
			t.Errorf("refusal %+v, want code %s", r, c.code)
		}
	}
	w.server.drainRetry.Store(1000)
	if _, err := w.openSession(known, nil); refusalOf(t, err).Code != "draining" {
		t.Errorf("while draining: %v", err)
	}
}

// A node's new session ends its previous session.
func TestNewerSessionReplacesTheOlder(t *testing.T) {
	w := newTestServer(t, nil)
	uid := w.addNode(1, 1)
	a := w.openAgent(uid)
	w.journal.pauseCommits(true)
	a.send(resultBatch(1, 2, 1)) // the journal has not committed the batch when the newer session opens
	testenv.Until(w.t, "the batch is with the journal", func() bool { return w.journal.queued() > 0 })
	opened := make(chan *testAgent)
	go func() {
		b, err := w.openSession(uid, nil)
		if err != nil {
			t.Error(err)
		}
		opened <- b
	}()
	if r := a.refusal(); r.Code != "duplicate" {
		t.Fatalf("refusal %+v", r)
	}
	w.journal.pauseCommits(false)
	b := <-opened
	if b.welcome.Last[0].Last != 2 {
		t.Fatalf("Welcome of the newer session has last number %d, want 2", b.welcome.Last[0].Last)
	}
	if w.server.Sessions() != 1 {
		t.Fatalf("%d sessions", w.server.Sessions())
	}
}

// TestSignalsAreRefusedByNumber sends a batch with valid and invalid results, and expects refusals with the invalid
// results' sequence numbers. Each refusal has sequence number and code.
func TestSignalsAreRefusedByNumber(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.Limits.OutputBytes = 20 })
	w.journal.admit = func(_ model.NodeID, c *model.CheckDefinition) (string, string) {
		if c.ID == 4 {
			return "node_limit", "this node has its 2 states"
		}
		return "", ""
	}
	w.plan.assign(9, uuid.New(), 3, 4) // definitions that exist, of others
	a := w.openAgent(w.addNode(1, 1, 2))
	b := resultBatch(1, 6, 1)
	b.Signals[1].Definition = 99
	b.Signals[2] = wire.ResultSignal(b.Signals[2], wire.Result{Output: []byte(strings.Repeat("x", 21))})
	b.Signals[3].Definition = 3 // definition of an older assignment: accepted
	b.Signals[4].Definition = 4
	a.send(b)
	a.waitAck(6)
	a.expectRefused("2 unknown_definition", "3 output", "5 node_limit")
	// The journal has keepalives in place of the refused signals, so that the numbers have no holes.
	w.journal.mu.Lock()
	var r wire.Record
	_ = r.Decode(w.journal.entries[1])
	w.journal.mu.Unlock()
	var kept wire.Batch
	testenv.NoError(t, kept.Decode(r.Batch))
	kinds := ""
	for _, s := range kept.Signals {
		kinds += fmt.Sprintf("%d ", s.Kind)
	}
	if kinds != "10 11 11 10 11 10 " {
		t.Fatalf("kept kinds %s", kinds)
	}
	a.send(resultBatch(7, 1, 1))
	a.waitAck(7)
}

// A result that cannot be decoded is refused by itself, and all others of its batch are kept. The other signals of its
// batch are stored.
func TestMalformedSignalIsRefusedAlone(t *testing.T) {
	w := newTestServer(t, nil)
	a := w.openAgent(w.addNode(1, 1))
	_, body, _ := wire.FrameKind(wire.AppendBatch(nil, resultBatch(1, 3, 1)))
	var sizes []int // where the second signal's inside is
	for i, b := range body {
		if b == 6<<3|2 {
			sizes = append(sizes, i)
		}
	}
	body[sizes[1]+2] = 0xff // the tag of its kind
	body[sizes[1]+3] = 0xff
	frame := append([]byte{6<<3 | 2, byte(len(body))}, body...)
	testenv.NoError(t, a.SendFrame(liveStream, 3, append(make([]byte, wsconn.Headroom), frame...)))
	a.waitAck(3)
	if len(a.refused) != 1 || a.refused[0].Number != 2 || a.refused[0].Code != "malformed" {
		t.Fatalf("refused %+v", a.refused)
	}
}

// TestRefusalsComeBeforeTheirAcknowledgement sends very many invalid results, and expects every refusal before its
// acknowledgement. Refusals that do not fit into one Ack come in further Acks. The agent gets each before its number
// is acknowledged, and the session goes on.
func TestRefusalsComeBeforeTheirAcknowledgement(t *testing.T) {
	for _, c := range []struct{ batches, each int }{{3, wire.MaxSignals}, {15, 100}} {
		w := newTestServer(t, nil)
		a := w.openAgent(w.addNode(1, 1))
		w.journal.pauseCommits(true)
		all := c.batches * c.each
		for i := range c.batches {
			a.send(resultBatch(uint64(i*c.each+1), c.each, 99))
		}
		testenv.Until(t, "all batches are appended", func() bool { return w.journal.queued() == c.batches })
		w.journal.pauseCommits(false)
		refused := 0
		a.wait("the acknowledgement", func() bool { refused = len(a.refused); return a.acks[liveStream] == uint64(all) })
		if refused != all {
			t.Errorf("got %d refusals with the acknowledgement of %d numbers", refused, all)
		}
		a.send(resultBatch(uint64(all+1), 1, 1))
		a.waitAck(uint64(all + 1))
	}
}

// A session stops reading while too many bytes wait for a commit in the journal.
func TestUnacknowledgedBytesStopTheReader(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.Limits.UnackedBytes = 1000 })
	a := w.openAgent(w.addNode(1, 1))
	w.journal.pauseCommits(true)
	var sent uint64
	for {
		err := a.Send(resultBatch(sent+1, 10, 1))
		if errors.Is(err, link.ErrWindowFull) {
			break
		}
		testenv.NoError(t, err)
		sent += 10
	}
	if sent == 0 || a.UnackedBytes() > 1000 {
		t.Fatalf("sent %d, %d bytes unacknowledged", sent, a.UnackedBytes())
	}
	w.journal.pauseCommits(false)
	a.waitAck(sent)
	if a.UnackedBytes() != 0 {
		t.Fatalf("%d bytes unacknowledged at the end", a.UnackedBytes())
	}
}

// A namespace that exceeds its rate limit does not delay agents of other namespaces.
func TestRateLimitDelaysOnlyItsNamespace(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.Limits.RateBurst = time.Second; c.Limits.NodeResultsPerSec = 1e6 })
	slow, fast := w.addNode(1, 1), w.addNode(2, 1)
	w.nodes.setNode(slow, core.Node{ID: 1001, Name: "slow", Namespace: 1})
	w.nodes.setLimits(1, core.NamespaceLimits{ResultsPerSec: 100})
	w.nodes.setNode(fast, core.Node{ID: 1002, Name: "fast", Namespace: 2})
	w.plan.mu.Lock()
	w.plan.definitions[2] = (&model.CheckDefinition{Definition: model.Definition{ID: 2, Unit: model.FirstCheck + 1, Namespace: model.SharedNamespace}}).ToDefinition()
	w.plan.mu.Unlock()
	a, b := w.openAgent(slow), w.openAgent(fast)
	start := time.Now()
	a.send(resultBatch(1, 100, 1))  // the burst
	a.send(resultBatch(101, 30, 1)) // 0.3 s of debt
	a.send(resultBatch(131, 1, 1))
	for i := range 20 {
		b.send(resultBatch(uint64(i*100+1), 100, 2))
	}
	b.waitAck(2000)
	fastTook := time.Since(start)
	a.waitAck(131)
	if took := time.Since(start); took < 200*time.Millisecond || fastTook > took {
		t.Fatalf("limited %v, unlimited %v", took, fastTook)
	}
	a.wait("slow", func() bool { return len(a.slowReasons) == 1 && strings.Contains(a.slowReasons[0], "namespace") })
	if w.countMetric("throttled_total", "namespace") == 0 {
		t.Fatal("not counted")
	}
}

// TestChangedOutputLimitStartsANewSession changes the limit of check output, and expects the server to end the
// session. The message Welcome announced the old limit. It counts as no sudden loss of sessions.
func TestChangedOutputLimitStartsANewSession(t *testing.T) {
	shed := make(chan SessionLoss, 1)
	w := newTestServer(t, func(c *Config) {
		c.Limits.ShedLeast = 1
		c.OnSessionLoss = func(s SessionLoss) { shed <- s }
	})
	uid := w.addNode(1, 1)
	a := w.openAgent(uid)
	a.send(resultBatch(1, 1, 1))
	a.waitAck(1)
	node, _ := w.nodes.Lookup(uid)
	w.nodes.setLimits(node.Namespace, core.NamespaceLimits{OutputBytes: 5})
	if r := a.refusal(); r.Code != "changed" || r.RetryMs == 0 {
		t.Fatalf("refused with %+v", r)
	}
	testenv.Until(t, "the session is gone", func() bool { return w.server.Sessions() == 0 })
	b := w.openAgent(uid)
	if b.welcome.MaxOutput != 5 {
		t.Errorf("welcomed with %+v", b.welcome)
	}
	b.send(resultBatch(2, 1, 1))
	b.waitAck(2)
	if len(b.refused) != 1 || b.refused[0].Code != "output" {
		t.Errorf("refused %+v", b.refused)
	}
	select {
	case s := <-shed:
		t.Errorf("reported a sudden loss of sessions: %+v", s)
	default:
	}
}

// Drain ends every session, and tells each agent when to connect again.
func TestDrainEndsSessionsWithARetryTime(t *testing.T) {
	w := newTestServer(t, nil)
	a := w.openAgent(w.addNode(1, 1))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w.server.Drain(ctx, 2*time.Second)
	a.wait("end", func() bool { return a.hasEnded })
	var leaving *link.ServerStoppingError
	if !errors.As(a.ended, &leaving) || leaving.Retry < time.Second || leaving.Retry > 3*time.Second {
		t.Fatalf("ended with %v", a.ended)
	}
	if w.server.Sessions() != 0 {
		t.Fatalf("%d sessions", w.server.Sessions())
	}
}

// When many sessions break off at the same time, the loss is reported once.
func TestSuddenLossOfSessionsIsReportedOnce(t *testing.T) {
	reports := make(chan SessionLoss, 10)
	w := newTestServer(t, func(c *Config) { c.OnSessionLoss = func(s SessionLoss) { reports <- s } })
	var agents []*testAgent
	for i := range 60 {
		agents = append(agents, w.openAgent(w.addNode(i, 1)))
	}
	for _, a := range agents[:5] {
		a.Close()
	}
	for _, a := range agents[5:40] {
		a.Close()
	}
	select {
	case s := <-reports:
		if s.Sessions < 10 || float64(s.Sessions) <= 0.2*float64(s.Before) || s.Before > 60 {
			t.Fatalf("reported %+v", s)
		}
	case <-time.After(time.Minute):
		t.Fatal("not reported")
	}
	w.stop()
	if len(reports) != 0 {
		t.Fatal("reported twice")
	}
}

// Agents without TLS are served on loopback addresses only.
func TestServePlainRefusesOtherAddresses(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	if err := ServePlain(t.Context(), l, nil); err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Fatalf("got %v", err)
	}
}

// The server pings a silent agent and closes the session of an agent that does not answer. A session whose reader is
// paused stays.
func TestDeadSessionsAreClosed(t *testing.T) {
	if testing.Short() {
		t.Skip("the housekeeper comes once a second")
	}
	w := newTestServer(t, func(c *Config) {
		c.Limits.PingAfter, c.Limits.DeadAfter = 500*time.Millisecond, 1900*time.Millisecond
	})
	a := w.openAgent(w.addNode(1, 1))
	uid := w.addNode(2, 1)
	nc := testenv.Value(net.Dial("tcp", w.addr))(t) // sends Hello, and answers no ping
	defer nc.Close()
	silent := testenv.Value(wsconn.Connect(nc, w.addr, Path, wire.Subprotocol, wsconn.Options{Timeout: time.Minute, Buffers: new(wsconn.Buffers)}))(t)
	testenv.NoError(t, silent.Write(wire.AppendHello(make([]byte, wsconn.Headroom), &wire.Hello{Protocol: wire.Protocol, Node: uid})))
	testenv.Until(w.t, "both sessions are open", func() bool { return w.server.Sessions() == 2 })
	paused := w.addNode(3, 1)
	w.nodes.setNode(paused, core.Node{ID: 1003, Name: "paused", Namespace: 3})
	w.nodes.setLimits(3, core.NamespaceLimits{NodeResultsPerSec: 0.1})
	w.openAgent(paused).send(resultBatch(1, 50, 1)) // its reader is paused for minutes
	w.journal.update(func() { w.journal.stats.Blocked = errors.New("disk is full") })
	a.wait("slow", func() bool { return len(a.slowReasons) == 1 && strings.Contains(a.slowReasons[0], "disk is full") })
	testenv.Until(w.t, "the dead session is closed", func() bool { return !w.server.Connected(1002) })
	if a.send(resultBatch(1, 1, 1)); !w.server.Connected(1001) || !w.server.Connected(1003) {
		t.Fatal("a living session was closed")
	}
	a.waitAck(1)
}

// An agent with newer data than the server is reported, as a sign of an old backup. It has newer acknowledgements or a
// newer assignment than the server. Agents that know another incarnation of the journal show nothing about this one.
func TestAgentAheadOfTheServerIsReported(t *testing.T) {
	for _, c := range []struct {
		name   string
		hello  wire.Hello
		behind bool
	}{
		{"nothing new", wire.Hello{Incarnation: 42, Streams: []wire.StreamRange{{StreamKey: liveStream, First: 4, Last: 9}}}, false},
		{"acknowledged more", wire.Hello{Incarnation: 42, Streams: []wire.StreamRange{{StreamKey: liveStream, First: 5, Last: 9}}}, true},
		{"more numbers of another incarnation", wire.Hello{Incarnation: 41, Streams: []wire.StreamRange{{StreamKey: liveStream, First: 5, Last: 9}}}, false},
		{"a stream that the server does not know", wire.Hello{Incarnation: 42, Streams: []wire.StreamRange{{StreamKey: wire.StreamKey{Stream: 8}, First: 2, Last: 9}}}, true},
		{"a newer assignment", wire.Hello{Incarnation: 42, Generation: wire.Generation{Epoch: 1, Revision: 1000}}, true},
		{"an assignment of a later incarnation", wire.Hello{Incarnation: 43, Generation: wire.Generation{Epoch: 2, Revision: 1}}, true},
		{"an assignment of another incarnation", wire.Hello{Incarnation: 42, Generation: wire.Generation{Epoch: 0, Revision: 1000}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			reports := make(chan string, 1)
			w := newTestServer(t, func(cfg *Config) { cfg.OnOlderData = func(n core.Node) { reports <- n.Name } })
			uid := w.addNode(1, 1)
			a := w.openAgent(uid)
			a.send(resultBatch(1, 3, 1))
			a.waitAck(3)
			a.Bye("done")
			testenv.Value(w.openSession(uid, func(_ *link.Config, hello *wire.Hello) { *hello = c.hello }))(t)
			select {
			case name := <-reports:
				if !c.behind || name != "node1" {
					t.Errorf("reported %s", name)
				}
			default:
				if c.behind {
					t.Error("not reported")
				}
			}
		})
	}
}

// The server sends Welcome before an assignment that changes while the session is being opened.
func TestWelcomeIsTheFirstMessage(t *testing.T) {
	w := newTestServer(t, nil)
	for n := 1; n <= 20; n++ {
		uid := w.addNode(n, 1)
		w.journal.pauseCommits(true)
		opened := make(chan error)
		go func() {
			_, err := w.openSession(uid, nil)
			opened <- err
		}()
		testenv.Until(t, "the session's mark is with the journal", func() bool { return w.journal.queued() > 0 })
		node, _ := w.nodes.Lookup(uid)
		w.plan.assign(node.ID, uid, 1, 2)
		w.plan.notify(directory.Change{Assignments: []model.NodeID{node.ID}})
		testenv.Until(t, "a writer is at it", func() bool { return w.server.pushes.Len() == 0 })
		w.journal.pauseCommits(false)
		testenv.NoError(t, <-opened)
	}
}

// halfOpenConn simulates the server's connection to a machine that has crashed. After cut is closed, it receives
// nothing more.
type halfOpenConn struct {
	net.Conn
	cut, closed chan struct{}
	once        sync.Once
}

// Read reads from the connection, until the simulated crash makes the connection silent. After cut is closed, it
// receives nothing until Close.
func (d *halfOpenConn) Read(b []byte) (int, error) {
	n, err := d.Conn.Read(b)
	select {
	case <-d.cut:
		<-d.closed
		return 0, io.EOF
	default:
		return n, err
	}
}

// Close closes the connection and ends a waiting Read.
func (d *halfOpenConn) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.Conn.Close()
}

// withOrigin returns a function that sets the machine id and boot id in an agent's Hello.
func withOrigin(machine, boot string, cut chan struct{}) func(*link.Config, *wire.Hello) {
	return func(c *link.Config, h *wire.Hello) {
		h.MachineID, h.BootID = machine, boot
		if cut != nil {
			c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := new(net.Dialer).DialContext(ctx, network, addr)
				return &halfOpenConn{Conn: nc, cut: cut, closed: make(chan struct{})}, err
			}
		}
	}
}

const (
	machineA = "3f2a91c0aaaaaaaaaaaaaaaaaaaaaaaa"
	machineB = "77ab12cdbbbbbbbbbbbbbbbbbbbbbbbb"
)

// cloneServer is a test server that records refused clones. A clone is a machine with the identity of another
// connected machine.
type cloneServer struct {
	*testServer
	mu       sync.Mutex
	reported []core.Clone
}

// newCloneServer returns a test server that waits the given time for the pong of an older connection.
func newCloneServer(t *testing.T, probe time.Duration) *cloneServer {
	w := &cloneServer{}
	w.testServer = newTestServer(t, func(c *Config) {
		c.Limits.Probe = probe
		c.OnClone = func(c core.Clone) { w.mu.Lock(); w.reported = append(w.reported, c); w.mu.Unlock() }
	})
	return w
}

// clones returns the refused clones (machines with another's identity) that the server has reported.
func (w *cloneServer) clones() []core.Clone { w.mu.Lock(); defer w.mu.Unlock(); return w.reported }

// TestCloneIsRefused connects a second machine with the identity of a connected machine, and expects a refusal.
// A probe without an answer would exceed the time of the test.
func TestCloneIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ machine, boot string }{
		"another machine":                                    {machineB, "boot2"},
		"an image that kept its machine id":                  {machineA, "boot2"},
		"another machine on the same kernel":                 {machineB, "boot1"},
		"an agent that sends neither machine id nor boot id": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCloneServer(t, time.Hour)
			uid := w.addNode(1, 1)
			first := w.mustOpenSession(uid, nil, withOrigin(machineA, "boot1", nil))
			_, err := w.openSession(uid, withOrigin(c.machine, c.boot, nil))
			r := refusalOf(t, err)
			if r.Code != "clone" || r.RetryMs < 30_000 || !strings.Contains(r.Hint, "muster-agent reset-identity") {
				t.Errorf("refused with %+v", r)
			}
			for _, part := range []string{"node1", "127.0.0.1 (machine 3f2a91c0), since 2"} {
				if !strings.Contains(r.Message, part) {
					t.Errorf("%q lacks %q", r.Message, part)
				}
			}
			first.send(resultBatch(1, 1, 1)) // the session of the first machine goes on
			first.waitAck(1)
			came := w.clones()
			if len(came) != 1 || came[0].Holder.Machine != "3f2a91c0" || came[0].Refused.Machine != c.machine[:min(8, len(c.machine))] ||
				came[0].Refused.Address != "127.0.0.1" || came[0].Node.Name != "node1" || came[0].Holder.Since.IsZero() {
				t.Errorf("reported %+v", came)
			}
			if n := w.countMetric("handshakes_total", "clone"); n != 1 {
				t.Errorf("%g were counted", n)
			}
		})
	}
}

// TestSecondTakeoverByOneMachineIsRefused connects three agents with one machine id in turn, and expects the third to
// be refused. The boot id is also the same. The first take-over succeeds, the next is refused as a clone. The next one
// is refused while the other lives.
func TestSecondTakeoverByOneMachineIsRefused(t *testing.T) {
	w := newCloneServer(t, time.Hour)
	uid := w.addNode(1, 1)
	first := w.mustOpenSession(uid, nil, withOrigin(machineA, "boot1", nil))
	second := w.mustOpenSession(uid, nil, withOrigin(machineA, "boot1", nil))
	if r := first.refusal(); r.Code != "duplicate" {
		t.Fatalf("the first was sent away with %+v", r)
	}
	_, err := w.openSession(uid, withOrigin(machineA, "boot1", nil))
	if r := refusalOf(t, err); r.Code != "clone" {
		t.Fatalf("the third was sent away with %+v", r)
	}
	if len(w.clones()) != 1 {
		t.Errorf("reported %+v", w.clones())
	}
	second.send(resultBatch(1, 1, 1))
	second.waitAck(1)

	w.server.clock.Start(w.server.clock.Now() + int64(takeoverWindow) + 1) // by then that was an outage long ago
	third := w.mustOpenSession(uid, nil, withOrigin(machineA, "boot1", nil))
	third.send(resultBatch(2, 1, 1))
	third.waitAck(2)
}

// TestCrashedMachineReconnects reconnects a crashed machine, and expects a session, because the old connection answers
// no probe. A machine that lost its network is treated alike. It is no clone.
func TestCrashedMachineReconnects(t *testing.T) {
	for name, boot := range map[string]string{"rebooted": "boot2", "cut again": "boot1"} {
		t.Run(name, func(t *testing.T) {
			w := newCloneServer(t, 50*time.Millisecond)
			uid := w.addNode(1, 1)
			if boot == "boot1" {
				_ = w.mustOpenSession(uid, nil, withOrigin(machineA, boot, nil)) // the next take-over starts a probe
			}
			cut := make(chan struct{})
			before := w.mustOpenSession(uid, nil, withOrigin(machineA, "boot1", cut))
			before.send(resultBatch(1, 1, 1))
			before.waitAck(1)
			close(cut)
			sendRaw(before, wire.AppendBatch(nil, resultBatch(2, 1, 1))) // its last message is no answer to the probe
			after := w.mustOpenSession(uid, nil, withOrigin(machineA, boot, nil))
			if after.welcome.Last[0].Last != 2 {
				t.Errorf("Welcome of the new connection has %+v", after.welcome.Last)
			}
			if len(w.clones()) != 0 {
				t.Errorf("called a clone: %+v", w.clones())
			}
		})
	}
}

// TestSecondConnectionDuringAProbeHasToRetry opens two new connections of a node, and expects the second to retry
// later. The first waits for the ping of the old session.
func TestSecondConnectionDuringAProbeHasToRetry(t *testing.T) {
	w := newCloneServer(t, time.Hour)
	uid := w.addNode(1, 1)
	cut := make(chan struct{})
	first := w.mustOpenSession(uid, nil, withOrigin(machineA, "boot1", cut))
	close(cut)
	opened := make(chan *testAgent, 1)
	go func() {
		b, err := w.openSession(uid, withOrigin(machineA, "boot2", nil))
		if err != nil {
			t.Error(err)
		}
		opened <- b
	}()
	old := w.server.registry.Get(1001)
	testenv.Until(t, "one waits", func() bool { return old.Pending() })
	_, err := w.openSession(uid, withOrigin(machineA, "boot3", nil))
	if r := refusalOf(t, err); r.Code != "limited" || r.RetryMs > 10_000 {
		t.Errorf("the other was refused with %+v", r)
	}
	first.Close() // the end of the old connection is an answer
	if b := <-opened; b != nil {
		b.send(resultBatch(1, 1, 1))
		b.waitAck(1)
	}
	if len(w.clones()) != 0 {
		t.Errorf("called a clone: %+v", w.clones())
	}
}

// TestFleetReconnectsWithoutProbes reconnects agents whose old connections still look open, and expects
// immediate new sessions. They do not wait for pings on the old connections.
func TestFleetReconnectsWithoutProbes(t *testing.T) {
	w := newCloneServer(t, time.Hour)
	var wg sync.WaitGroup
	for n := range 50 {
		uid := w.addNode(n, 1)
		cut := make(chan struct{})
		_ = w.mustOpenSession(uid, nil, withOrigin(machineA, "boot1", cut))
		close(cut)
		wg.Go(func() {
			if _, err := w.openSession(uid, withOrigin(machineA, "boot1", nil)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestMachinesAndBootsHaveDifferentOrigins checks that only equal machine and boot ids give equal machineOrigin
// values.
func TestMachinesAndBootsHaveDifferentOrigins(t *testing.T) {
	o := func(machine, boot string) machineOrigin {
		return originOf(&wire.Hello{MachineID: machine, BootID: boot})
	}
	for _, c := range []struct {
		a, b machineOrigin
		same bool
	}{
		{o("", ""), machineOrigin{}, true},
		{o(machineA, "1"), o(machineA, "1"), true},
		{o(machineA, "1"), o(machineB, "1"), false},
		{o(machineA, "1"), o(machineA, "2"), false},
		{o(machineA, "1"), o(machineA[:31]+"b", "1"), false}, // behind the digits that are shown
		{o("not hexadecimal", "1"), o("not hexadecimal either", "1"), false},
		{o("ab", "1"), o("", "1"), false},
	} {
		if (c.a == c.b) != c.same {
			t.Errorf("%x and %x: same is not %t", c.a, c.b, c.same)
		}
	}
}

// TestStatisticsOfAgentsAreSummed sends statistics of agents, and expects their sums over the fleet in the metrics. An
// agent's own statistics are available during its session.
func TestStatisticsOfAgentsAreSummed(t *testing.T) {
	w := newTestServer(t, nil)
	node := w.addNode(1, 1)
	first, err := w.openSession(node, func(_ *link.Config, h *wire.Hello) {
		h.Version, h.Restrictions, h.ClockUnixMs = "1.2.3", []string{"commands", "audit"}, time.Now().Add(time.Hour).UnixMilli()
	})
	testenv.NoError(t, err)
	a, ok := w.server.Agent(1001)
	if !ok || a.Version != "1.2.3" || a.Report != nil || !slices.Equal(a.Refuses, []string{"commands", "audit"}) || !strings.HasPrefix(a.Address, "127.0.0.1:") {
		t.Errorf("after Hello: %+v, %v", a, ok)
	}
	if a.Skew < 59*time.Minute || a.Skew > 61*time.Minute {
		t.Errorf("its clock is an hour ahead, not %s", a.Skew)
	}
	if _, ok := w.server.Agent(9999); ok {
		t.Error("a node that has no session has an agent")
	}
	sent := wire.Stats{UptimeMs: 120_000, Spooled: 30, Runs: 100, Forks: 60, Skipped: 2, ResidentBytes: 12 << 20, BytesSent: 5000}
	testenv.NoError(t, first.Stats(&sent))
	testenv.Until(t, "its statistics have arrived", func() bool { a, _ := w.server.Agent(1001); return a.Report != nil })
	if a, _ = w.server.Agent(1001); a.Report.Stats != sent || a.Report.ForksPerMin != 30 {
		t.Errorf("sent %+v, the server has %+v", sent, a)
	}
	second := w.openAgent(w.addNode(2, 1))
	testenv.NoError(t, second.Stats(&wire.Stats{Spooled: 12_000, Skipped: 3}))
	testenv.Until(t, "the statistics of the other have arrived", func() bool { a, _ := w.server.Agent(1002); return a.Report != nil })
	w.openAgent(w.addNode(3, 1)) // an agent that sends no statistics
	want := `
# HELP muster_agents_spooled_signals Signals in the spools.
# TYPE muster_agents_spooled_signals histogram
muster_agents_spooled_signals_bucket{le="0"} 0
muster_agents_spooled_signals_bucket{le="10"} 0
muster_agents_spooled_signals_bucket{le="100"} 1
muster_agents_spooled_signals_bucket{le="1000"} 1
muster_agents_spooled_signals_bucket{le="10000"} 1
muster_agents_spooled_signals_bucket{le="100000"} 2
muster_agents_spooled_signals_bucket{le="+Inf"} 2
muster_agents_spooled_signals_sum 12030
muster_agents_spooled_signals_count 2
# HELP muster_agents_spooled_signals_max Signals in the fullest spool.
# TYPE muster_agents_spooled_signals_max gauge
muster_agents_spooled_signals_max 12000
# HELP muster_agents_reporting Connected agents with statistics; the other muster_agents metrics count these.
# TYPE muster_agents_reporting gauge
muster_agents_reporting 2
`
	err = testutil.GatherAndCompare(w.metrics, strings.NewReader(want), "muster_agents_spooled_signals", "muster_agents_spooled_signals_max", "muster_agents_reporting")
	if err != nil {
		t.Error(err)
	}
	families := testenv.Value(w.metrics.Gather())(t)
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "muster_agents_counts" && m.Label[0].GetValue() == "skipped" && m.Gauge.GetValue() != 5 {
				t.Errorf("skipped runs of all: %v", m)
			}
		}
	}
}

// TestForksPerMinuteCountFromTheLastReport expects forks per minute to count since the agent's last report. Without a
// report they count since the agent's start.
func TestForksPerMinuteCountFromTheLastReport(t *testing.T) {
	w := newTestServer(t, nil)
	w.openAgent(w.addNode(1, 1))
	x := w.server.registry.Get(1001)
	for _, c := range []struct {
		uptime, forks uint64
		want          float64
	}{{60_000, 600, 600}, {120_000, 630, 30}, {180_000, 630, 0}, {30_000, 5, 10}} {
		if before := x.report.Load(); before != nil {
			before.at -= int64(time.Minute)
		}
		frame := wire.AppendStats(nil, &wire.Stats{UptimeMs: c.uptime, Forks: c.forks})
		_, body, _ := wire.FrameKind(frame)
		if out := x.storeAgentStats(body); out != agentStats {
			t.Fatalf("outcome %s", outcomeNames[out])
		}
		if a, _ := w.server.Agent(1001); a.Report.ForksPerMin != c.want {
			t.Errorf("%d forks after %d ms: %g per minute, want %g", c.forks, c.uptime, a.Report.ForksPerMin, c.want)
		}
	}
}
