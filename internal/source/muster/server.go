package muster

import (
	"context"
	"crypto/tls"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"golang.org/x/time/rate"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// Path is the URL path of agents' sessions.
const Path = "/agent/v1/session"

// Server serves the sessions of all agents that connect by the Muster protocol.
type Server struct {
	cfg           Config
	metrics       *metrics
	ws            wsconn.Options
	sessionLosses sessionLossDetector
	limiter       core.Limiter
	pressures     core.FillLevels
	arrivals      arrivalLimits
	admission     *admission.Admission
	archives      *core.Archives
	runOutput     *core.RunOutput

	life     *core.Goroutines
	registry core.Registry[session]
	acks     *core.WriterQueue[*session]
	pushes   *core.WriterQueue[*session]

	started          time.Time  // of New, with its monotonic reading
	clock            core.Clock // listening time
	logSecretRefusal rate.Sometimes
	logHashMismatch  rate.Sometimes
	drainRetry       atomic.Int64 // ms after which agents come back while the server drains; 0: it does not drain
	closingSessions  atomic.Int64 // sessions that leave the registry and have not written the mark of their end

	batches sync.Pool // *wire.BatchReader
	records sync.Pool // *core.Record
}

// New returns a server for agents, after a check of its configuration. No goroutine runs before Run.
func New(cfg Config) (*Server, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	l := &cfg.Limits
	s := &Server{cfg: cfg, ws: wsconn.Options{Timeout: l.Write, Buffers: new(wsconn.Buffers)}, life: core.NewGoroutines(), logSecretRefusal: admission.OncePerMinute(), logHashMismatch: admission.OncePerMinute(),
		pressures: core.FillLevels{Stats: cfg.Journal.Stats, QueueBytes: l.JournalQueueBytes, OtherQueues: cfg.Pressures}}
	s.metrics = newMetrics(cfg.Registerer, func() float64 { return float64(s.Sessions()) }, func() float64 { share, _ := s.pressures.Highest(); return max(0, share) })
	cfg.Registerer.MustRegister(fleetMetrics{s})
	s.batches.New = func() any { return new(wire.BatchReader) }
	s.records.New = func() any { return new(core.BatchEncoder) }
	s.acks = core.NewWriterQueue[*session](s.life, core.Acks, "session-acks", l.Sessions, cfg.Queues, s.metrics.Stuck.Inc)
	s.pushes = core.NewWriterQueue[*session](s.life, core.Pushes, "session-pushes", l.Sessions, cfg.Queues, s.metrics.Stuck.Inc)
	s.runOutput = core.NewRunOutput(cfg.Queues)
	s.archives = core.NewArchives(cfg.Assets, cfg.Assignments, cfg.Queues, cfg.Log)
	s.admission = admission.New(l.Connections, cfg.ProxyFrom, s.metrics.Handshakes, cfg.Registerer, cfg.Log)
	s.limiter.LimiterConfig = core.LimiterConfig{
		Namespace: cfg.Nodes.Namespace, Defaults: core.NamespaceLimits{NodeResultsPerSec: l.NodeResultsPerSec, OutputBytes: l.OutputBytes},
		Burst: l.RateBurst, Monotonic: s.monotonicNs, Now: cfg.Now, LimitReached: s.metrics.limits, Turns: cfg.Turns,
	}
	s.sessionLosses.configure(l, cfg.OnSessionLoss)
	s.started = cfg.Now()
	s.clock.Start(s.started.UnixNano())
	cfg.Assignments.Subscribe(s.reassign)
	return s, nil
}

// monotonicNs returns the nanoseconds of monotonic time since the creation of the server. It is never zero, and
// the wall clock does not matter.
func (s *Server) monotonicNs() int64 { return 1 + int64(s.cfg.Now().Sub(s.started)) }

// pushWriters is the number of goroutines that write assignments. It is small, because encoding takes a processor.
const pushWriters = 2

// Run starts the writers, monitors sessions and queues until ctx ends, and then closes every session. Drain first for
// a planned stop.
func (s *Server) Run(ctx context.Context) error {
	s.acks.Start(s.cfg.Limits.Writers)
	s.pushes.Start(pushWriters)
	s.life.Go(func() { s.slowAgents(ctx) })
	s.clock.Run(ctx, s.cfg.Now, func(_ time.Time, now int64) {
		s.limiter.Refresh()
		s.acks.AddWriterIfStuck()
		s.pushes.AddWriterIfStuck()
		s.registry.ForEach(func(x *session) { s.watchSession(x, now) })
	})
	s.life.Stop(func() { s.registry.ForEach(func(x *session) { x.Conn.Close() }) }, s.acks, s.pushes)
	return nil
}

// changedRetry spreads a namespace's new sessions after a change of limits, over more than one second.
const changedRetry = 6 * time.Second

// watchSession pings the agent of a silent session and closes the session if no answer comes. A session whose reader
// waits for the journal or a limit is not silent: it is pinged, so that the agent does not take the server for dead,
// and stays. A session whose agent cuts outputs to another length than the present limit starts again, because it
// would lose or cut results.
func (s *Server) watchSession(x *session, now int64) {
	if agreed := x.maxOutput.Load(); agreed != 0 && agreed != int64(x.Budget.Limits().OutputBytes) {
		x.refuse(s.newRefusal("changed", "the limit of check output has changed: the agent connects again", changedRetry))
		return
	}
	switch silence, busy := x.SinceLastFrame(now); {
	case silence > s.cfg.Limits.DeadAfter && !busy:
		s.pushes.Add(x, dueClose)
	case silence > s.cfg.Limits.PingAfter && x.PingDue(now, s.cfg.Limits.PingAfter):
		s.acks.Add(x, duePing)
	}
}

// Drain asks all agents to reconnect later, and ends their sessions. The time is about the duration retry. New
// sessions are refused. It returns when all sessions have ended and their marks are in the journal, or ctx ends.
func (s *Server) Drain(ctx context.Context, retry time.Duration) {
	s.drainRetry.Store(max(1, retry.Milliseconds()))
	s.registry.ForEach(func(x *session) { s.pushes.Add(x, dueBye) })
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for s.Sessions() > 0 || s.closingSessions.Load() > 0 { // in this order: closingSessions counts a session before it leaves the registry
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Disconnect ends the session of a node with a reason for the agent. Reasons are that the node was revoked or deleted,
// or that its keepalive or limits changed.
func (s *Server) Disconnect(node model.NodeID, code, sentence string) {
	if x := s.registry.Get(node); x != nil {
		x.refuse(s.newRefusal(code, sentence, time.Second))
	}
}

// EndReplacedSession ends the session of a machine whose node now belongs to another machine. If gone has a code, the
// agent is sent gone as the refusal.
func (s *Server) EndReplacedSession(node model.NodeID, gone Retirement) {
	x := s.registry.Get(node)
	switch {
	case x == nil:
	case gone.Code != "":
		x.refuse(s.refuseRetired(gone))
	default:
		x.refuse(s.refuseReplaced(&x.Node, ""))
	}
}

// Limiter returns the rate limits of namespaces, shared by all sources.
func (s *Server) Limiter() *core.Limiter { return &s.limiter }

// FillLevels returns the fill levels of the server's resources, by which sources slow their senders.
func (s *Server) FillLevels() *core.FillLevels { return &s.pressures }

// Admission returns the limit on the number of open connections, which all listeners share.
func (s *Server) Admission() *admission.Admission { return s.admission }

// Archives returns the opener of asset archives for agents of all sources.
func (s *Server) Archives() *core.Archives { return s.archives }

// Connected reports whether the node has a session on the server.
func (s *Server) Connected(node model.NodeID) bool { return s.registry.Get(node) != nil }

// Sessions returns the number of open agent sessions.
func (s *Server) Sessions() int { return s.registry.Len() }

// jitterMs returns a random duration between 0.5 d and 1.5 d, in milliseconds.
func (s *Server) jitterMs(d time.Duration) uint32 {
	return uint32(float64(d.Milliseconds()) * (0.5 + s.cfg.Rand()))
}

// reassign wakes a writer goroutine for each session whose agent has a changed assignment. It ends the sessions
// of deleted nodes.
func (s *Server) reassign(changed directory.Change) {
	for _, node := range changed.Assignments {
		x := s.registry.Get(node)
		if x == nil {
			continue
		}
		if s.cfg.Assignments.AssignmentOf(node) == nil {
			if _, ok := s.cfg.Nodes.Lookup(x.UID); !ok {
				r := s.refuseUnknown(x.UID, x.Node.Key)
				if r.Code == "unknown" {
					r.Message = "the node was deleted"
				}
				x.refuse(r)
				continue
			}
		}
		s.pushes.Add(x, dueAssign)
	}
}

// sessionLossDetector detects a sudden loss of many sessions, for example when a network switch fails.
type sessionLossDetector struct {
	window time.Duration
	share  float64 // part of all sessions whose loss is reported
	least  int     // sessions
	report func(SessionLoss)

	mu    sync.Mutex
	slots [16]struct {
		index int64
		n     int
	} // ring; each slot is a sixteenth of the window
	reported bool // the present loss of sessions was reported
}

// configure sets the thresholds (number, share, time) of a sudden loss of sessions, and the report function. It
// also sets the function for the report.
func (w *sessionLossDetector) configure(l *Limits, report func(SessionLoss)) {
	w.window, w.share, w.least, w.report = l.ShedWindow, l.ShedShare, l.ShedLeast, report
}

// addEndedSession counts a session that ended without a goodbye, and reports when many end at once. The announcement
// is a Bye message.
func (w *sessionLossDetector) addEndedSession(now int64, remaining int) {
	w.mu.Lock()
	index := now / (int64(w.window) / int64(len(w.slots)))
	slot := &w.slots[index%int64(len(w.slots))]
	if slot.index != index {
		slot.index, slot.n = index, 0
	}
	slot.n++
	lost := 0
	for _, s := range w.slots {
		if index-s.index < int64(len(w.slots)) {
			lost += s.n
		}
	}
	before := lost + remaining
	sudden := lost >= w.least && float64(lost) > w.share*float64(before)
	report := sudden && !w.reported
	w.reported = sudden || w.reported && lost > w.least/2
	w.mu.Unlock()
	if report && w.report != nil {
		w.report(SessionLoss{Sessions: lost, Before: before, Window: w.window})
	}
}

// helloFields holds the fields of the agent's Hello that the session keeps. It does not change.
type helloFields struct {
	version unique.Handle[string]
	refuses unique.Handle[string] // one per line; a handle, because a fleet has few kinds of agents
	kinds   definitionKinds
	origin  machineOrigin
	skew    time.Duration // of the machine's clock; positive: ahead of the server's
}

// helloFieldsOf returns the fields of a Hello message that the server keeps during the session.
func helloFieldsOf(hello *wire.Hello, now time.Time) helloFields {
	h := helloFields{version: unique.Make(hello.Version), refuses: unique.Make(strings.Join(hello.Restrictions, "\n")), kinds: definitionKindsOf(hello.Features), origin: originOf(hello)}
	if hello.ClockUnixMs != 0 {
		h.skew = time.UnixMilli(hello.ClockUnixMs).Sub(now.Truncate(time.Millisecond))
	}
	return h
}

// refusesRun returns the reason why the agent refuses an ad-hoc run, from its Hello message. It is an empty text if
// the agent accepts the run.
func (h *helloFields) refusesRun(run *wire.Run) string {
	refuses := strings.Split(h.refuses.Value(), "\n")
	switch {
	case slices.Contains(refuses, wire.RestrictRuns):
		return "refused by the agent's setting --no-run: it runs checks by their schedule only"
	case run.Command != nil && slices.Contains(refuses, wire.RestrictChanges):
		return "refused by the agent's setting --audit-only: it runs no requested commands"
	}
	return ""
}

// agentReport is the agent's last report about its own state, with its time.
type agentReport struct {
	wire.Stats
	at          int64   // monotonic time of its arrival, ns
	forksPerMin float64 // forks per minute since the report before, or since the agent started
}

// minStatsInterval is the shortest time between two reports of one agent that are read.
const minStatsInterval = 5 * time.Second

// storeAgentStats stores the agent's latest statistics in memory.
func (x *session) storeAgentStats(body []byte) frameOutcome {
	now, before := x.srv.monotonicNs(), x.report.Load()
	if before != nil && now-before.at < int64(minStatsInterval) {
		return requestTooSoon
	}
	r := &agentReport{at: now}
	if err := r.Decode(body); err != nil {
		return x.endForViolation(frameMalformed, err.Error())
	}
	forks, ms := r.Forks, r.UptimeMs
	if before != nil && before.Forks <= r.Forks && before.UptimeMs < r.UptimeMs {
		forks, ms = r.Forks-before.Forks, r.UptimeMs-before.UptimeMs
	}
	if ms > 0 {
		r.forksPerMin = float64(forks) / (float64(ms) / 60e3)
	}
	x.report.Store(r)
	return agentStats
}

// Agent describes the connected agent of a node, from the data of its session. ok is false without a session.
func (s *Server) Agent(node model.NodeID) (a core.Agent, ok bool) {
	x := s.registry.Get(node)
	if x == nil {
		return a, false
	}
	nc := x.Conn.NetConn()
	a = core.Agent{Version: x.hello.version.Value(), Since: time.Unix(0, x.Since), Skew: x.hello.skew, Address: nc.RemoteAddr().String()}
	if text := x.hello.refuses.Value(); text != "" {
		a.Refuses = strings.Split(text, "\n")
	}
	if conn, is := nc.(*tls.Conn); is {
		if chain := conn.ConnectionState().PeerCertificates; len(chain) > 0 {
			a.Certificate = chain[0].NotAfter
		}
	}
	x.Mu.Lock()
	if sent := x.assignment.sent; sent != nil {
		a.Assigned, a.Confirmed = sent.Generation.Revision, x.assignment.unconfirmed == 0
	}
	x.Mu.Unlock()
	a.Idle = x.idleUnits()
	if r := x.report.Load(); r != nil {
		a.Report = &core.AgentReport{Stats: r.Stats, ForksPerMin: r.forksPerMin, Age: time.Duration(s.monotonicNs() - r.at)}
	}
	return a, true
}
