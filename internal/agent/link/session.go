package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// Session is one connection of an agent to a server, from Hello to its end. Read belongs to one goroutine; every
// other method may be called from anywhere, but batches of a stream must come in order.
type Session struct {
	cfg  *Config
	h    Handler
	conn *wsconn.Conn

	arrivingAssignment wire.PartialAssignment // the received parts of an assignment; only the reader uses them

	maxFrame   int // bytes, as the server allows
	maxUnacked int

	startedAt    time.Time    // start of the session, with its monotonic reading
	lastReceived atomic.Int64 // time of the last received frame, ns since began
	lastPing     atomic.Int64
	sentBytes    atomic.Uint64 // bytes of frames

	// Window of RunOutputs: a pong says that the server has read all bytes before the ping.
	outputBytes  atomic.Int64  // sent since the last pong
	windowOpened chan struct{} // capacity 1: the window is open again

	mu             sync.Mutex
	assignment     *Assignment    // in force; nil: none
	unackedBatches []unackedBatch // batches sent and not acknowledged, oldest first
	unacked        int            // bytes of unackedBatches
}

// unackedBatch has the last sequence number and the size of a batch that the server has not acknowledged.
type unackedBatch struct {
	wire.StreamKey
	last uint64
	size int
}

var (
	// ErrWindowFull reports that Welcome.MaxUnacked bytes are unacknowledged.
	ErrWindowFull = errors.New("the window of unacknowledged batches is full")
	// ErrSessionEnded reports a write to a session that is over.
	ErrSessionEnded = errors.New("session has ended")
)

// ServerStoppingError is the error of a session that ended because the server stops. It has the delay before the next
// connection attempt.
type ServerStoppingError struct {
	Retry  time.Duration
	Reason string
}

// Error returns the server's reason for the end of the session.
func (e *ServerStoppingError) Error() string { return "server ended the session: " + e.Reason }

// Open opens a session with the server at addr (host:port). It sends Hello and reads Welcome. The error is a
// *RefusedError where the server answers Refuse. Open fills in hello's Protocol, Node, Generation and Assignment (of
// held; nil: none), and Session where it is zero.
func Open(ctx context.Context, cfg *Config, addr string, hello *wire.Hello, held *Assignment, h Handler) (*Session, error) {
	cfg = cfg.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, cfg.Handshake)
	defer cancel()
	nc, err := cfg.Dial(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to server %s: %w", addr, err)
	}
	s := &Session{cfg: cfg, h: h, assignment: held, windowOpened: make(chan struct{}, 1)}
	unwatch := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	err = s.open(ctx, nc, addr, hello)
	if !unwatch() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		nc.Close()
		var refused *RefusedError
		if errors.As(err, &refused) {
			return nil, refused
		}
		return nil, explainConnect(addr, err)
	}
	return s, nil
}

// open makes the TLS handshake, sends Hello and reads Welcome or Refuse.
func (s *Session) open(ctx context.Context, nc net.Conn, addr string, hello *wire.Hello) error {
	nc, err := tlsHandshake(ctx, nc, s.cfg.TLS, addr)
	if err != nil {
		return err
	}
	conn, err := wsconn.Connect(nc, addr, Path, wire.Subprotocol, wsconn.Options{Timeout: s.cfg.Write, Buffers: &s.cfg.Shared.ws})
	if err != nil {
		return err
	}
	s.conn = conn
	s.startedAt = s.cfg.Now()
	message := *hello
	message.Protocol, message.Node = wire.Protocol, s.cfg.Node
	message.Session = cmp.Or(message.Session, rand.Uint64())
	if message.Features == nil {
		message.Features = wire.Features()
	}
	if s.assignment != nil {
		message.Generation = s.assignment.Generation
		if len(s.assignment.Refused) == 0 { // else the server sends it again, and learns of the refused definitions
			message.Assignment = s.assignment.Hash
		}
	}
	if err := s.writeMessage(func(dst []byte) []byte { return wire.AppendHello(dst, &message) }); err != nil {
		return err
	}
	return s.readWelcome()
}

// readWelcome reads the server's answer to Hello, either Welcome or Refuse.
func (s *Session) readWelcome() error {
	for {
		op, frame, err := s.conn.Read(wire.MaxFrame)
		if err != nil {
			return err
		}
		if op != wsconn.Binary {
			continue
		}
		kind, body, err := wire.FrameKind(frame)
		if err != nil {
			return err
		}
		switch kind {
		case wire.KindRefuse:
			return decodeRefuse(body)
		case wire.KindWelcome:
			var w wire.Welcome
			if err := w.Decode(body); err != nil {
				return err
			}
			if w.Protocol != wire.Protocol {
				return fmt.Errorf("the server uses protocol version %d, this agent uses version %d", w.Protocol, wire.Protocol)
			}
			s.maxFrame = int(min(cmp.Or(w.MaxFrame, wire.MaxFrame), wire.MaxFrame))
			s.maxUnacked = int(min(cmp.Or(w.MaxUnacked, 1<<30), 1<<30))
			_ = s.conn.NetConn().SetReadDeadline(time.Time{})
			s.h.OpenedSession(s, &w)
			return nil
		}
		return fmt.Errorf("server answered Hello with a message of kind %d, expected Welcome or Refuse", kind)
	}
}

// decodeRefuse converts the server's message Refuse, the refusal of a session, to an error.
func decodeRefuse(body []byte) error {
	e := new(RefusedError)
	if err := e.Refuse.Decode(body); err != nil {
		return err
	}
	return e
}

// Read reads and handles the server's frames until the session ends. It returns the cause: *RefusedError,
// *ServerStoppingError, or the connection's error.
func (s *Session) Read() error {
	defer s.conn.Close()
	for {
		op, frame, err := s.conn.Read(wire.MaxFrame)
		if err != nil {
			return err
		}
		s.lastReceived.Store(int64(s.cfg.Now().Sub(s.startedAt)))
		if op == wsconn.Pong {
			s.outputBytes.Store(0)
			pause.Wake(s.windowOpened)
		}
		if op != wsconn.Binary {
			continue
		}
		if err := s.handleFrame(frame); err != nil {
			return err
		}
	}
}

// handleFrame decodes one frame of the server and handles its message.
func (s *Session) handleFrame(frame []byte) error {
	kind, body, err := wire.FrameKind(frame)
	if err != nil {
		return err
	}
	switch kind {
	case wire.KindAck:
		return s.handleAck(body)
	case wire.KindAssignment:
		return s.handleAssignment(body)
	case wire.KindRun:
		return decodeAndHandle(body, func(m *wire.Run) { s.h.RunNow(s, m) })
	case wire.KindRoundRobinRuns:
		return decodeAndHandle(body, func(m *wire.RoundRobinRuns) { s.h.RoundRobinRuns(s, m) })
	case wire.KindExchange:
		return decodeAndHandle(body, func(m *wire.Exchange) { s.h.Reply(s, m) })
	case wire.KindBackPressure:
		return decodeAndHandle(body, func(m *wire.BackPressure) { s.h.BackPressure(s, m) })
	case wire.KindBye:
		var m wire.Bye
		if err := m.Decode(body); err != nil {
			return err
		}
		retry := time.Duration(m.RetryMs) * time.Millisecond
		s.h.ServerStops(s, retry, m.Reason)
		return &ServerStoppingError{Retry: retry, Reason: m.Reason}
	case wire.KindRefuse:
		return decodeRefuse(body)
	}
	return nil // a message of a later version is ignored
}

// decodeAndHandle decodes a message of the server and calls the Handler's method for its kind.
func decodeAndHandle[T any, P interface {
	*T
	Decode(body []byte) error
}](body []byte, to func(P)) error {
	message := P(new(T))
	if err := message.Decode(body); err != nil {
		return err
	}
	to(message)
	return nil
}

// handleAck subtracts acknowledged batches from the count of unacknowledged bytes, and passes the acknowledgement to
// the Handler
func (s *Session) handleAck(body []byte) error {
	ack := s.cfg.Shared.acks.Get().(*wire.Ack)
	defer s.cfg.Shared.acks.Put(ack)
	if err := ack.Decode(body); err != nil {
		return err
	}
	s.mu.Lock()
	s.unackedBatches = slices.DeleteFunc(s.unackedBatches, func(f unackedBatch) bool {
		i := slices.IndexFunc(ack.Last, func(l wire.StreamLast) bool { return l.StreamKey == f.StreamKey })
		covered := i >= 0 && f.last <= ack.Last[i].Last
		if covered {
			s.unacked -= f.size
		}
		return covered
	})
	s.mu.Unlock()
	s.h.Acked(s, ack)
	return nil
}

// handleAssignment applies the server's change of the assignment (list of checks), and answers with the new
// assignment's version. After a message that cannot be applied the answer has the old hash, and the server
// sends the whole.
func (s *Session) handleAssignment(body []byte) error {
	var a wire.Assignment
	if err := a.Decode(body); err != nil {
		return err
	}
	whole := s.arrivingAssignment.Join(&a)
	if whole == nil {
		return nil
	}
	held := s.Assignment()
	next, err := held.Apply(whole, s.cfg.Node, s.cfg.ServerKey, s.cfg.Definition)
	if err != nil {
		s.cfg.Log.Warn("cannot apply the assignment", "error", err)
		next = held
	} else {
		s.mu.Lock()
		s.assignment = next
		s.mu.Unlock()
		s.h.Assigned(s, next)
	}
	var status wire.AssignmentStatus
	if next != nil {
		status = wire.AssignmentStatus{Generation: next.Generation, Hash: next.Hash, Refused: next.Refused}
		if n := len(next.Refused); n > 0 {
			s.cfg.Log.Warn("refused units of the assignment; the agent runs the others", "refused", n, "definition", next.Refused[0].Definition, "reason", next.Refused[0].Reason)
		}
	}
	return s.writeMessage(func(dst []byte) []byte { return wire.AppendAssignmentStatus(dst, &status) })
}

// Assignment returns the session's current assignment (checks and Templates), or nil before the first assignment.
func (s *Session) Assignment() *Assignment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.assignment
}

// MaxBatch returns the size in bytes of the largest batch that the server accepts.
func (s *Session) MaxBatch() int { return s.maxFrame }

// Send encodes and sends one batch of results, with the time of sending. A later time in the batch stays, because
// signals from before a reboot can be older than the boot. After ErrWindowFull send it again when Acked was called.
func (s *Session) Send(b *wire.Batch) error {
	b.NowMs = max(b.NowMs, s.cfg.BootMs())
	last := b.First + uint64(len(b.Signals)) - 1
	if b.Gap != nil {
		last = b.Gap.Last
	}
	buf := s.cfg.Shared.frames.Get().(*[]byte)
	defer s.cfg.Shared.frames.Put(buf)
	*buf = wire.AppendBatch((*buf)[:wsconn.Headroom], b)
	return s.SendFrame(b.StreamKey, last, *buf)
}

// SendFrame sends a batch of results that the caller has encoded. The first wsconn.Headroom bytes of the frame must be
// free, and `last` is the batch's last sequence number. SendFrame overwrites the frame.
func (s *Session) SendFrame(key wire.StreamKey, last uint64, frame []byte) error {
	size := len(frame) - wsconn.Headroom
	if size > s.maxFrame {
		return fmt.Errorf("send a batch of results: the batch has %d bytes, the server allows %d", size, s.maxFrame)
	}
	s.mu.Lock()
	if s.unacked > 0 && s.unacked+size > s.maxUnacked {
		s.mu.Unlock()
		return ErrWindowFull
	}
	s.unacked += size
	s.unackedBatches = append(s.unackedBatches, unackedBatch{StreamKey: key, last: last, size: size})
	s.mu.Unlock()
	s.sentBytes.Add(uint64(size))
	return s.closeAfterError(s.conn.Write(frame))
}

// SendFacts sends the facts of the machine. Facts that are longer than a frame of this server are
// logged and not sent.
func (s *Session) SendFacts(f *wire.Facts) error {
	buf := s.cfg.Shared.frames.Get().(*[]byte)
	defer s.cfg.Shared.frames.Put(buf)
	*buf = wire.AppendFacts((*buf)[:wsconn.Headroom], f)
	if size := len(*buf) - wsconn.Headroom; size > s.maxFrame {
		s.cfg.Log.Warn("cannot send changed facts: they exceed the frame size of this server", "bytes", size, "most", s.maxFrame)
		return nil
	}
	return s.closeAfterError(s.conn.Write(*buf))
}

// writeMessage encodes and sends a message that does not count towards the limit of unacknowledged bytes
func (s *Session) writeMessage(encode func([]byte) []byte) error {
	buf := s.cfg.Shared.frames.Get().(*[]byte)
	defer s.cfg.Shared.frames.Put(buf)
	*buf = encode((*buf)[:wsconn.Headroom])
	s.sentBytes.Add(uint64(len(*buf) - wsconn.Headroom))
	return s.closeAfterError(s.conn.Write(*buf))
}

// outputWindow bounds the bytes of RunOutputs in flight: results on a slow connection wait for no more.
const outputWindow = 64 << 10

// maySendOutput reports whether the agent may send more output of requested runs. Too much unacknowledged output
// closes the window.
func (s *Session) maySendOutput() bool { return s.outputBytes.Load() < outputWindow }

// SendRunOutput sends a piece of a requested run's output. Send pending results first.
func (s *Session) SendRunOutput(ran *wire.RunOutput) error {
	const head = 64 // most bytes of the frame besides the output
	if err := s.writeMessage(func(dst []byte) []byte { return wire.AppendRunOutput(dst, ran) }); err != nil {
		return err
	}
	size := int64(len(ran.Output) + len(ran.Refused) + head)
	if after := s.outputBytes.Add(size); after >= outputWindow && after-size < outputWindow {
		return s.closeAfterError(s.conn.Ping(nil))
	}
	return nil
}

// closeAfterError closes the connection after a failed write, which may have sent only a part of a frame.
func (s *Session) closeAfterError(err error) error {
	if err == nil {
		return nil
	}
	s.conn.Close()
	return fmt.Errorf("%w: %w", ErrSessionEnded, err)
}

// SendRequest sends a request of a kind that older servers do not know, such as for secrets.
func (s *Session) SendRequest(x *wire.Exchange) error {
	return s.writeMessage(func(dst []byte) []byte { return wire.AppendExchange(dst, x) })
}

// Stats sends the agent's counters to the server.
func (s *Session) Stats(x *wire.Stats) error {
	return s.writeMessage(func(dst []byte) []byte { return wire.AppendStats(dst, x) })
}

// Sent returns the number of bytes that the session has sent, counted before TLS.
func (s *Session) Sent() uint64 { return s.sentBytes.Load() }

// Tick sends a ping in a silent session, and closes a session whose server does not answer. Call it every few
// seconds.
func (s *Session) Tick(now time.Time) {
	at := int64(now.Sub(s.startedAt))
	silent := at - s.lastReceived.Load()
	switch {
	case silent > int64(s.cfg.DeadAfter):
		s.conn.Close()
	case silent > int64(s.cfg.PingAfter) && at-s.lastPing.Load() > int64(s.cfg.PingAfter):
		s.lastPing.Store(at)
		_ = s.closeAfterError(s.conn.Ping(nil))
	}
}

// UnackedBytes returns the number of bytes that are sent but not yet acknowledged.
func (s *Session) UnackedBytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unacked
}

// byeTimeout bounds the wait of Read for the server's close after Bye.
const byeTimeout = 2 * time.Second

// Bye tells the server (by the message Bye) that the agent closes the session on purpose. Nothing is written after
// it; Read returns when the server closes, or after byeTimeout.
func (s *Session) Bye(reason string) {
	_ = s.writeMessage(func(dst []byte) []byte { return wire.AppendBye(dst, &wire.Bye{Reason: reason}) })
	_ = s.conn.WriteClose(1000, "")
	s.conn.CloseWrite(byeTimeout)
}

// Close closes the connection immediately, so that Read returns.
func (s *Session) Close() { s.conn.Close() }
