package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/archive"
	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/datadir"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/doctor"
	"github.com/muster-fleet/muster/internal/guard"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/metrics"
	"github.com/muster-fleet/muster/internal/outbound"
	"github.com/muster-fleet/muster/internal/pipes"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/recorder"
	"github.com/muster-fleet/muster/internal/rollout"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/sdnotify"
	"github.com/muster-fleet/muster/internal/secret"
	"github.com/muster-fleet/muster/internal/selfcheck"
	"github.com/muster-fleet/muster/internal/store/compliancelog"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/tools"
	"github.com/muster-fleet/muster/internal/watchdog"
)

// Server is a running Muster server with all its components. Open opens it, Run runs it, Close closes its files. A
// process may have several.
type Server struct {
	serverBase
	lifecycle
	stores
	planning
	pipeline
	sources
	listeners
	selfMonitoring
	handlers httpHandlers
}

// serverBase holds the values that every component of the server uses, such as configuration and clock.
type serverBase struct {
	cfg      *config.Server
	log      *slog.Logger
	now      func() time.Time
	started  time.Time
	registry *prometheus.Registry // of metrics
	queues   *queue.Registry
	guard    *guard.Guard           // ends commands with this process, also after kill -9
	outbound *outbound.Policy       // bounds the addresses of handlers and downloads
	ready    atomic.Pointer[string] // reason why the server is not ready; nil: ready
	files    datadir.FileWatch      // of the data folder
	logTail  func() []byte          // returns the log's last lines. Set before Run; nil: they are not kept
	manager  sdnotify.Manager       // set before Run
}

// stores holds the server's open databases and folders, such as intent and history.
type stores struct {
	intent   *intent.Service
	access   *access.Service
	history  history.Store
	runs     *compliancelog.Store // history of directive runs
	archives *archive.Archive     // of Assets
	tools    *tools.Extractor     // Assets of handlers' commands
	secrets  *secret.Resolver
}

// planning holds the planner and its results, such as assignments and routes. That is the directory of names
// and assignments, the routes and the pipelines.
type planning struct {
	planner   *plan.Planner
	directory *directory.Directory // published by the planner
	placed    *directory.AssignmentTimes
	routes    *route.Table    // windows, routes and silences in force
	pipelines *pipes.Table    // Sensu's pipelines in force
	rollouts  *rollout.Driver // moves changes of directives over their nodes
}

// selfMonitoring has the components that monitor the server itself, such as the watchdog. The monitor of
// built-in checks is another.
type selfMonitoring struct {
	monitor  *selfcheck.Monitor // of the built-in events
	watchdog *watchdog.Watchdog
	courier  *watchdog.ResultSender // sends the watchdog's results as an agent does
}

// httpHandlers has one http.Handler for each of the server's listeners.
type httpHandlers struct {
	people http.Handler // API
	enrol  http.Handler // of agents, where they have a listener of their own
	admin  http.Handler
}

// Open opens all components of the server and replays the journal into the in-memory event state
func Open(ctx context.Context, cfg *config.Server, log *slog.Logger) (*Server, error) {
	return OpenAt(ctx, cfg, log, time.Now)
}

// OpenAt opens the server like Open, but reads the time from the given function. The clock's times must have a
// monotonic reading, as time.Now gives it: deadlines depend on it when the wall clock is set.
func OpenAt(ctx context.Context, cfg *config.Server, log *slog.Logger, now func() time.Time) (s *Server, err error) {
	s = &Server{serverBase: serverBase{
		cfg: cfg, log: log, now: now, started: now(), registry: prometheus.NewRegistry(), queues: newQueues(cfg), guard: &guard.Guard{Log: log},
	}}
	if s.outbound, err = outbound.Parse(cfg.OutboundAllow, s.addresses); err != nil {
		return nil, err
	}
	s.recorder = &recorder.Recorder{Log: log}
	s.replayed.ended = make(chan struct{})
	s.monitor = s.newMonitor()
	s.setNotReady("starting")
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	// These two metrics show the cost of locks and of the garbage collector.
	costs := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/(sync/mutex/wait/total:seconds|cpu/classes/gc/total:cpu-seconds)$`)}
	s.registry.MustRegister(&metrics.Queues{Of: s.queues}, collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(costs)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// Each component needs the components before it. Run starts the tasks in this order, Close closes in reverse order.
	for _, c := range []component{
		{"data folder", s.lockDataFolder},          // its lock keeps a second server out
		{"intent", s.openIntent},                   // resources
		{"history", s.openHistory},                 // the position of reactions: the journal cannot end before it
		{"journal", s.openJournal},                 // its incarnation: ids and positions of another incarnation are refused
		{"planner", s.openPlanner},                 // compiles intent: definitions that judge the results in the journal, names
		{"reactions", s.openDispatcher},            // record transitions from the first commit on
		{"event view", s.openEventState},           // from snapshots, then by replay
		{"streams", s.openFollowers},               // cursors of handlers of every result: the journal is not cut beyond them
		{"assets", s.openArchives},                 // archives that agents fetch
		{"sessions", s.openSessions},               // certificates and sessions of agents
		{"bridge", s.openSensuReceiver},            // sessions of Sensu agents
		{"alerts", s.openAlerts},                   // receives alerts of Prometheus and Grafana
		{"rules", openRules(s)},                    // evaluates RuleGroups
		{"remote write sender", runRemoteWrite(s)}, // sends numbers to another store
		{"computed items", openComputedItems(s)},   // of several nodes, and of the server itself
		{"remote write receiver", openSamples(s)},  // receives samples of a Prometheus
		{"zabbix", openZabbix(s)},                  // receives values of Zabbix senders and agents
		{"rudder", openRudder(s)},                  // receives inventories and runs of Rudder's agents
		{"self-watch", s.openWatchdog},             // sends results through sessions
		{"listeners", s.listen},                    // late: a connection finds all components open
		{"API", s.openAPI},                         // after the listeners: it names their ports
	} {
		began := time.Now()
		if err := c.open(ctx); err != nil {
			return s, fmt.Errorf("open %s: %w", c.name, datadir.ExplainFileError(err, s.cfg.Data))
		}
		log.Debug("opened", "what", c.name, "took", time.Since(began))
	}
	return s, nil
}

// lockDataFolder locks the data folder against a second server. On a full disk it releases the journal's reserve, which
// the stores need to open.
func (s *Server) lockDataFolder(context.Context) error {
	lock, err := datadir.Lock(s.cfg.Data)
	if err != nil {
		return err
	}
	s.onClose(lock.Close)
	s.files.Add(s.path("LOCK"))
	if folder := datadir.Journal(s.cfg); journal.ReleaseReserve(disk.OS{}, folder) {
		s.log.Warn("the disk is full: deleted the journal's reserve file to have space for the start", "advice", doctor.FullDiskText(s.cfg.Data, folder))
	}
	return nil
}

// path returns the path of a file in the data folder.
func (b *serverBase) path(elem ...string) string {
	return filepath.Join(append([]string{b.cfg.Data}, elem...)...)
}

// Close kills running commands and closes all components. The lock on the data folder is released last.
func (s *Server) Close() error {
	s.guard.Close()
	return s.close()
}

// setNotReady sets the reason for /readyz why the server is not ready, or "" for ready. An empty reason means
// ready.
func (b *serverBase) setNotReady(reason string) { b.ready.Store(&reason) }

// NotReady returns the reasons why the server is not ready, or an empty list.
func (s *Server) NotReady() (reasons []string) {
	if reason := s.ready.Load(); reason != nil {
		reasons = append(reasons, *reason)
	}
	if err := s.journal.Stats().Blocked; err != nil {
		reasons = append(reasons, "the journal does not commit: "+err.Error()+s.monitor.DeletionBlocker())
	}
	return append(reasons, s.files.Changed()...)
}

// newQueues returns the registry of the server's bounded queues, with the configured capacities.
func newQueues(cfg *config.Server) *queue.Registry {
	settings, err := queue.ParseSettings(cfg.Queues)
	if err != nil {
		panic("BUG: the configuration was not checked: " + err.Error())
	}
	return queue.NewRegistry(settings)
}

// workerCount returns the number of worker goroutines that keep event states. It is one per CPU, and at least two.
func workerCount() int { return max(2, runtime.GOMAXPROCS(0)-spareProcs) }

// drainTime is how long a stop waits for agents to confirm the end of their sessions.
const drainTime = 5 * time.Second

// Run runs the server until ctx ends, and then stops its components in order. The event view runs already, since
// Open, and until Close.
func (s *Server) Run(ctx context.Context) error {
	st := newStopStages(ctx, s.tasks)
	defer st.stopBack()
	defer st.stopFront()
	st.start(reactions, s.tasks)
	st.start(back, s.tasks)
	if err := s.recordStart(ctx); err != nil {
		st.stopBack()
		if ctx.Err() != nil {
			err = nil // the server was stopped before it listened
		}
		return errors.Join(err, st.group.Wait())
	}
	// Listeners accept connections once the journal has recorded the start of listening: deadlines count from there.
	st.start(front, s.tasks)
	s.ready.Store(nil)
	s.manager.Notify("READY=1")
	s.log.Info("ready", "address", s.people.Addr().String(), "took", s.now().Sub(s.started))
	st.group.Go(func() error {
		<-st.contexts[front].Done()
		s.setNotReady("stopping")
		s.manager.Notify("STOPPING=1\nSTATUS=stopping")
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		s.sessions.Drain(drain, drainTime)
		st.stopBack()
		return nil
	})
	return st.group.Wait()
}

// recordStart writes a record of the server's start to the journal. It also removes events of deleted checks and
// nodes.
func (s *Server) recordStart(ctx context.Context) error {
	if err := s.recorder.RecordStart(ctx); err != nil {
		return err
	}
	forgotten, err := s.planner.RemovalsSince(ctx, s.view.Revision())
	if err != nil {
		return err
	}
	s.recorder.RecordRemoval(forgotten)
	return s.recorder.RecordRevision(ctx, databaseRevisions(s))
}

// component is one part of the server, such as the journal, with the function that opens the part. open creates
// it and registers its tasks and its close function.
type component struct {
	name string
	open func(context.Context) error
}

// stopStage is one of the three steps in which the server's background tasks stop.
type stopStage int

// Stages of a stop, in the order of the ends of their tasks.
const (
	front     stopStage = iota // accepts connections and gives work: ends first
	back                       // works off accepted data: ends when the agents have been sent away
	reactions                  // records transitions: ends when all tasks of back have ended, for the last snapshots wait for it
)

// task is a named background function of the server, with the shutdown stage that stops the function.
type task struct {
	name      string
	stopStage stopStage
	run       func(context.Context) error
}

// lifecycle has the background tasks of all open components, and the functions that close the components.
type lifecycle struct {
	tasks   []task
	closers []func() error
}

// registerTask registers a background function for Server.Run, with the step of the shutdown that ends the function. It must
// return when its context ends.
func (l *lifecycle) registerTask(at stopStage, name string, run func(context.Context) error) {
	l.tasks = append(l.tasks, task{name, at, run})
}

// onClose registers a function that lifecycle.close will call, such as to close a database. The last registered
// function is called first.
func (l *lifecycle) onClose(fn func() error) { l.closers = append(l.closers, fn) }

// close calls all registered close functions, the last registered first.
func (l *lifecycle) close() error {
	var errs []error
	for _, fn := range slices.Backward(l.closers) {
		errs = append(errs, fn())
	}
	l.closers = nil
	return errors.Join(errs...)
}

// stopStages runs the server's background tasks, and stops the tasks in three steps at the shutdown.
type stopStages struct {
	group     *errgroup.Group
	contexts  [3]context.Context
	stopFront context.CancelFunc
	stopBack  context.CancelFunc
	accepted  sync.WaitGroup // tasks of back that have not ended
}

// newStopStages creates one context per stage of the shutdown, so that each stage can end separately. The end
// of the context ends the tasks of that step. The front ends with ctx; a task that fails ends the front and the
// back.
func newStopStages(ctx context.Context, tasks []task) *stopStages {
	s := &stopStages{}
	for _, t := range tasks {
		if t.stopStage == back {
			s.accepted.Add(1)
		}
	}
	var stopReactions context.CancelFunc
	s.contexts[back], s.stopBack = context.WithCancel(context.WithoutCancel(ctx))
	s.group, s.contexts[back] = errgroup.WithContext(s.contexts[back])
	s.contexts[front], s.stopFront = context.WithCancel(ctx)
	context.AfterFunc(s.contexts[back], s.stopFront)
	s.contexts[reactions], stopReactions = context.WithCancel(context.WithoutCancel(ctx))
	s.group.Go(func() error {
		<-s.contexts[back].Done()
		s.accepted.Wait()
		stopReactions()
		return nil
	})
	return s
}

// start starts in goroutines all background tasks that one stage of the shutdown stops.
func (s *stopStages) start(at stopStage, tasks []task) {
	for _, t := range tasks {
		if t.stopStage != at {
			continue
		}
		s.group.Go(func() error {
			if at == back {
				defer s.accepted.Done()
			}
			if err := t.run(s.contexts[at]); err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("the server's background task %s failed: %w", t.name, err)
			}
			return nil
		})
	}
}
