package muster

import (
	"time"

	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// Messages that a session has to write.
const (
	dueAck core.MessageSet = 1 << iota
	duePing
	dueAssign
	dueBackPressure
	dueRequests // session.requests: runs, turns, answers with secrets
	dueBye
	dueRefuse // session.closing.refusal; then the connection closes
	dueClose  // close the connection
)

// Flush writes the pending messages of the session. A writer goroutine calls it.
func (x *session) Flush(w *core.WriteBuffers, due core.MessageSet) error {
	if due&dueAck != 0 {
		if err := x.sendAck(w); err != nil {
			return err
		}
	}
	if due&duePing != 0 {
		if err := x.Conn.Ping(x.Payload()); err != nil {
			return err
		}
	}
	if due&dueAssign != 0 {
		if err := x.sendAssignment(w); err != nil {
			return err
		}
	}
	if due&(dueBackPressure|dueRequests|dueBye|dueRefuse|dueClose) != 0 {
		return x.sendRareMessages(w, due)
	}
	return nil
}

// reusedAck returns an acknowledgement message whose memory a writer goroutine reuses for each session. The
// writer reuses it for all sessions to avoid allocation.
func reusedAck(w *core.WriteBuffers) *wire.Ack {
	a, ok := w.More.(*wire.Ack)
	if !ok {
		a = new(wire.Ack)
		w.More = a
	}
	return a
}

// sendAck tells the agent which results the journal has stored. Refusals beyond the limit of one Ack go ahead of the
// acknowledgement: an agent forgets acknowledged signals, and a refusal after that would name nothing.
func (x *session) sendAck(w *core.WriteBuffers) error {
	a := reusedAck(w)
	last := a.Last[:0]
	x.Mu.Lock()
	for i := range x.streams {
		if st := &x.streams[i]; st.due {
			last = append(last, wire.StreamLast{StreamKey: st.StreamKey, Last: st.acked})
			st.due = false
		}
	}
	refused := x.refused
	x.refused = nil
	x.Mu.Unlock()
	defer func() { a.Last, a.Refused = last, nil }()
	for {
		n := min(len(refused), wire.MaxSignals)
		a.Last, a.Refused, refused = nil, refused[:n], refused[n:]
		if len(refused) == 0 {
			a.Last = last
		}
		w.Frame = wire.AppendAck(w.NewFrame(), a)
		x.srv.metrics.acks.Inc()
		if err := x.Conn.Write(w.Frame); err != nil || len(refused) == 0 {
			return err
		}
	}
}

// sendMessage writes a message to the agent, and counts the message by kind in the metrics.
func (x *session) sendMessage(frame []byte, kind string) error {
	x.srv.metrics.sent.WithLabelValues(kind).Inc()
	return x.Conn.Write(frame)
}

// sendRareMessages writes all pending messages other than acknowledgements, pings and assignments, such as
// refusals. Acknowledgements, pings and assignments are not among them. The last message may end the session.
func (x *session) sendRareMessages(w *core.WriteBuffers, due core.MessageSet) error {
	x.Mu.Lock()
	runs, turns, answers := x.requests.takeUnsent()
	refusal, slow := x.closing.refusal, x.slowdown
	x.Mu.Unlock()
	var err error
	send := func(kind string, frame []byte) { // after a failed write, no further message is written
		if w.Frame = frame; err == nil {
			err = x.sendMessage(frame, kind)
		}
	}
	if due&dueBackPressure != 0 {
		send("slow", wire.AppendBackPressure(w.NewFrame(), &wire.BackPressure{LingerMs: x.srv.jitterMs(slow.linger), Reason: slow.reason, LastsMs: x.srv.slowdownMs()}))
	}
	for i := range runs {
		send("run", wire.AppendRun(w.NewFrame(), &runs[i]))
	}
	if len(turns) > 0 {
		send("round_robin_runs", wire.AppendRoundRobinRuns(w.NewFrame(), &wire.RoundRobinRuns{Runs: turns}))
	}
	for i := range answers {
		send("exchange", wire.AppendExchange(w.NewFrame(), &answers[i]))
		clear(w.Frame) // no secret stays in the writer's memory
	}
	if due&dueBye != 0 {
		retry := time.Duration(x.srv.drainRetry.Load()) * time.Millisecond
		send("bye", wire.AppendBye(w.NewFrame(), &wire.Bye{Reason: "the server is stopping", RetryMs: x.srv.jitterMs(retry)}))
	}
	if err != nil {
		return err
	}
	if due&dueRefuse != 0 {
		x.srv.metrics.sent.WithLabelValues("refuse").Inc()
		err := sendRefuse(x.Conn, w.NewFrame(), refusal)
		// A reader that still runs reads the frames under way, then ends.
		_ = x.Conn.NetConn().SetReadDeadline(time.Now().Add(admission.LingerTime))
		x.FlushFailed()
		return err
	}
	if due&dueClose != 0 {
		return x.Conn.Close()
	}
	return nil
}

// Close codes of WebSocket (RFC 6455, section 7.4.1).
const (
	closeProtocol = 1002
	closePolicy   = 1008
	closeTooLarge = 1009
)

// sendRefuse sends the agent a Refuse message, and then a WebSocket close frame.
func sendRefuse(conn *wsconn.Conn, frame []byte, r *wire.Refuse) error {
	code := uint16(closePolicy)
	switch r.Code {
	case "websocket":
		code = closeProtocol
	case "too_large":
		code = closeTooLarge
	}
	if err := conn.Write(wire.AppendRefuse(frame, r)); err != nil {
		return err
	}
	return conn.WriteClose(code, r.Code)
}
