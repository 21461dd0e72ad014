package muster

import (
	"time"

	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// flush writes what is due. Only one writer per lane is here for a session.
func (x *session) flush(w *scratch, due dueBits) error {
	if due&dueAck != 0 {
		if err := x.sendAck(w); err != nil {
			return err
		}
	}
	if due&duePing != 0 {
		if err := x.conn.Ping(x.probe.Load().payload()); err != nil {
			return err
		}
	}
	if due&dueAssign != 0 {
		if err := x.sendAssignment(w); err != nil {
			return err
		}
	}
	if due&(dueSlow|dueRun|dueBye|dueRefuse|dueClose) != 0 {
		return x.sendRest(w, due)
	}
	return nil
}

// sendAck acknowledges what is kept; refusals beyond what one Ack may name go ahead with
// more of them: what is acknowledged the agent forgets, and then a refusal names nothing.
func (x *session) sendAck(w *scratch) error {
	a := &w.ack
	last := a.Last[:0]
	x.Mu.Lock()
	for i := range x.streams {
		if st := &x.streams[i]; st.fresh {
			last = append(last, wire.StreamLast{StreamKey: st.StreamKey, Last: st.acked})
			st.fresh = false
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
		w.frame = wire.AppendAck(w.begin(), a)
		x.srv.metrics.acks.Inc()
		if err := x.conn.Write(w.frame); err != nil || len(refused) == 0 {
			return err
		}
	}
}

func (x *session) send(frame []byte, kind string) error {
	x.srv.metrics.sent.WithLabelValues(kind).Inc()
	return x.conn.Write(frame)
}

// sendRest writes the rare messages; the last of them may end the session.
func (x *session) sendRest(w *scratch, due dueBits) error {
	x.Mu.Lock()
	runs, turns, answers, refusal, linger, reason := x.runs, x.turns, x.answers, x.refusal, x.linger, x.slowFor
	x.runs, x.turns, x.answers = nil, nil, nil
	x.Mu.Unlock()
	if due&dueSlow != 0 {
		w.frame = wire.AppendBackPressure(w.begin(), &wire.BackPressure{LingerMs: x.srv.jitterMs(linger), Reason: reason, LastsMs: x.srv.lastsMs()})
		if err := x.send(w.frame, "slow"); err != nil {
			return err
		}
	}
	for i := range runs {
		w.frame = wire.AppendRun(w.begin(), &runs[i])
		if err := x.send(w.frame, "run"); err != nil {
			return err
		}
	}
	if len(turns) > 0 {
		w.frame = wire.AppendTurn(w.begin(), &wire.Turn{Runs: turns})
		if err := x.send(w.frame, "turn"); err != nil {
			return err
		}
	}
	if err := x.sendAnswers(w, answers); err != nil {
		return err
	}
	if due&dueBye != 0 {
		retry := time.Duration(x.srv.draining.Load()) * time.Millisecond
		w.frame = wire.AppendBye(w.begin(), &wire.Bye{Reason: "the server is stopping", RetryMs: x.srv.jitterMs(retry)})
		if err := x.send(w.frame, "bye"); err != nil {
			return err
		}
	}
	if due&dueRefuse != 0 {
		x.srv.metrics.sent.WithLabelValues("refuse").Inc()
		err := sendRefuse(x.conn, w.begin(), refusal)
		// The reader, should it still read, takes what is on its way and then parts.
		_ = x.conn.NetConn().SetReadDeadline(time.Now().Add(partWithin))
		x.hasBeenTold()
		return err
	}
	if due&dueClose != 0 {
		return x.conn.Close()
	}
	return nil
}

// WebSocket's close codes for some of our refusals; the others are of a peer that
// may not.
const (
	closeProtocol = 1002
	closePolicy   = 1008
	closeTooLarge = 1009
)

// sendRefuse writes the Refuse and the close frame after it.
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
