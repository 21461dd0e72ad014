package muster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// Path is where agents open their session.
const Path = "/agent/v1/session"

// Server holds the sessions of all agents.
type Server struct {
	cfg      Config
	metrics  *metrics
	ws       wsconn.Options
	watch    shedWatch
	limiter  core.Limiter
	arrivals arrivals
	places   *places
	proxies  proxies

	registry  core.Registry[session]
	acks      *outbox // acknowledgements and pings: short, urgent
	pushes    *outbox // assignments and the rest
	runOutput *runOutput
	fetches   *queue.Slots // of archives

	began    time.Time     // of New, with its monotonic reading
	clock    core.Clock    // of listening
	probes   atomic.Uint64 // how many there were
	draining atomic.Int64  // RetryMs told to those who come while we leave; 0: not leaving
	stopping atomic.Bool
	readers  sync.WaitGroup // one per connection
	ending   atomic.Int64   // sessions that have left the registry, or are about to, and whose end is not in the journal yet
	stacks   stacks         // of readers that handle a message
	writers  sync.WaitGroup // those that replace the stuck included, and keepPace

	// base ends with Run: no Append and no wait for the view outlasts it.
	base context.Context
	stop context.CancelFunc

	batches sync.Pool // *wire.BatchReader
	records sync.Pool // *core.Record
}

// New checks the configuration and registers the metrics; nothing runs before Run.
func New(cfg Config) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, ws: wsconn.Options{Timeout: cfg.Limits.Write, Buffers: new(wsconn.Buffers)}}
	s.base, s.stop = context.WithCancel(context.Background())
	s.metrics = newMetrics(cfg.Registerer, func() float64 { return float64(s.Sessions()) }, func() float64 { share, _ := s.pressure(); return max(0, share) })
	cfg.Registerer.MustRegister(newFleetMetrics(s))
	s.batches.New = func() any { return new(wire.BatchReader) }
	s.records.New = func() any { return new(core.Record) }
	s.acks = newOutbox("session-acks", laneAck, cfg.Limits.Sessions, cfg.Queues)
	s.pushes = newOutbox("session-pushes", lanePush, cfg.Limits.Sessions, cfg.Queues)
	s.runOutput = newRunOutput(cfg.Queues)
	s.fetches = queue.NewSlots(cfg.Queues, "asset-fetches")
	s.places = newPlaces(cfg.Limits.Connections, cfg.Registerer)
	s.proxies.from = cfg.ProxyFrom
	s.limiter.LimiterConfig = core.LimiterConfig{
		Namespace: cfg.Nodes.Namespace, Defaults: core.NamespaceLimits{NodeResultsPerSec: cfg.Limits.NodeResultsPerSec, OutputBytes: cfg.Limits.OutputBytes},
		Burst: cfg.Limits.RateBurst, Monotonic: s.sinceBegan, Now: cfg.Now, Met: s.metrics.limited,
	}
	s.watch.init(cfg.Limits, cfg.OnShed)
	s.began = cfg.Now()
	s.clock.Start(s.began.UnixNano())
	cfg.Assignments.Subscribe(s.reassign)
	return s, nil
}

// sinceBegan is nanoseconds since New, and never zero: setting the wall clock does not
// move it.
func (s *Server) sinceBegan() int64 { return 1 + int64(s.cfg.Now().Sub(s.began)) }

// pushers write assignments: few, because encoding them is work for a core.
const pushers = 2

// Run writes acknowledgements and assignments and keeps house until ctx ends; then
// it closes every session. Drain first for a planned stop.
func (s *Server) Run(ctx context.Context) error {
	for range s.cfg.Limits.Writers {
		s.writers.Go(func() { s.write(s.acks) })
	}
	for range pushers {
		s.writers.Go(func() { s.write(s.pushes) })
	}
	s.writers.Go(func() { s.keepPace(ctx) })
	s.keepHouse(ctx)
	// Readers first: they feed the outboxes.
	s.stopping.Store(true)
	s.stop()
	s.registry.ForEach(func(x *session) { x.conn.Close() })
	s.readers.Wait()
	s.stacks.close()
	s.acks.close()
	s.pushes.close()
	s.writers.Wait()
	return nil
}

// Drain tells every agent to come back after a jittered time of about retry, and
// returns when they have gone, and the journal knows of it, or ctx ends. Who comes meanwhile is sent away.
func (s *Server) Drain(ctx context.Context, retry time.Duration) {
	s.draining.Store(max(1, retry.Milliseconds()))
	s.registry.ForEach(func(x *session) { x.due(lanePush, dueBye) })
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for s.Sessions() > 0 || s.ending.Load() > 0 { // in this order: who has left counts as ending
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Disconnect ends a node's session, if any: it was revoked or deleted, or its
// keepalive or limits changed and must be agreed again.
func (s *Server) Disconnect(node model.NodeID, code, sentence string) {
	if x := s.registry.Get(node); x != nil {
		x.tell(wire.Refuse{Code: code, Message: sentence, RetryMs: s.jitterMs(time.Second)})
	}
}

// Replaced ends the session of a node whose machine is another now; gone is what its
// agent is told, if anything is known.
func (s *Server) Replaced(node model.NodeID, gone Gone) {
	x := s.registry.Get(node)
	if x == nil {
		return
	}
	r := s.replaced(&x.node, "")
	if gone.Code != "" {
		r = s.gone(gone)
	}
	x.tell(*r)
}

// Limiter returns the limits of namespaces, which other sources share.
func (s *Server) Limiter() *core.Limiter { return &s.limiter }

// Connected says whether the node has a session here.
func (s *Server) Connected(node model.NodeID) bool { return s.registry.Get(node) != nil }

// Sessions is the number of sessions.
func (s *Server) Sessions() int { return s.registry.Len() }

// jitterMs is between half and one and a half of d.
func (s *Server) jitterMs(d time.Duration) uint32 {
	return uint32(float64(d.Milliseconds()) * (0.5 + s.cfg.Rand()))
}

// reassign wakes only the sessions whose assignment changed, and ends those of nodes
// that are there no more.
func (s *Server) reassign(changed directory.Change) {
	for _, node := range changed.Assignments {
		x := s.registry.Get(node)
		if x == nil {
			continue
		}
		if s.cfg.Assignments.For(node) == nil {
			if _, ok := s.cfg.Nodes.Lookup(x.uid); !ok {
				r := s.unknown(x.uid, x.node.Key)
				if r.Code == "unknown" {
					r.Message = "the node was deleted"
				}
				x.tell(*r)
				continue
			}
		}
		x.due(lanePush, dueAssign)
	}
}
