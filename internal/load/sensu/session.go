package sensu

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// session is one connection of an agent. The agent's lock guards it, but for reading.
type session struct {
	agent    *agent
	conn     *wsconn.Conn
	codec    sensuwire.Codec
	began    bool             // it had its entity_config, or waited long enough for it
	sequence map[string]int64 // events sent, by check
}

// connect opens a session and serves it until its end; registered reports whether the agent could work.
func (a *agent) connect(ctx context.Context, to string) (registered bool, err error) {
	conn, speaks, err := a.open(ctx, to)
	if err != nil {
		if ctx.Err() == nil {
			a.target.count(func(sum *report.Totals) { sum.Failed++ })
		}
		return false, err
	}
	s := &session{agent: a, conn: conn, codec: speaks, sequence: map[string]int64{}}
	stop := context.AfterFunc(ctx, s.leave)
	defer stop()
	a.mu.Lock()
	a.session = s
	s.after(registerGrace, s.begin)
	s.after(pingEvery, s.ping)
	a.mu.Unlock()
	a.target.count(func(sum *report.Totals) { sum.Connected++ })
	err = s.read()
	a.target.count(func(sum *report.Totals) {
		if sum.Connected--; ctx.Err() == nil {
			sum.Lost++
		}
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.session = nil
	_ = conn.Close()
	return s.began, err
}

// after calls f after a time with the lock held, unless the session has ended.
func (s *session) after(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		s.agent.mu.Lock()
		defer s.agent.mu.Unlock()
		if s.agent.session == s {
			f()
		}
	})
}

// leave closes the connection as agents do, with code 1001 and the reason bye.
func (s *session) leave() {
	_ = s.conn.WriteClose(1001, "bye")
	_ = s.conn.NetConn().SetReadDeadline(time.Now())
}

// read reads messages until the connection ends. Only pongs show that the backend lives.
func (s *session) read() error {
	nc := s.conn.NetConn()
	_ = nc.SetReadDeadline(time.Now().Add(pongWithin))
	for {
		if err := s.conn.Wait(); err != nil {
			return err
		}
		op, message, err := s.conn.Read(maxMessage)
		if err != nil {
			return err
		}
		switch op {
		case wsconn.Pong:
			_ = nc.SetReadDeadline(time.Now().Add(pongWithin))
		case wsconn.Binary:
			if err := s.take(message); err != nil {
				return err
			}
		}
	}
}

// take handles one message, and ignores unknown kinds.
func (s *session) take(message []byte) error {
	kind, body, err := sensuwire.Parse(message)
	if err != nil {
		return err
	}
	switch string(kind) {
	case sensuwire.TypeEntityConfig:
		c, err := s.codec.ParseConfig(body)
		if err != nil {
			return err
		}
		s.agent.mu.Lock()
		defer s.agent.mu.Unlock()
		if c.Name != sensuwire.UnknownEntity && c.Name != "" {
			s.agent.entity.Subscriptions = c.Subscriptions
		}
		if !s.agent.registered {
			s.agent.registered = true
			s.agent.target.count(func(sum *report.Totals) { sum.Ready++ })
		}
		s.begin()
	case sensuwire.TypeCheckRequest:
		r, err := s.codec.ParseRequest(body)
		if err != nil {
			return err
		}
		return s.answer(&r)
	}
	return nil
}

// begin starts the keepalives and the answers to requests. Caller holds the lock.
func (s *session) begin() {
	if !s.began {
		s.began = true
		if a := s.agent; a.ready.IsZero() {
			a.ready = time.Now()
		}
		s.alive()
	}
}

// alive sends one keepalive. Caller holds the lock.
func (s *session) alive() {
	a := s.agent
	e := s.event("keepalive")
	e.Interval, e.Warning = uint32(a.keepalive/time.Second), uint32(a.warning/time.Second)
	if s.write(sensuwire.TypeKeepalive, e) == nil {
		a.target.count(func(sum *report.Totals) { sum.Alive++ })
	}
	s.after(a.keepalive, s.alive)
}

// ping sends a ping, to notice a dead backend. Caller holds the lock.
func (s *session) ping() {
	if s.conn.Ping(nil) != nil {
		_ = s.conn.Close()
	}
	s.after(pingEvery, s.ping)
}

// answer answers a request with the result of the check. It calls observe without the lock, because that may ask the agent for its
// state.
func (s *session) answer(r *sensuwire.ReceivedRequest) error {
	due := time.Now()
	sent, err := s.reply(r)
	if sent {
		s.agent.target.observe(time.Unix(r.Issued, 0), due, time.Now())
	}
	return err
}

// reply sends the result of a check.
func (s *session) reply(r *sensuwire.ReceivedRequest) (sent bool, err error) {
	a, t := s.agent, s.agent.target
	a.mu.Lock()
	defer a.mu.Unlock()
	key := r.Key()
	k := a.ledger[key]
	if k == nil {
		k = &entry{}
		a.ledger[key] = k
	}
	k.asked = time.Now()
	answers, missed := false, uint64(0)
	if !a.rest && s.began {
		answers, missed = k.answers(r)
	}
	t.count(func(sum *report.Totals) {
		sum.Requests++
		sum.Missed += missed
		if answers {
			sum.Sent++
		} else {
			sum.Dropped++
		}
	})
	if !answers {
		return false, nil
	}
	k.sent++
	e := s.event(key)
	e.Check, e.Issued, e.Executed = r.Check, r.Issued, e.Timestamp
	e.Status, e.Output = t.answer(a, key, k)
	if err := s.write(sensuwire.TypeEvent, e); err != nil {
		return false, model.Errorf(model.Unavailable, "send the result of %s: %w", key, err)
	}
	k.wrote(e.Executed, e.Status)
	t.count(func(sum *report.Totals) { sum.Written++ })
	return true, nil
}

// event returns the next event of a check. Caller holds the lock.
func (s *session) event(check string) *sensuwire.Event {
	s.sequence[check]++
	return &sensuwire.Event{ID: uuid.New(), Timestamp: time.Now().Unix(), Sequence: s.sequence[check], Entity: &s.agent.entity}
}

// write sends an event.
func (s *session) write(kind string, e *sensuwire.Event) error {
	err := s.conn.Write(s.codec.AppendEvent(sensuwire.NewMessage(kind), e))
	if err != nil {
		_ = s.conn.Close() // the reader ends, and the agent comes back
	}
	return err
}
