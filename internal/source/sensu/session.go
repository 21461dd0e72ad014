package sensu

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// session is one agent's connection after its handshake.
type session struct {
	srv   *Server
	conn  *wsconn.Conn
	codec sensuwire.Codec
	user  access.Program
	proof
	entity, namespace string // as the agent has them
	reached           string // scheme and host by which it reaches us
	uid               uuid.UUID
	since             int64 // Unix ns

	heard     atomic.Int64 // server clock of the last frame
	pinged    atomic.Int64
	deadAfter atomic.Int64 // of silence: the connection is closed
	paused    atomic.Bool  // the reader handles a message, or waits: it cannot hear

	// Set by begin; the reader's, but for node, which the registry publishes.
	begun      bool
	deregister bool // its machine wants to be forgotten when it stops
	ephemeral  bool // … and will be
	node       core.Node
	guessed    bool     // no keepalive came yet: patience is the server's
	patience   patience // changed by Appending
	id         uint64   // of the session
	section    journal.Section
	budget     core.Budget
	numbers    *numbers
	given      *given  // what it was sent of secrets; nil: nothing, ever
	sum        uint64  // of what the machine said of itself last
	closed     bool    // by the agent, with a word
	pending    *record // what was said and is not in the journal yet; nil: nothing
	told       [outcomes]bool
	brought    map[place]struct{} // events of passive checks that had room: the view may not have them yet

	row      row        // its place in the timetable
	planning sync.Mutex // held while jobs are made of the assignment

	core.Window

	// By Mu.
	duty     dueBits
	queued   bool
	asks     []*job
	found    []found // for requests
	jobs     []*job  // of its assignment, ascending by name
	revision uint64  // of it
	version  string  // of the agent
	probe    chan struct{}
	asked    []askedRun // by somebody, and not answered
	facts    map[string]string
}

// open begins the session of an agent that may come.
func (s *Server) open(nc net.Conn, o *offer) {
	x := &session{
		srv: s, conn: wsconn.Upgraded(nc, s.ws), codec: sensuwire.JSON{}, user: o.user, proof: o.proof,
		entity: o.said.Get("Sensu-Agentname"), namespace: o.said.Get("Sensu-Namespace"), since: s.cfg.Now().UnixNano(),
	}
	x.reached = "http://" + o.host
	if _, ok := nc.(*tls.Conn); ok || o.said.Get("X-Forwarded-Proto") == "https" {
		x.reached = "https://" + o.host
	}
	if o.proto {
		x.codec = sensuwire.Protobuf{}
	}
	stranger := x.stranger()
	x.uid = stranger.UID()
	x.Window.Open()
	x.heard.Store(s.clock.Now())
	x.deadAfter.Store(int64(s.cfg.Limits.DeadAfter))
	// The agent keeps its own configuration, and says at once that it lives.
	if x.conn.Write(x.codec.AppendConfig(sensuwire.Begin(nil, sensuwire.TypeEntityConfig), &sensuwire.Config{Name: sensuwire.UnknownEntity, Namespace: x.namespace})) != nil {
		s.metrics.logins.WithLabelValues("lost").Inc()
		_ = nc.Close()
		return
	}
	s.readers.Add(1)
	if s.stopping.Load() {
		s.readers.Done()
		_ = nc.Close()
		return
	}
	s.metrics.logins.WithLabelValues("welcome").Inc()
	s.connections.Add(1)
	s.registry.enter(x)
	go x.read()
}

func (x *session) stranger() *intent.ExternalAgent {
	return &intent.ExternalAgent{System: system, Namespace: x.namespace, Name: x.entity}
}

// read handles messages until the session ends.
func (x *session) read() {
	defer x.srv.readers.Done()
	var cause string
	for cause == "" {
		if err := x.conn.Wait(); err != nil {
			cause = x.readError(err)
		} else {
			cause = x.message()
		}
	}
	x.end(cause)
}

// message handles what has come; not empty: why the session ends.
func (x *session) message() (cause string) {
	op, frame, err := x.conn.Read(x.srv.cfg.Limits.MessageBytes)
	if err != nil {
		return x.readError(err)
	}
	x.heard.Store(x.srv.clock.Now())
	x.paused.Store(true)
	switch op {
	case wsconn.Binary:
		x.srv.metrics.received.Inc()
		x.srv.metrics.bytes.Add(float64(len(frame)))
		var out outcome
		if out, cause = x.take(frame); out != pending {
			x.srv.metrics.messages[out].Inc()
		}
	case wsconn.Pong:
		x.answered()
	}
	if cause == "" && !x.conn.More() { // what came together is handed over together
		cause = x.handOver()
	}
	if cause == "" {
		cause = x.pay()
	}
	x.paused.Store(false)
	x.heard.Store(x.srv.clock.Now())
	return cause
}

// take handles one message. Every way out is an outcome, or pending.
func (x *session) take(frame []byte) (out outcome, cause string) {
	kind, body, err := sensuwire.Parse(frame)
	if err != nil {
		return x.complain(malformed, err.Error()), ""
	}
	keepalive := string(kind) == sensuwire.TypeKeepalive
	if !keepalive && string(kind) != sensuwire.TypeEvent {
		return unknownKind, ""
	}
	said := x.srv.saids.Get().(*sensuwire.Said)
	defer x.srv.saids.Put(said)
	if err := x.codec.ReadSaid(body, said); err != nil {
		return x.complain(malformed, err.Error()), ""
	}
	if string(said.Entity) != x.entity || len(said.Namespace) > 0 && string(said.Namespace) != x.namespace {
		return x.complain(other, "an event of "+string(said.Namespace)+"/"+string(said.Entity)+": an agent speaks for itself alone"), ""
	}
	if !x.begun {
		if err := x.begin(said, keepalive); err != nil {
			return displaced, x.turnAway(err)
		}
	}
	if keepalive {
		if x.guessed {
			x.learn(said)
		}
		if said.Sum != x.sum {
			x.seen(said, true)
		}
		return x.add(0, nil, directory.ProxyNode{})
	}
	return x.event(said)
}

// complain tells the operator once per session and kind of refusal; the metrics have all.
func (x *session) complain(out outcome, reason string) outcome {
	if !x.told[out] {
		x.told[out] = true
		x.srv.cfg.Log.Warn("what a Sensu agent sends is refused; of further ones only the metrics tell", "entity", x.entity, "namespace", x.namespace, "why", outcomeNames[out], "reason", reason)
	}
	return out
}

// turnAway ends a connection that cannot become its node's session. It is closed later: an
// agent whose handshake succeeded comes back at once.
func (x *session) turnAway(err error) (cause string) {
	x.srv.told.Do(func() {
		x.srv.cfg.Log.Warn("a Sensu agent is sent away; of others within a minute only the metrics tell", "entity", x.entity, "namespace", x.namespace,
			"from", x.conn.NetConn().RemoteAddr().String(), "why", err)
	})
	timer := time.NewTimer(x.srv.cfg.Limits.Away)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-x.srv.base.Done():
	}
	_ = x.conn.WriteClose(1008, err.Error())
	return "refused"
}

// readError names the reason why reading ended.
func (x *session) readError(err error) string {
	cause := core.ReadCause(err)
	switch cause {
	case "too_large":
		_ = x.conn.WriteClose(1009, err.Error())
		x.complain(malformed, err.Error())
	case "websocket":
		_ = x.conn.WriteClose(1002, err.Error())
	case "closed":
		x.closed = true
	}
	return cause
}

// end is the last thing that happens to a session.
func (x *session) end(cause string) {
	_ = x.handOver()
	x.Mu.Lock()
	x.EndLocked()
	x.jobs, x.found = nil, nil
	asked := x.asked
	x.asked = nil
	x.Mu.Unlock()
	for i := range asked {
		asked[i].answer.Lost("its session ended (" + cause + ") before the run did")
	}
	x.srv.timetable.drop(x)
	x.answered()
	x.srv.connections.Add(-1)
	x.srv.metrics.ended.WithLabelValues(cause).Inc()
	last := x.srv.registry.remove(x)
	if x.begun && x.srv.cfg.OnEnded != nil {
		x.srv.cfg.OnEnded(x.node.ID)
	}
	if cause == "refused" || cause == "too_large" || cause == "websocket" {
		x.conn.Part(partWithin)
	} else {
		_ = x.conn.Close()
	}
	if !last || x.srv.stopping.Load() {
		return
	}
	x.srv.cfg.Log.Debug("session of a Sensu agent ended", "node", x.node.Name, "cause", cause)
	_ = x.srv.cfg.Journal.Append(x.srv.base, journal.Entry{Section: x.section, Data: x.mark(false, x.deregister && (x.closed || x.ephemeral))})
}

// mark is the journal record of a beginning or an end.
func (x *session) mark(begun, clean bool) []byte {
	n := x.node
	n.Keepalive, n.Warning, n.Timeout = x.patience.keepalive, x.patience.warning, x.patience.timeout
	return n.Mark(wire.SessionMark{Session: x.id, Begun: begun, Clean: clean})
}

// tend pings a silent session, and closes one that does not answer or says nothing at first.
// One whose reader waits for the journal or for a limit is not silent, we are: it is told
// that we live, because its pings are not read.
func (x *session) tend(now int64) {
	l := &x.srv.cfg.Limits
	silent := now - x.heard.Load()
	pinged := now-x.pinged.Load() <= int64(l.PingAfter)/3
	switch {
	case x.paused.Load():
		if !pinged {
			x.pinged.Store(now)
			x.due(duePong)
		}
	case silent > x.deadAfter.Load():
		x.due(dueClose)
	case silent > int64(l.PingAfter) && !pinged:
		x.pinged.Store(now)
		x.due(duePing)
	}
}

// pay takes a token for a message, and waits while there is debt.
func (x *session) pay() (cause string) {
	if !x.begun {
		return ""
	}
	debt := x.budget.Spend(&core.Charge{core.LoadResults: 1})
	if debt.Wait == 0 {
		return ""
	}
	x.srv.metrics.throttled.Inc()
	x.budget.Hit(debt.Limit(), "a Sensu agent sends more than its limit")
	x.budget.Wait(x.srv.base, debt.Wait, &x.Window)
	if x.srv.base.Err() != nil {
		return "cut"
	}
	return ""
}
