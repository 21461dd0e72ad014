package muster

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

const maxStreams = 16 // of one session: two lanes, and spools that were deleted

// session is one agent's connection after Welcome.
type session struct {
	srv     *Server
	conn    *wsconn.Conn
	id      uint64 // from Hello
	uid     uuid.UUID
	node    core.Node
	version string // of the agent
	section journal.Section
	budget  core.Budget
	proven  atomic.Bool // by a certificate that it is the node
	origin  origin

	heard     atomic.Int64 // server clock of the last frame
	pinged    atomic.Int64 // of the last ping
	maxOutput atomic.Int64 // as Welcome said; zero: not yet
	about     about
	report    atomic.Pointer[report] // what the agent told of itself; nil: nothing yet
	tookOver  atomic.Int64           // server clock when it displaced another; zero: it did not
	paused    atomic.Bool            // the reader handles a frame, or waits: it cannot hear
	probe     atomic.Pointer[probe]  // somebody asks whether the agent is alive

	// The reader's. Of which kinds of refusal the log has told.
	complained   [verdicts]bool
	reportLogged bool
	proxy        directory.ProxyNode // that the result judged last is about
	robin        model.CheckID       // the round-robin check that it is of; zero: of none
	rows         uint32              // values in it; zero: it is no value block
	values       atomic.Bool         // the session brought a value block

	core.Window // over: displaced, refused or broken; Changed also when told

	// By Mu.
	clean     bool // the agent said Bye
	streams   []stream
	duty      [lanes]dueBits
	queued    [lanes]bool
	refused   []wire.RefusedSignal
	refusal   *wire.Refuse
	told      bool               // refusal was written, or could not be
	runs      []wire.Run         // to be told
	turns     []wire.TurnRun     // to be told
	asked     map[uint64]*asking // told, and not done, by id
	answers   []wire.Exchange    // to be told
	exchanges int                // asked by the agent, and not answered yet
	slowFor   string             // reason of the next Slow, and
	linger    time.Duration      // what it asks for
	slowAt    int64              // when it was last due, by sinceBegan; zero: never
	// pushed is what the agent holds as far as we know: sent, or named by Hello.
	pushed        *directory.Assignment
	unconfirmed   int                 // sent, and not yet answered by Holding
	strays        int                 // last Holdings in a row with another hash
	refusedChunks []wire.RefusedChunk // by the last Holding
}

// stream is one numbering of the node. last belongs to the reader, acked to mu.
type stream struct {
	wire.StreamKey
	last  uint64 // appended to the journal
	acked uint64 // committed
	fresh bool   // to be acknowledged
}

// ServeConn speaks the protocol on one connection: it returns when the session is
// open (a goroutine of its own reads on) or refused.
func (s *Server) ServeConn(ctx context.Context, nc net.Conn, proven Proof) {
	_ = nc.SetDeadline(time.Now().Add(s.cfg.Limits.Handshake)) // the network's clock is the real one
	defer context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })()
	leave, ok := s.arrivals.enter(proven.Node)
	if !ok {
		s.metrics.handshakes.WithLabelValues("crowded").Inc()
		_, _ = io.WriteString(nc, crowdedAnswer)
		wsconn.Part(nc, partWithin)
		return
	}
	defer leave()
	conn, err := wsconn.Accept(nc, Path, wire.Subprotocol, s.ws)
	if err != nil {
		s.metrics.handshakes.WithLabelValues("websocket").Inc()
		wsconn.Part(nc, partWithin) // what is wrong with the request stands in the answer
		return
	}
	x, refusal := s.handshake(ctx, conn, proven)
	if x == nil {
		if refusal == nil {
			s.metrics.handshakes.WithLabelValues("lost").Inc()
			conn.Close()
			return
		}
		s.metrics.handshakes.WithLabelValues(refusal.Code).Inc()
		_ = sendRefuse(conn, make([]byte, wsconn.Headroom), refusal)
		conn.Part(partWithin)
		return
	}
	s.metrics.handshakes.WithLabelValues("welcome").Inc()
	if g := guestOf(nc); g != nil {
		g.prove()
	}
	_ = nc.SetReadDeadline(time.Time{})
	go x.read()
}

// crowdedAnswer comes before WebSocket: who sends many requests is not read.
const crowdedAnswer = "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 56\r\n\r\n" +
	"this node has connections enough that are on their way.\n"

// partWithin is how long a peer that is sent away may take to read why.
const partWithin = 2 * time.Second

// read has messages handled until the session ends.
func (x *session) read() {
	defer x.srv.readers.Done()
	var cause string
	for cause == "" {
		if err := x.conn.Wait(); err != nil {
			cause = x.readError(err)
		} else {
			cause = x.srv.stacks.message(x)
		}
	}
	x.end(cause)
}

// message handles what has come; not empty: why the session ends.
func (x *session) message() (cause string) {
	op, frame, err := x.conn.Read(x.srv.cfg.Limits.FrameBytes)
	if err != nil {
		return x.readError(err)
	}
	x.heard.Store(x.srv.clock.Now())
	if op != wsconn.Binary {
		x.srv.metrics.controls.Inc()
		if op == wsconn.Pong {
			x.pong(frame)
		}
		x.payFrame()
		return ""
	}
	x.srv.metrics.received.Inc()
	x.srv.metrics.bytes.Add(float64(len(frame)))
	x.paused.Store(true)
	out := x.frame(frame)
	if out != kept { // a batch has paid by its signals
		x.payFrame()
	}
	x.paused.Store(false)
	x.heard.Store(x.srv.clock.Now())
	x.srv.metrics.frames[out].Inc()
	switch out {
	case hole, malformed, oversized, streams, unkept, displaced:
		return outcomeNames[out]
	}
	return ""
}

// readError names why reading ended, and tells an agent that broke the protocol.
func (x *session) readError(err error) string {
	cause := core.ReadCause(err)
	if cause == "too_large" || cause == "websocket" {
		x.tell(*x.srv.unreadable(err))
	}
	return cause
}

// unreadable is the refusal of a frame that is none of ours.
func (s *Server) unreadable(err error) *wire.Refuse {
	if errors.Is(err, wsconn.ErrTooLarge) {
		return &wire.Refuse{Code: "too_large", Message: err.Error(), RetryMs: s.jitterMs(time.Minute),
			Hint: "send frames of at most Welcome.max_frame bytes; on the server: --max-frame"}
	}
	return &wire.Refuse{Code: "websocket", Message: err.Error(), RetryMs: s.jitterMs(time.Minute),
		Hint: "connect without anything in between that rewrites WebSocket; docs/protocol says what a frame is"}
}

// end is the last thing that happens to a session.
func (x *session) end(cause string) {
	x.srv.ending.Add(1)
	defer x.srv.ending.Add(-1)
	x.Mu.Lock()
	x.EndLocked()
	clean, asked := x.clean, x.asked
	x.asked = nil
	x.Mu.Unlock()
	if p := x.probe.Load(); p != nil {
		p.ends(false)
	}
	if clean {
		cause = "bye"
	}
	for _, a := range asked {
		a.lost("its session ended (" + cause + ") before the run did")
	}
	x.srv.metrics.ended.WithLabelValues(cause).Inc()
	last := x.srv.registry.Remove(x.node.ID, x)
	if x.srv.cfg.OnEnded != nil {
		x.srv.cfg.OnEnded(x.node.ID)
	}
	x.Mu.Lock()
	refusing := x.refusal != nil
	x.Mu.Unlock()
	if refusing {
		defer x.part()
	} else {
		x.conn.Close()
	}
	if !last || x.srv.stopping.Load() {
		return // the newer session has said so, or nobody listens any more
	}
	if !clean && !refusing && x.srv.draining.Load() == 0 { // who was sent away did not vanish
		x.srv.watch.add(x.srv.clock.Now(), x.srv.Sessions())
	}
	x.srv.cfg.Log.Debug("session ended", "node", x.node.Name, "cause", cause)
	mark := x.mark(wire.SessionMark{Clean: clean})
	_ = x.srv.cfg.Journal.Append(x.srv.base, journal.Entry{Section: x.section, Data: mark})
}

// part closes the connection after the agent was told why: a writer does that, or finds
// that it cannot.
func (x *session) part() {
	defer context.AfterFunc(x.srv.base, func() { x.conn.Close() })()
	x.Mu.Lock()
	for !x.told {
		x.Changed.Wait()
	}
	x.Mu.Unlock()
	x.conn.Part(partWithin)
}

func (x *session) hasBeenTold() {
	x.Mu.Lock()
	x.told = true
	x.Changed.Broadcast()
	x.Mu.Unlock()
}

// mark returns the journal record of a beginning or an end.
func (x *session) mark(m wire.SessionMark) []byte {
	m.Session = x.id
	return x.node.Mark(m)
}

// frame handles one message. Every way out is an outcome.
func (x *session) frame(frame []byte) outcome {
	kind, body, err := wire.FrameKind(frame)
	if err != nil {
		return x.broken(malformed, err.Error())
	}
	switch kind {
	case wire.KindBatch:
		return x.batch(body)
	case wire.KindAssignmentStatus:
		var h wire.AssignmentStatus
		if err := h.Decode(body); err != nil {
			return x.broken(malformed, err.Error())
		}
		x.holds(&h)
		return holding
	case wire.KindFacts:
		var said wire.Facts
		if err := said.Decode(body); err != nil {
			return x.broken(malformed, err.Error())
		}
		x.seen(&wire.Hello{Node: x.uid, Version: x.version, Labels: said.Labels, Facts: said.Facts, Groups: said.Groups})
		return facts
	case wire.KindBye:
		x.Mu.Lock()
		x.clean = true
		x.Mu.Unlock()
		return leaving
	case wire.KindStats:
		return x.hearStats(body)
	case wire.KindRunOutput:
		return x.ran(body)
	case wire.KindExchange:
		return x.exchange(body)
	case wire.KindHello:
		return x.broken(malformed, "a second Hello")
	}
	return unknownKind
}

// seen hands on what the agent says of its machine.
func (x *session) seen(hello *wire.Hello) {
	if limit, reason := x.srv.cfg.Nodes.Seen(x.node, hello); limit != "" {
		x.budget.Hit(limit, reason)
	}
}

// broken refuses an agent that breaks the protocol. It comes back after a while:
// its next version may not.
func (x *session) broken(out outcome, sentence string) outcome {
	x.tell(wire.Refuse{Code: outcomeNames[out], Message: sentence, RetryMs: x.srv.jitterMs(30 * time.Second),
		Hint: "look at the agent's log; if it goes on, bring agent and server to the same version: muster version"})
	return out
}

// tell leaves a Refuse with the writers. The reader ends after it has left.
func (x *session) tell(r wire.Refuse) {
	x.Mu.Lock()
	x.EndLocked()
	if x.refusal == nil {
		x.refusal = &r
	}
	x.Mu.Unlock()
	x.due(lanePush, dueRefuse)
}

// due marks what is to be written, and queues the session where it is not.
func (x *session) due(l lane, bits dueBits) {
	x.Mu.Lock()
	put := x.dueLocked(l, bits)
	x.Mu.Unlock()
	if put {
		x.srv.outbox(l).put(x)
	}
}

// dueLocked says whether the caller must put x into the lane's outbox.
func (x *session) dueLocked(l lane, bits dueBits) bool {
	x.duty[l] |= bits
	if x.queued[l] {
		return false
	}
	x.queued[l] = true
	return true
}
