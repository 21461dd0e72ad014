package sensu

import (
	"context"
	crand "crypto/rand"
	"crypto/tls"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/muster-fleet/muster/internal/authlimit"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// agentSystem is the name of Sensu in the node registrations of intent. Machines of other systems may have the same
// names.
const agentSystem = "sensu"

// Server serves the sessions of all Sensu agents by the protocol of Sensu's backend.
type Server struct {
	cfg                 Config
	metrics             *metrics
	ws                  wsconn.Options
	passwords           *authlimit.Limiter
	logRefusal          rate.Sometimes
	logUnusableHandlers rate.Sometimes

	life        *core.Goroutines
	registry    sessionRegistry
	connections atomic.Int64
	outbox      *core.WriterQueue[*session]
	prepared    preparedChecks
	creation    checkCreator

	archiveKey [32]byte  // of the tokens by which agents fetch archives
	started    time.Time // of New, with its monotonic reading
	clock      core.Clock

	events  sync.Pool // *sensuwire.ReceivedEvent
	records sync.Pool // *record
}

// New returns a server for Sensu agents, after a check of its configuration. No goroutine runs before Run.
func New(cfg Config) (*Server, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, ws: wsconn.Options{Timeout: cfg.Limits.Write, Buffers: new(wsconn.Buffers), Fragments: true}, started: cfg.Now(), life: core.NewGoroutines(),
		logRefusal: admission.OncePerMinute(), logUnusableHandlers: admission.OncePerMinute(), passwords: authlimit.New(cfg.Now)}
	s.metrics = newMetrics(cfg.Registerer, func() float64 { return float64(s.Sessions()) }, cfg.Authorities.FirstListExpiry)
	s.outbox = core.NewWriterQueue[*session](s.life, core.Pushes, "sensu-pushes", cfg.Limits.Sessions, cfg.Queues, s.metrics.Stuck.Inc)
	s.events.New = func() any { return new(sensuwire.ReceivedEvent) }
	s.records.New = func() any { return new(signalRecord) }
	s.clock.Start(s.monotonicTime())
	_, _ = crand.Read(s.archiveKey[:]) // never fails
	cfg.Assignments.Subscribe(s.reassign)
	return s, nil
}

// monotonicTime returns a time in nanoseconds since 1970 that ignores later changes of the wall clock. Check schedules
// thus stay the same after a restart.
func (s *Server) monotonicTime() int64 {
	return s.started.UnixNano() + int64(s.cfg.Now().Sub(s.started))
}

// Listen accepts agents until ctx ends. config is nil for agents without TLS.
func (s *Server) Listen(ctx context.Context, l net.Listener, config *tls.Config) error {
	return s.cfg.Admission.Serve(ctx, &admission.Listener{TCP: l, TLS: config, Gate: admission.NewHandshakeLimits().AcquireAgentSlot,
		Handshake: s.cfg.Limits.Handshake, Log: s.cfg.Log, Serve: s.serve})
}

// Run requests due check runs from agents and monitors sessions until ctx ends. Then it closes every session.
func (s *Server) Run(ctx context.Context) error {
	s.outbox.Start(s.cfg.Limits.Writers)
	seconds := 0
	s.clock.Run(ctx, s.cfg.Now, func(at time.Time, now int64) {
		s.outbox.AddWriterIfStuck()
		s.registry.ForEach(func(x *session) { s.watchSession(x, now) })
		if seconds++; seconds%recheckSeconds == 0 {
			s.recheckSessions(at)
			s.forgetSentSecrets()
		}
	})
	s.life.Stop(func() { s.registry.ForEach(func(x *session) { _ = x.Conn.Close() }) }, s.outbox)
	return nil
}

// recheckSeconds is the interval between two checks of the users, certificates, authorities and nodes of sessions.
const recheckSeconds = 10

// watchSession pings a silent session and closes a dead one. A session whose reader waits for the journal or a limit
// is not silent: its agent gets a pong, because its pings are not read.
func (s *Server) watchSession(x *session, now int64) {
	l := &s.cfg.Limits
	silence, busy := x.SinceLastFrame(now)
	switch {
	case busy:
		if x.PingDue(now, l.PingAfter/3) {
			s.outbox.Add(x, duePong)
		}
	case silence > time.Duration(x.deadAfter.Load()):
		s.outbox.Add(x, dueClose)
	case silence > l.PingAfter && x.PingDue(now, l.PingAfter/3):
		s.outbox.Add(x, duePing)
	}
}

// recheckSessions ends sessions with an invalid certificate or user. The certificate was revoked, expired or lost its
// CA, or the user may no longer connect.
func (s *Server) recheckSessions(at time.Time) {
	if s.cfg.Authorities != nil {
		s.cfg.Authorities.Refresh(at)
	}
	s.registry.ForEach(func(x *session) {
		if !s.isAdmissible(x, at) {
			s.outbox.Add(x, dueClose)
		}
	})
}

// isAdmissible reports whether the server still accepts the certificate or user of a session.
func (s *Server) isAdmissible(x *session, at time.Time) bool {
	_, revoked := s.cfg.Authorities.RevokedSince(x.serials)
	return !revoked && s.cfg.Access.Current(&x.user) && (x.expires.IsZero() || at.Before(x.expires)) && s.cfg.Authorities.TrustsOneRoot(x.roots)
}

// Sessions returns the number of connected nodes.
func (s *Server) Sessions() int { return s.registry.Len() }

// Connected reports whether the node has a session on the server.
func (s *Server) Connected(node model.NodeID) bool { return s.registry.Get(node) != nil }

// Disconnect ends the session of a node, if any. The agent reconnects and gets the present settings of its node.
func (s *Server) Disconnect(node model.NodeID) {
	if x := s.registry.Get(node); x != nil {
		s.outbox.Add(x, dueClose)
	}
}

// reassign wakes the writer goroutine of each session whose agent has a changed assignment. They plan the checks anew,
// or end the session of a deleted node.
func (s *Server) reassign(changed directory.Change) {
	for _, node := range changed.Assignments {
		if x := s.registry.Get(node); x != nil {
			s.outbox.Add(x, duePlan)
		}
	}
}

// Agent describes the connected agent of a node. ok is false without a session.
func (s *Server) Agent(node model.NodeID) (a core.Agent, ok bool) {
	x := s.registry.Get(node)
	if x == nil {
		return a, false
	}
	refuses := []string{"sensu-agent runs no probes, no checks with runAs and no requested commands"}
	if !x.proven {
		refuses = append(refuses, "the agent gets no secrets: "+x.unproven)
	}
	x.Mu.Lock()
	defer x.Mu.Unlock()
	return core.Agent{
		Version: x.version, Refuses: refuses, Certificate: x.expires,
		Since: time.Unix(0, x.Since), Address: x.Conn.NetConn().RemoteAddr().String(), Assigned: x.revision, Confirmed: true,
	}, true
}

// sessionRegistry has all sessions by node, and all connections whose first message has not arrived yet. It
// also has node data that outlives sessions. Lock order: mu, then core.Registry.
type sessionRegistry struct {
	core.Registry[session]

	mu           sync.Mutex
	unregistered map[*session]struct{} // connections without a node yet
	numbers      map[model.NodeID]*streamNumbers
	sent         map[model.NodeID]*sentSecrets // to agents that have proved their identity
}

// streamNumbers has the id and the last sequence number of the journal stream of an agent's results. The server
// assigns them, because Sensu's protocol has none.
type streamNumbers struct {
	stream wire.StreamID
	last   uint64
	broken atomic.Bool // a commit failed: the next session uses another stream
}

// addUnregistered adds a new connection, whose node the first message will name.
func (r *sessionRegistry) addUnregistered(x *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unregistered == nil {
		r.unregistered = map[*session]struct{}{}
	}
	r.unregistered[x] = struct{}{}
}

// hasPriorityOver reports whether a session may replace another session with the same agent name. A proven
// identity wins, otherwise the newer connection.
func (x *session) hasPriorityOver(y *session) bool {
	if x.proven != y.proven {
		return x.proven
	}
	return x.Since > y.Since
}

// swapSession makes x the session of its node, and returns the older session of the node. ok is false if the older
// session has priority and stays.
func (r *sessionRegistry) swapSession(x *session, stream wire.StreamID) (older *session, ok bool) {
	if older, ok = r.Swap(x.Node.ID, x, 0, func(older *session) bool { return older.hasPriorityOver(x) }); !ok {
		return older, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.unregistered, x)
	if x.sent != nil {
		x.sent.uid = x.UID
	}
	if r.numbers == nil {
		r.numbers = map[model.NodeID]*streamNumbers{}
	}
	n := r.numbers[x.Node.ID]
	if n == nil || n.broken.Load() {
		n = &streamNumbers{stream: stream}
		r.numbers[x.Node.ID] = n
	}
	x.numbers = n
	if len(r.numbers) > 2*r.Len()+1024 { // most numbers belong to machines that left; a machine that returns gets another stream
		maps.DeleteFunc(r.numbers, func(id model.NodeID, _ *streamNumbers) bool { return r.Get(id) == nil })
	}
	return older, true
}

// removeSession removes an ended session from the registry. It returns false if a newer session has its node.
func (r *sessionRegistry) removeSession(x *session) bool {
	r.mu.Lock()
	delete(r.unregistered, x)
	r.mu.Unlock()
	return x.Node.ID != 0 && r.Remove(x.Node.ID, x)
}

// ForEach calls fn with every agent connection, while ForEach holds a lock of the registry. The function must
// be short.
func (r *sessionRegistry) ForEach(fn func(*session)) {
	r.Registry.ForEach(fn)
	r.mu.Lock()
	defer r.mu.Unlock()
	for x := range r.unregistered {
		fn(x)
	}
}

// sentSecretsOf returns which secret values a node's agent has received so far. It is nil if the agent's identity is
// unproven, because such an agent gets none.
func (r *sessionRegistry) sentSecretsOf(node model.NodeID, proven bool) *sentSecrets {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.sent[node]
	if g == nil && proven {
		if r.sent == nil {
			r.sent = map[model.NodeID]*sentSecrets{}
		}
		g = &sentSecrets{}
		r.sent[node] = g
	}
	return g
}

// forgetSentSecrets drops the remembered secrets of disconnected nodes that no longer exist. exists is called without
// the lock.
func (r *sessionRegistry) forgetSentSecrets(exists func(model.NodeID, uuid.UUID) bool) {
	r.mu.Lock()
	away := map[model.NodeID]uuid.UUID{}
	for id, g := range r.sent {
		if g.uid != uuid.Nil && r.Get(id) == nil {
			away[id] = g.uid
		}
	}
	r.mu.Unlock()
	maps.DeleteFunc(away, exists)
	if len(away) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range away {
		if r.Get(id) == nil {
			delete(r.sent, id)
		}
	}
}
