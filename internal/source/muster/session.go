package muster

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// session is the open session of one agent, from Welcome to its end.
type session struct {
	core.Session
	srv        *Server
	hello      helloFields
	proven     atomic.Bool                 // its certificate proves that it is the node
	report     atomic.Pointer[agentReport] // nil: the agent has sent none
	tookOverAt atomic.Int64                // reading of the clock when it displaced another session; zero: it displaced none
	maxOutput  atomic.Int64                // bytes, as Welcome said; zero: not welcomed yet
	values     atomic.Bool                 // the agent has sent a value block

	// The reader's.
	logged       [verdicts]bool // kinds of refusals that are in the log
	reportLogged bool
	stalled      *time.Time // the stall of the journal that the session has seen

	// Guarded by Mu.
	streams    []sessionStream
	refused    []wire.RefusedSignal // to be sent with the next Ack
	closing    sessionClosing
	requests   sessionRequests
	slowdown   queuedBackPressure
	assignment sentAssignment
}

// sessionStream has the newest written and the newest acknowledged number of one sequence of results. The reader owns
// last; Mu guards the rest.
type sessionStream struct {
	wire.StreamKey
	last  uint64 // last number that was appended to the journal
	acked uint64 // last number whose commit has succeeded
	due   bool   // an Ack is due
}

const maxStreams = 16 // streams of one session: two lanes of the present spool and of deleted spools

// sessionClosing records how a session ends, by a goodbye of the agent or a refusal by the server. It has the
// last message (Refuse), and whether the agent has announced its end by Bye.
type sessionClosing struct {
	clean   bool         // the agent said Bye
	refusal *wire.Refuse // the last message of the session; nil: none
	written bool         // the refusal was sent, or could not be; signals Window.Changed
}

// sentAssignment records which assignment the server has sent in a session, and whether the agent has
// confirmed.
type sentAssignment struct {
	sent        *directory.Assignment    // named by Hello or sent; nil: unknown, so the next one is sent whole
	unconfirmed int                      // sent and not answered by AssignmentStatus yet
	mismatches  int                      // successive AssignmentStatus with another hash than expected
	refused     []wire.RefusedDefinition // definitions that the agent refused in its last AssignmentStatus
}

// ServeConn opens a session of the Muster protocol for an agent's connection. It returns when the session is open,
// whose reader goes on, or refused.
func (s *Server) ServeConn(ctx context.Context, nc net.Conn, proven Proof) {
	_ = nc.SetDeadline(time.Now().Add(s.cfg.Limits.Handshake)) // deadlines of connections use the real clock, not Config.Now
	defer context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })()
	leave, ok := s.arrivals.countOpening(proven.Node)
	if !ok {
		s.metrics.Handshakes.WithLabelValues("crowded").Inc()
		_, _ = io.WriteString(nc, tooManyConnsAnswer)
		wsconn.CloseGracefully(nc, admission.LingerTime)
		return
	}
	defer leave()
	conn, err := wsconn.Accept(nc, Path, wire.Subprotocol, s.ws)
	if err != nil {
		s.metrics.Handshakes.WithLabelValues("websocket").Inc()
		wsconn.CloseGracefully(nc, admission.LingerTime) // the answer has the reason
		return
	}
	x, refusal := s.handshake(ctx, conn, proven)
	if x == nil {
		if refusal == nil {
			s.metrics.Handshakes.WithLabelValues("lost").Inc()
			conn.Close()
			return
		}
		s.metrics.Handshakes.WithLabelValues(refusal.Code).Inc()
		_ = sendRefuse(conn, make([]byte, wsconn.Headroom), refusal)
		conn.CloseGracefully(admission.LingerTime)
		return
	}
	s.metrics.Handshakes.WithLabelValues("welcome").Inc()
	admission.MarkAuthenticated(nc)
	_ = nc.SetReadDeadline(time.Time{})
	go s.life.Read(x.Conn, x)
}

// tooManyConnsAnswer is the HTTP answer to connections of a node beyond the limit.
const tooManyConnsAnswer = "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 56\r\n\r\n" +
	"too many connections of this node are opening sessions.\n"

// Message reads the agent's next message and handles the message.
func (x *session) Message() (cause string) {
	op, frame, err := x.Conn.Read(x.srv.cfg.Limits.FrameBytes)
	if err != nil {
		return x.ReadFailed(err)
	}
	x.MarkBusy(x.srv.clock.Now())
	defer func() { x.MarkIdle(x.srv.clock.Now()) }()
	if op != wsconn.Binary {
		x.srv.metrics.controls.Inc()
		if op == wsconn.Pong {
			x.Pong(frame)
		}
		x.chargeFrame()
		return ""
	}
	x.srv.metrics.Received.Inc()
	x.srv.metrics.Bytes.Add(float64(len(frame)))
	out := x.handleFrame(frame)
	if out != batchKept { // a batch has paid for its signals
		x.chargeFrame()
	}
	x.srv.metrics.frames[out].Inc()
	switch out {
	case numbersMissing, frameMalformed, batchOversized, tooManyStreams, journalRefused, sessionDisplaced, serverStalled:
		return outcomeNames[out]
	}
	return ""
}

// ReadFailed returns the cause of a read error as a label for metrics. It sends the reason to an agent that
// broke the protocol.
func (x *session) ReadFailed(err error) string {
	cause := core.ReadCause(err)
	if cause == "too_large" || cause == "websocket" {
		x.refuse(x.srv.newUnreadableRefusal(err))
	}
	return cause
}

// End ends the session, aborts its pending ad-hoc runs, and closes the connection.
func (x *session) End(cause string) {
	x.srv.closingSessions.Add(1)
	defer x.srv.closingSessions.Add(-1)
	x.Mu.Lock()
	x.EndLocked()
	clean, refused, pending := x.closing.clean, x.closing.refusal != nil, x.requests.pending
	x.requests.pending = nil
	x.Mu.Unlock()
	x.Fail()
	if clean {
		cause = "bye"
	}
	for _, run := range pending {
		run.Abort(cause)
	}
	x.srv.metrics.Ended.WithLabelValues(cause).Inc()
	last := x.srv.registry.Remove(x.Node.ID, x)
	if x.srv.cfg.OnEnded != nil {
		x.srv.cfg.OnEnded(x.Node.ID)
	}
	if refused {
		defer x.closeAfterRefusal()
	} else {
		x.Conn.Close()
	}
	if !last || x.srv.life.Stopping() {
		return // the newer session has written the mark, or the journal ends
	}
	if !clean && !refused && x.srv.drainRetry.Load() == 0 { // a refused agent is not lost
		x.srv.sessionLosses.addEndedSession(x.srv.clock.Now(), x.srv.Sessions())
	}
	x.srv.cfg.Log.Debug("session ended", "node", x.Node.Name, "cause", cause)
	_ = x.srv.cfg.Journal.Append(x.srv.life.Base, journal.Entry{Section: x.Section, Data: x.EncodeSessionRecord(wire.SessionRecord{Clean: clean})})
}

// closeAfterRefusal closes the connection after a writer has tried to send the Refuse message.
func (x *session) closeAfterRefusal() {
	defer context.AfterFunc(x.srv.life.Base, func() { x.Conn.Close() })()
	x.Mu.Lock()
	for !x.closing.written {
		x.Changed.Wait()
	}
	x.Mu.Unlock()
	x.Conn.CloseGracefully(admission.LingerTime)
}

// FlushFailed closes the connection after a failed write.
func (x *session) FlushFailed() {
	x.Mu.Lock()
	x.closing.written = true
	x.Changed.Broadcast()
	x.Mu.Unlock()
}

// handleFrame decodes and handles one message of the agent. Each message has exactly one outcome.
func (x *session) handleFrame(frame []byte) frameOutcome {
	kind, body, err := wire.FrameKind(frame)
	if err != nil {
		return x.endForViolation(frameMalformed, err.Error())
	}
	switch kind {
	case wire.KindBatch:
		if x.isStale() {
			x.refuse(x.srv.newStallRefusal())
			return serverStalled
		}
		return x.handleBatch(body)
	case wire.KindAssignmentStatus:
		var m wire.AssignmentStatus
		if err := m.Decode(body); err != nil {
			return x.endForViolation(frameMalformed, err.Error())
		}
		x.confirmAssignment(&m)
		return assignmentConfirmed
	case wire.KindFacts:
		var m wire.Facts
		if err := m.Decode(body); err != nil {
			return x.endForViolation(frameMalformed, err.Error())
		}
		x.recordFacts(&wire.Hello{Node: x.UID, Version: x.hello.version.Value(), Labels: m.Labels, Facts: m.Facts, Groups: m.Groups})
		x.chargeBatch(&core.TrafficCost{core.LoadReports: 1, core.LoadBytes: len(body)})
		return factsChanged
	case wire.KindBye:
		x.Mu.Lock()
		x.closing.clean = true
		x.Mu.Unlock()
		return agentLeaves
	case wire.KindStats:
		return x.storeAgentStats(body)
	case wire.KindRunOutput:
		return x.handleRunOutput(body)
	case wire.KindExchange:
		return x.acceptSecretRequest(body)
	case wire.KindHello:
		return x.endForViolation(frameMalformed, "got a second Hello")
	}
	return unknownKind
}

// staleFor is the time after a pause of the server in which late frames may still arrive.
const staleFor = 10 * time.Second

// isStale reports whether a message's age is unknown, because the server's process was stopped before reading.
// The age of such a frame is unknown. The agent sends it again in another session.
func (x *session) isStale() bool {
	if x.srv.cfg.Stalled == nil {
		return false
	}
	last := x.srv.cfg.Stalled()
	if last == x.stalled {
		return false
	}
	x.stalled = last
	return time.Since(*last) < staleFor
}

// recordFacts hands the agent's facts, labels and groups to the inventory.
func (x *session) recordFacts(hello *wire.Hello) {
	if limit, reason := x.srv.cfg.Nodes.RecordAgent(x.Node, hello); limit != "" {
		x.Budget.Hit(limit, reason)
	}
}

// endForViolation ends the session of an agent that violates the protocol. The agent gets the reason. It may return
// later, perhaps with another version.
func (x *session) endForViolation(out frameOutcome, sentence string) frameOutcome {
	x.refuse(&wire.Refuse{Code: outcomeNames[out], Message: sentence, RetryMs: x.srv.jitterMs(30 * time.Second),
		Hint: "read the agent's log; if it happens again, install the same version on agent and server: muster version"})
	return out
}

// refuse ends the session with a Refuse message. A writer sends the message r, then the reader closes the connection.
func (x *session) refuse(r *wire.Refuse) {
	x.Mu.Lock()
	defer x.Mu.Unlock()
	x.refuseLocked(r)
}

// refuseLocked ends the session with a Refuse message, like refuse, for callers that hold the lock. The caller holds
// Mu.
func (x *session) refuseLocked(r *wire.Refuse) {
	x.EndLocked()
	x.closing.refusal = cmp.Or(x.closing.refusal, r)
	x.srv.pushes.AddLocked(x, dueRefuse)
}

// newStallRefusal returns the refusal that ends a session after the server's process was stopped for a while.
// The agent then sends its results again.
func (s *Server) newStallRefusal() *wire.Refuse {
	return s.newRefusal(outcomeNames[serverStalled], "the server was paused: send the results again with their present age", 2*time.Second)
}

// newUnreadableRefusal returns the Refuse message for a frame that violates WebSocket or is too long.
func (s *Server) newUnreadableRefusal(err error) *wire.Refuse {
	r := &wire.Refuse{Code: "websocket", Message: err.Error(), RetryMs: s.jitterMs(time.Minute),
		Hint: "connect without a proxy that rewrites WebSocket frames; docs/protocol describes the frames"}
	if errors.Is(err, wsconn.ErrTooLarge) {
		r.Code, r.Hint = "too_large", "send frames of at most Welcome.max_frame bytes; on the server: --max-frame"
	}
	return r
}
