package sensu

import (
	"context"
	crand "crypto/rand"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/tries"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// system is what these agents' machines are told apart by from those of others.
const system = "sensu"

// Server holds the sessions of all Sensu agents.
type Server struct {
	cfg     Config
	metrics *metrics
	ws      wsconn.Options
	tries   *tries.Limiter // of passwords
	told    rate.Sometimes
	unheard rate.Sometimes // … of handlers that agents name, and that are not there

	registry    registry
	connections atomic.Int64
	timetable   timetable
	outbox      outbox
	recipes     recipes
	making      making

	key      [32]byte   // of the words by which agents fetch archives
	began    time.Time  // of New, with its monotonic reading
	clock    core.Clock // of listening
	stopping atomic.Bool
	readers  sync.WaitGroup
	writers  sync.WaitGroup
	seekers  sync.WaitGroup // for secrets; writers begin them

	base context.Context // ends with Run
	stop context.CancelFunc

	saids   sync.Pool // *sensuwire.Said
	records sync.Pool // *record
}

// New checks the configuration and registers the metrics; nothing runs before Run.
func New(cfg Config) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, ws: wsconn.Options{Timeout: cfg.Limits.Write, Buffers: new(wsconn.Buffers), Fragments: true}, began: cfg.Now()}
	s.told, s.unheard = rate.Sometimes{Interval: time.Minute}, rate.Sometimes{Interval: time.Minute}
	s.tries = tries.New(cfg.Now)
	s.base, s.stop = context.WithCancel(context.Background())
	s.metrics = newMetrics(cfg.Registerer, func() float64 { return float64(s.Sessions()) }, cfg.Authorities.listsUntil)
	s.timetable.wake = make(chan struct{}, 1)
	s.outbox.init(cfg.Queues, cfg.Limits.Sessions)
	s.saids.New = func() any { return new(sensuwire.Said) }
	s.records.New = func() any { return new(record) }
	s.clock.Start(s.boot())
	_, _ = crand.Read(s.key[:]) // it does not fail
	cfg.Assignments.Subscribe(s.reassign)
	return s, nil
}

// boot is the time on a clock that nobody sets, ns; where it begins, the time of day is kept,
// so that a restart moves no offset.
func (s *Server) boot() int64 { return s.began.UnixNano() + int64(s.cfg.Now().Sub(s.began)) }

// Listen accepts agents until ctx ends; config is nil where they come without TLS.
func (s *Server) Listen(ctx context.Context, l net.Listener, config *tls.Config) error {
	return s.cfg.Agents.Open(ctx, &muster.Door{TCP: l, TLS: config, Within: s.cfg.Limits.Handshake, Serve: s.serve})
}

// Run asks agents for what is due and keeps house until ctx ends; then it closes every
// session.
func (s *Server) Run(ctx context.Context) error {
	for range s.cfg.Limits.Writers {
		s.writers.Go(s.write)
	}
	s.writers.Go(func() { s.runTimetable(ctx) })
	s.keepHouse(ctx)
	s.stopping.Store(true)
	s.stop()
	s.registry.ForEach(func(x *session) { _ = x.conn.Close() })
	s.readers.Wait()
	close(s.outbox.done)
	s.writers.Wait()
	s.seekers.Wait()
	return nil
}

// Sessions is the number of nodes that are connected.
func (s *Server) Sessions() int { return s.registry.Len() }

// Connected says whether the node has a session here.
func (s *Server) Connected(node model.NodeID) bool { return s.registry.Get(node) != nil }

// Disconnect ends a node's session, if any: it begins anew, with what the node is by now.
func (s *Server) Disconnect(node model.NodeID) {
	if x := s.registry.Get(node); x != nil {
		x.due(dueClose)
	}
}

// reassign wakes the sessions whose assignment changed, and ends those of nodes that are
// there no more.
func (s *Server) reassign(changed directory.Change) {
	for _, node := range changed.Assignments {
		if x := s.registry.Get(node); x != nil {
			x.due(duePlan)
		}
	}
}

// stillEvery is how often, in seconds, it is asked whether users are what they were, certificates and
// their authorities good, and nodes there.
const stillEvery = 10

func (s *Server) keepHouse(ctx context.Context) {
	n := 0
	s.clock.Run(ctx, s.cfg.Now, func(at time.Time, now int64) {
		s.registry.ForEach(func(x *session) { x.tend(now) })
		if n++; n%stillEvery == 0 {
			s.lookAgain(at)
			s.forgetGiven()
		}
	})
}

// lookAgain ends the sessions of those who would not be let in now.
func (s *Server) lookAgain(at time.Time) {
	if s.cfg.Authorities != nil {
		s.cfg.Authorities.Refresh(at)
	}
	s.registry.ForEach(func(x *session) {
		if !s.stillGood(x, at) {
			x.due(dueClose)
		}
	})
}

// stillGood says whether what let a session in lets it in now.
func (s *Server) stillGood(x *session, at time.Time) bool {
	_, recalled := s.cfg.Authorities.recalled(x.serials)
	return !recalled && s.cfg.Access.Current(&x.user) && (x.until.IsZero() || at.Before(x.until)) && s.cfg.Authorities.have(x.roots)
}

// Agent says what the session of a node knows; not ok: there is none.
func (s *Server) Agent(node model.NodeID) (a muster.Agent, ok bool) {
	x := s.registry.Get(node)
	if x == nil {
		return a, false
	}
	refuses := []string{"it is sensu-agent: no probes, no runAs, and no commands by hand"}
	if !x.proven {
		refuses = append(refuses, "it is given no secrets: "+x.why)
	}
	x.Mu.Lock()
	defer x.Mu.Unlock()
	return muster.Agent{
		Version: x.version, Refuses: refuses, Certificate: x.until,
		Since: time.Unix(0, x.since), Address: x.conn.NetConn().RemoteAddr().String(), Held: x.revision, Confirmed: true,
	}, true
}
