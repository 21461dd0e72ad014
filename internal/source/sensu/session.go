package sensu

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// session is the session of one Sensu agent after its handshake. The embedded core.Session has no node before
// register has returned.
type session struct {
	core.Session
	agentIdentity
	srv       *Server
	codec     sensuwire.Codec
	deadAfter atomic.Int64 // silence after which the connection is closed, ns

	// Set by register.
	registered bool
	departure  agentDeparture
	keepalive  keepaliveTimes
	numbers    *streamNumbers
	sent       *sentSecrets // nil: the agent never got any

	// The reader goroutine alone uses the fields below.
	machineSum    uint64 // hash of the agent's last description of its machine
	closedByAgent bool   // the agent has sent a close frame
	pending       *signalRecord
	points        int    // metric points of the last message
	clockAhead    *int64 // least time from a request to its command by the agent's clock, s; nil: no request was answered
	logged        [outcomes]bool
	admitted      map[eventKey]struct{} // events of passive checks that had room; the view may not have them yet

	timetable timetable
	planning  sync.Mutex // held while jobs are made of the assignment

	// Guarded by Mu.
	sessionJobs
	version  string // of the agent
	facts    map[string]string
	redacted []string // labels.KEY and annotations.KEY whose values the agent does not tell, ascending
}

// agentIdentity has the names and user that an agent stated when the agent connected. It has names and user, and
// whether a certificate proves them.
type agentIdentity struct {
	identityProof
	user              access.Program
	entity, namespace string // names as the agent sent them
	url               string // scheme and host by which the agent reaches the server
}

// externalAgent returns the agent's system, namespace and name, by which the inventory identifies its node.
func (o *agentIdentity) externalAgent() *intent.ExternalAgent {
	return &intent.ExternalAgent{System: agentSystem, Namespace: o.namespace, Name: o.entity}
}

// openSession opens the session of an admitted agent.
func (s *Server) openSession(nc net.Conn, o *handshakeRequest) {
	x := &session{srv: s, codec: sensuwire.JSON,
		agentIdentity: agentIdentity{user: o.user, identityProof: o.identityProof, entity: o.header.Get("Sensu-Agentname"), namespace: o.header.Get("Sensu-Namespace"), url: "http://" + o.host}}
	if _, ok := nc.(*tls.Conn); ok || o.header.Get("X-Forwarded-Proto") == "https" {
		x.url = "https://" + o.host
	}
	if o.protobuf {
		x.codec = sensuwire.Protobuf
	}
	x.Conn, x.Since, x.UID = wsconn.NewServerConn(nc, s.ws), s.cfg.Now().UnixNano(), x.externalAgent().UID()
	x.Open(s.clock.Now())
	x.deadAfter.Store(int64(s.cfg.Limits.DeadAfter))
	// This message lets the agent keep its own configuration. The agent answers with a keepalive.
	if x.Conn.Write(x.codec.AppendConfig(sensuwire.NewMessage(sensuwire.TypeEntityConfig), &sensuwire.Config{Name: sensuwire.UnknownEntity, Namespace: x.namespace})) != nil {
		s.metrics.Handshakes.WithLabelValues("lost").Inc()
		_ = nc.Close()
		return
	}
	if !s.life.AddReader() {
		_ = nc.Close()
		return
	}
	s.metrics.Handshakes.WithLabelValues("welcome").Inc()
	s.connections.Add(1)
	s.registry.addUnregistered(x)
	go s.life.Read(x.Conn, x)
}

// Message reads and handles one message.
func (x *session) Message() (cause string) {
	op, frame, err := x.Conn.Read(x.srv.cfg.Limits.MessageBytes)
	if err != nil {
		return x.ReadFailed(err)
	}
	size := len(frame)
	x.MarkBusy(x.srv.clock.Now())
	defer func() { x.MarkIdle(x.srv.clock.Now()) }()
	switch op {
	case wsconn.Binary:
		x.srv.metrics.Received.Inc()
		x.srv.metrics.Bytes.Add(float64(len(frame)))
		var out messageOutcome
		if out, cause = x.handleMessage(frame); out != pendingOutcome {
			x.srv.metrics.messages[out].Inc()
		}
	case wsconn.Pong:
		x.Pong(frame)
	}
	if cause == "" && !x.Conn.HasFrame() { // messages that arrived together are one commit
		cause = x.commitPending()
	}
	if cause == "" {
		cause = x.chargeMessage(size)
	}
	return cause
}

// handleMessage handles one message of the agent, and counts the outcome in the metrics. It returns exactly one
// outcome, or pendingOutcome.
func (x *session) handleMessage(frame []byte) (out messageOutcome, cause string) {
	kind, body, err := sensuwire.Parse(frame)
	if err != nil {
		return x.refuseMessage(messageMalformed, err.Error()), ""
	}
	keepalive := string(kind) == sensuwire.TypeKeepalive
	if !keepalive && string(kind) != sensuwire.TypeEvent {
		return unknownKind, ""
	}
	received := x.srv.events.Get().(*sensuwire.ReceivedEvent)
	defer x.srv.events.Put(received)
	if err := x.codec.ReadEvent(body, received); err != nil {
		return x.refuseMessage(messageMalformed, err.Error()), ""
	}
	if string(received.Entity) != x.entity || len(received.Namespace) > 0 && string(received.Namespace) != x.namespace {
		return x.refuseMessage(otherEntity, "an event of entity "+string(received.Namespace)+"/"+string(received.Entity)+": an agent may report on its own entity only"), ""
	}
	begun := !x.registered
	if begun {
		if err := x.register(received, keepalive); err != nil {
			return sessionDisplaced, x.refuseRegistration(err)
		}
	}
	if !keepalive {
		return (&incomingEvent{x, received}).handleEvent()
	}
	if received.Sum != x.machineSum {
		x.recordMachine(received, true)
	}
	if (begun || x.updateKeepaliveTimes(received)) && x.keepalive.every {
		return keepaliveKept, "" // pipelines evaluate the session's beginning as this keepalive
	}
	return x.addSignal(0, 0, nil, directory.ProxyNode{})
}

// refuseMessage logs a refused message, once per session for each reason, and returns its outcome. The metrics count
// all.
func (x *session) refuseMessage(out messageOutcome, reason string) messageOutcome {
	if !x.logged[out] {
		x.logged[out] = true
		x.srv.cfg.Log.Warn("refused a message of a Sensu agent; one line per session and outcome, see muster_sensu_messages_total",
			"entity", x.entity, "namespace", x.namespace, "outcome", outcomeNames[out], "reason", reason)
	}
	return out
}

// refuseRegistration closes a refused connection only after a delay, because the agent reconnects at once.
func (x *session) refuseRegistration(err error) (cause string) {
	x.srv.logRefusal.Do(func() {
		x.srv.cfg.Log.Warn("refused a Sensu agent; at most one line a minute, see muster_sensu_ended_total", "entity", x.entity, "namespace", x.namespace,
			"from", x.Conn.NetConn().RemoteAddr().String(), "err", err)
	})
	_ = pause.For(x.srv.life.Base, x.srv.cfg.Limits.RefusalDelay)
	_ = x.Conn.WriteClose(1008, err.Error())
	return "refused"
}

// ReadFailed returns the cause of a read error, as a metric label.
func (x *session) ReadFailed(err error) string {
	cause := core.ReadCause(err)
	switch cause {
	case "too_large":
		_ = x.Conn.WriteClose(1009, err.Error())
		x.refuseMessage(messageMalformed, err.Error())
	case "websocket":
		_ = x.Conn.WriteClose(1002, err.Error())
	case "closed":
		x.closedByAgent = true
	}
	return cause
}

// End ends the session.
func (x *session) End(cause string) {
	_ = x.commitPending()
	x.Mu.Lock()
	x.EndLocked()
	runs := x.runs
	x.sessionJobs = sessionJobs{}
	x.Mu.Unlock()
	for i := range runs {
		runs[i].pending.Abort(cause)
	}
	x.timetable.stop()
	x.Fail()
	x.srv.connections.Add(-1)
	x.srv.metrics.Ended.WithLabelValues(cause).Inc()
	last := x.srv.registry.removeSession(x)
	if x.registered && x.srv.cfg.OnEnded != nil {
		x.srv.cfg.OnEnded(x.Node.ID)
	}
	if cause == "refused" || cause == "too_large" || cause == "websocket" {
		x.Conn.CloseGracefully(admission.LingerTime)
	} else {
		_ = x.Conn.Close()
	}
	if !last || x.srv.life.Stopping() {
		return
	}
	x.srv.cfg.Log.Debug("session of a Sensu agent ended", "node", x.Node.Name, "cause", cause)
	clean := x.departure.requested && (x.closedByAgent || x.departure.ephemeral)
	_ = x.srv.cfg.Journal.Append(x.srv.life.Base, journal.Entry{Section: x.Section, Data: x.encodeSessionRecord(wire.SessionRecord{Clean: clean})})
}

// encodeSessionRecord encodes the journal record about the session's start or end. The record has the intervals of the
// agent's own keepalives, which may be known later than the node.
func (x *session) encodeSessionRecord(m wire.SessionRecord) []byte {
	n := x.Node
	n.Keepalive, n.Warning, n.Timeout, n.EveryKeepalive = x.keepalive.interval, x.keepalive.warning, x.keepalive.timeout, x.keepalive.every
	m.Session = x.ID
	return n.EncodeSessionRecord(m)
}

// chargeMessage counts a message against the rate limits, and pauses reading from the agent above a limit.
func (x *session) chargeMessage(bytes int) (cause string) {
	if !x.registered {
		return ""
	}
	debt := x.Budget.Spend(&core.TrafficCost{core.LoadResults: 1, core.LoadValues: x.points, core.LoadBytes: bytes})
	x.points = 0
	if debt.Wait == 0 {
		return ""
	}
	x.srv.metrics.throttled.Inc()
	x.Budget.Hit(debt.Limit(), debt.Reason())
	x.Budget.Wait(x.srv.life.Base, debt, &x.Window)
	if x.srv.life.Base.Err() != nil {
		return "cut"
	}
	return ""
}

// Duties of a session's writer.
const (
	duePlan core.MessageSet = 1 << iota // make jobs of the changed assignment
	dueRequests
	duePing
	duePong // a pong that the agent did not ask for
	dueClose
)

// requestRuns marks checks as due and wakes a writer goroutine to send the check requests.
func (x *session) requestRuns(list []*checkJob) {
	x.Mu.Lock()
	defer x.Mu.Unlock()
	if x.EndedLocked() {
		return
	}
	for _, j := range list {
		if !j.due {
			j.due = true
			x.sessionJobs.due = append(x.sessionJobs.due, j)
		}
	}
	x.srv.outbox.AddLocked(x, dueRequests)
}

// maxKeptFrames bounds the buffer for requests that a writer keeps, in bytes.
const maxKeptFrames = 64 << 10

// writerBuffers holds the buffers that a writer goroutine reuses to encode check requests.
type writerBuffers struct {
	frames   []byte
	jobs     []*checkJob
	resolved []resolvedJob
}

// Flush writes the due check requests and other pending messages of the session. A writer goroutine calls it.
func (x *session) Flush(w *core.WriteBuffers, due core.MessageSet) error {
	if due&dueClose != 0 {
		_ = x.Conn.WriteClose(1001, "the server ended the session: connect again")
		return x.Conn.Close()
	}
	if due&duePlan != 0 {
		x.planJobs()
	}
	if due&duePing != 0 {
		if err := x.Conn.Ping(x.Payload()); err != nil {
			return err
		}
	}
	if due&duePong != 0 {
		if err := x.Conn.Pong(); err != nil {
			return err
		}
	}
	if due&dueRequests != 0 {
		return x.sendRequests(w)
	}
	return nil
}

// FlushFailed closes the connection after a failed write.
func (x *session) FlushFailed() {}

// sendRequests sends all due check requests in one write.
func (x *session) sendRequests(w *core.WriteBuffers) error {
	m, ok := w.More.(*writerBuffers)
	if !ok {
		m = &writerBuffers{frames: make([]byte, 0, 4096)}
		w.More = m
	}
	x.Mu.Lock()
	m.jobs = append(m.jobs[:0], x.sessionJobs.due...)
	m.resolved = append(m.resolved[:0], x.resolved...)
	clear(x.sessionJobs.due)
	x.sessionJobs.due, x.resolved = x.sessionJobs.due[:0], nil
	for _, j := range m.jobs {
		j.due = false
	}
	x.Mu.Unlock()
	frames := m.frames[:0]
	for _, j := range m.jobs {
		if !j.resolveSecrets() {
			frames = j.appendRequestOrFail(frames)
		}
	}
	for i := range m.resolved {
		frames = m.resolved[i].appendRequest(frames)
	}
	if len(m.resolved) > 0 {
		defer clear(frames) // so that no secret stays in the writer's memory
		clear(m.resolved)
	}
	if cap(frames) <= maxKeptFrames {
		m.frames = frames
	}
	if len(frames) == 0 {
		return nil
	}
	return x.Conn.Send(frames)
}
