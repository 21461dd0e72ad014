package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/archive"
	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/datadir"
	"github.com/muster-fleet/muster/internal/follow"
	"github.com/muster-fleet/muster/internal/guard"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/metrics"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipes"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/react"
	"github.com/muster-fleet/muster/internal/recorder"
	"github.com/muster-fleet/muster/internal/rederive"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/sdnotify"
	"github.com/muster-fleet/muster/internal/secret"
	"github.com/muster-fleet/muster/internal/selfcheck"
	"github.com/muster-fleet/muster/internal/source/alertmanager"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/source/sensu"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/store/snapshot"
	"github.com/muster-fleet/muster/internal/tools"
	"github.com/muster-fleet/muster/internal/turns"
	"github.com/muster-fleet/muster/internal/watchdog"
)

// Server is a Muster server. Open opens it, Run runs it, Close closes its files. A process may have several.
type Server struct {
	cfg      *config.Server
	folder   io.Closer // the data folder's lock
	log      *slog.Logger
	now      func() time.Time
	started  time.Time
	registry *prometheus.Registry
	queues   *queue.Registry
	guard    *guard.Guard // of commands: kill -9 of us ends them too

	intent    *intent.Service
	access    *access.Service
	history   history.Store
	planner   *plan.Planner
	routes    *route.Table // windows, routes and silences in force
	pipelines *pipes.Table // kept from Sensu, in force
	tools     *tools.Box   // Assets of handlers' commands
	secrets   *secret.Resolver
	view      *event.View
	reactor   *react.Reactor
	journal   *journal.Log
	consumers journal.Consumers // of the journal: it is cut below the lowest
	snapshots *snapshot.Store
	passes    *rederive.Source
	streams   *follow.Set // handlers that are told of every result
	authority *pki.Authority
	names     []string // of the server's certificate, in the order in which tokens have them
	sessions  *muster.Server
	archives  *archive.Archive   // of Assets
	turns     *turns.Engine      // of round-robin checks
	bridge    *sensu.Server      // of Sensu's agents; nil: they do not come here
	sensuCA   *sensu.Authorities // of their certificates; nil: none are taken
	alerts    *alertmanager.Server

	recorder *recorder.Recorder // of the server's own records
	monitor  *selfcheck.Monitor // of the built-in events
	watchdog *watchdog.Watchdog
	courier  *watchdog.Courier // brings its results in
	replay   chan struct{}     // closed once the view has replayed the journal
	replayed uint64            // number of the last commit of it
	viewEnd  context.CancelFunc
	viewDone sync.WaitGroup
	ready    atomic.Pointer[string] // why not ready; nil: ready

	people, agents, plain, admin, sensu net.Listener
	handler, adminHandler               http.Handler
	enrolHandler                        http.Handler     // of agents, where they have a listener of their own
	logTail                             func() []byte    // set before Run; nil: the log's last lines are not kept
	manager                             sdnotify.Manager // set before Run
}

// Open opens everything that the server keeps and brings the view up to date.
func Open(ctx context.Context, cfg *config.Server, log *slog.Logger) (*Server, error) {
	return OpenAt(ctx, cfg, log, time.Now)
}

// OpenAt is Open with another clock than the machine's. Its times carry a monotonic reading, as
// time.Now has: deadlines do not jump when the wall clock is set.
func OpenAt(ctx context.Context, cfg *config.Server, log *slog.Logger, now func() time.Time) (s *Server, err error) {
	s = &Server{
		cfg: cfg, log: log, now: now, started: now(), registry: prometheus.NewRegistry(),
		queues: queuesOf(cfg), guard: &guard.Guard{Log: log}, replay: make(chan struct{}), recorder: &recorder.Recorder{Log: log},
	}
	s.monitor = s.newMonitor()
	s.notReady("starting")
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	// These two show the cost of locks and of the garbage collector while the server runs.
	costs := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/(sync/mutex/wait/total:seconds|cpu/classes/gc/total:cpu-seconds)$`)}
	s.registry.MustRegister(metrics.Queues{Of: s.queues}, collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(costs)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{ // each step needs those before it
		{"data folder", s.openFolder},  // its lock keeps a second server out
		{"intent", s.openIntent},       // resources
		{"history", s.openHistory},     // how far reactions went: the journal cannot end before that
		{"journal", s.openJournal},     // its incarnation: ids and positions of another one are refused
		{"planner", s.openPlanner},     // compiles intent: chunks that judge the results in the journal, names
		{"reactions", s.openReactions}, // take transitions from the first commit on
		{"event view", s.openView},     // from snapshots, then by replay
		{"streams", s.openStreams},     // their cursors: the journal is not cut beyond them
		{"assets", s.openArchives},     // archives that agents fetch
		{"sessions", s.openSessions},   // certificates and sessions, for whoever connects
		{"bridge", s.openBridge},       // the same for Sensu's agents
		{"alerts", s.openAlerts},       // of Prometheus and the like
		{"listeners", s.listen},        // late: a connection finds everything ready
		{"API", s.openAPI},             // after the listeners: it names their ports
	} {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return s, fmt.Errorf("open %s: %w", step.what, datadir.Explain(err, s.cfg.Data))
		}
		log.Debug("opened", "what", step.what, "took", time.Since(began))
	}
	return s, nil
}

func (s *Server) openFolder(context.Context) (err error) {
	s.folder, err = datadir.Lock(s.cfg.Data)
	return err
}

func (s *Server) path(elem ...string) string {
	return filepath.Join(append([]string{s.cfg.Data}, elem...)...)
}

// Close closes everything that Open opened, the lock of the data folder last.
func (s *Server) Close() error {
	s.guard.Close()
	var errs []error
	for _, l := range []net.Listener{s.people, s.agents, s.plain, s.admin, s.sensu} {
		if l != nil {
			if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	if s.journal != nil {
		// The view first: the committer may be waiting for it.
		if s.viewEnd != nil {
			s.viewEnd()
			s.viewDone.Wait()
		}
		s.releaseReplay()
		errs = append(errs, s.journal.Close())
	}
	if s.history != nil {
		errs = append(errs, s.history.Close())
	}
	if s.intent != nil {
		errs = append(errs, s.intent.Store().Close())
	}
	if s.folder != nil {
		errs = append(errs, s.folder.Close())
	}
	return errors.Join(errs...)
}

func (s *Server) notReady(why string) { s.ready.Store(&why) }

// NotReady says why the server is not ready; nothing when it is.
func (s *Server) NotReady() (why []string) {
	if w := s.ready.Load(); w != nil {
		why = append(why, *w)
	}
	if err := s.journal.Stats().Blocked; err != nil {
		why = append(why, "the journal does not commit: "+err.Error()+s.monitor.CutReason())
	}
	return why
}

func workers() int { return max(2, runtime.GOMAXPROCS(0)) }
