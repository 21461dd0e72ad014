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
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/metrics"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/react"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/store/intentdb"
	"github.com/muster-fleet/muster/internal/store/snapshot"
	"github.com/muster-fleet/muster/internal/wire"
)

// Server is a Muster server. Open makes it whole, Run runs it, Close gives its
// files back. Two of them live side by side in one process.
type Server struct {
	cfg      *config.Server
	folder   io.Closer // the data folder's lock
	log      *slog.Logger
	now      func() time.Time
	started  time.Time
	registry *prometheus.Registry
	queues   *queue.Registry

	intent    *intent.Service
	history   history.Store
	planner   *plan.Planner
	view      *event.View
	reactor   *react.Reactor
	journal   *journal.Log
	snapshots *snapshot.Store
	authority *pki.Authority
	sessions  *muster.Server

	setBack  setBack       // agents that know more than we do
	replay   chan struct{} // closed once the view has what the journal held
	replayed uint64        // number of the last commit of it
	viewEnd  context.CancelFunc
	viewDone sync.WaitGroup
	ready    atomic.Pointer[string] // why not ready; nil: ready

	people, agents, plain, admin net.Listener
	handler, adminHandler        http.Handler
	logTail                      func() []byte // set before Run; nil: the log's last lines are not kept
}

// Open opens everything that the server keeps and brings the view up to date. What
// is opened first is needed by what follows:
//
//	folder     its lock keeps a second server away from all that is in it
//	intent     what operators declared; the planner compiles it
//	history    how far reactions went: the journal cannot end before that
//	journal    the life of the data: who knows ids and positions of another is told
//	planner    the chunks that judge what the journal holds
//	view       from snapshots, then by replay
//	authority  certificates, for whoever connects
//	listeners  last: who gets through finds everything ready
//	API        what they serve; it names the ports that the listeners got
func Open(ctx context.Context, cfg *config.Server, log *slog.Logger) (*Server, error) {
	return OpenAt(ctx, cfg, log, time.Now)
}

// OpenAt is Open with another clock than the machine's. Its times carry a monotonic
// reading, as those of time.Now do: it may be set, deadlines may not jump with it.
func OpenAt(ctx context.Context, cfg *config.Server, log *slog.Logger, now func() time.Time) (s *Server, err error) {
	s = &Server{
		cfg: cfg, log: log, now: now, started: now(), registry: prometheus.NewRegistry(),
		queues: &queue.Registry{}, replay: make(chan struct{}),
	}
	s.notReady("starting")
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	s.registry.MustRegister(metrics.Queues{Of: s.queues}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"data folder", s.openFolder}, {"intent", s.openIntent}, {"history", s.openHistory}, {"journal", s.openJournal}, {"planner", s.openPlanner},
		{"event view", s.openView}, {"authority", s.openAuthority}, {"listeners", s.listen}, {"API", s.openAPI},
	} {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return s, fmt.Errorf("open %s: %w", step.what, explain(err))
		}
		log.Debug("opened", "what", step.what, "took", time.Since(began))
	}
	return s, nil
}

func (s *Server) path(elem ...string) string {
	return filepath.Join(append([]string{s.cfg.Data}, elem...)...)
}

func (s *Server) openIntent(ctx context.Context) error {
	dsn := s.cfg.IntentDB
	if dsn == "" {
		dsn = s.path("intent.db")
	}
	store, err := intentdb.Open(ctx, dsn, s.now)
	if err != nil {
		return err
	}
	s.intent = intent.NewService(intent.Options{
		Store: store, Validate: validate, Impact: s.impact, Now: s.now, Logger: s.log,
		Limits: model.Limits{
			StatesPerNode: s.cfg.NodeStates, Labels: s.cfg.MaxLabels, OutputBytes: int(s.cfg.MaxOutput),
			ResultsPerSec: s.cfg.NamespaceRate, NodeResultsSec: s.cfg.NodeRate,
		},
	})
	return s.intent.Load(ctx)
}

// impact asks the planner what writes would change.
func (s *Server) impact(ctx context.Context, writes []intent.Write) ([]intent.Landing, int, error) {
	if err := s.planner.CatchUp(ctx); err != nil {
		return nil, 0, err
	}
	landings, affected, err := s.planner.Preview(ctx, writes)
	out := make([]intent.Landing, len(landings))
	for i, l := range landings {
		out[i] = intent.Landing{Nodes: l.Nodes, Checks: l.Checks}
	}
	return out, affected, err
}

func (s *Server) openHistory(ctx context.Context) error {
	dsn := s.cfg.HistoryDB
	if dsn == "" {
		dsn = s.path("history.db")
	}
	var err error
	if s.history, err = history.Open(ctx, dsn); err != nil {
		return err
	}
	s.reactor = react.New(react.Options{
		Store: s.history, Names: names{s}, Rederive: s.rederive, Capacity: s.cfg.ReactQueue,
		Gather:    250 * time.Millisecond, // docs/decisions/0005-reactions-gather.md
		Retention: time.Duration(s.cfg.HistoryRetention), Now: s.now, Logger: s.log,
		Registerer: s.registry, Queues: s.queues,
	})
	return nil
}

// openJournal opens the journal and tells those who keep positions and ids of it in
// which of its lives it is.
func (s *Server) openJournal(ctx context.Context) error {
	o := journalOptions(s.cfg)
	var err error
	if o.Seen, err = snapshot.Seen(disk.OS{}, s.path(snapshotFolder)); err != nil {
		return err
	}
	places, err := s.history.Places(ctx)
	if err != nil {
		return err
	}
	for _, place := range places {
		o.Seen = append(o.Seen, place.At)
	}
	// Fewer and fuller commits, for latency that the goal leaves room for:
	// docs/decisions/0006-journal-linger.md
	o.Linger = 20 * time.Millisecond
	o.Clock = journalClock{now: s.now, began: s.now()}
	o.Deliver, o.Queues, o.Logger = s.deliver, s.queues, s.log
	shown := metrics.NewJournal(s.registry, "server")
	o.Committed = shown.Committed
	if s.journal, err = journal.Open(journalFolder(s.cfg), o); err != nil {
		return err
	}
	shown.Open(s.journal)
	if err := s.intent.Store().BeginLife(ctx, s.journal.Incarnation().ID); err != nil {
		return err
	}
	return s.reactor.Load(ctx, s.journal.Shared)
}

// snapshotFolder lies in the data folder.
const snapshotFolder = "snapshots"

func journalFolder(cfg *config.Server) string {
	if cfg.Journal != "" {
		return cfg.Journal
	}
	return filepath.Join(cfg.Data, "journal")
}

// journalOptions are those of the server and of the commands that mend its journal.
func journalOptions(cfg *config.Server) journal.Options {
	return journal.Options{
		Budget: int64(cfg.JournalBudget), Reserve: int64(cfg.JournalReserve), Partitions: model.Partitions,
		Stores:        map[string]int{"snapshots": snapshot.FormatVersion, "events": event.SnapshotVersion},
		RepairCommand: stoppedCommand(cfg, "repair"),
	}
}

// stoppedCommand is what to type on the server's machine while the server is stopped.
func stoppedCommand(cfg *config.Server, verb string) string {
	command := "muster doctor " + verb + " --data " + cfg.Data
	if cfg.Journal != "" {
		command += " --journal " + cfg.Journal
	}
	return command
}

// journalClock is the server's clock as the journal wants it.
type journalClock struct {
	now   func() time.Time
	began time.Time
}

func (c journalClock) Wall() int64         { return c.now().UnixNano() }
func (c journalClock) Mono() time.Duration { return c.now().Sub(c.began) }

// deliver hands a durable commit to the view. Until the replay is over it holds the
// committer: what is committed meanwhile comes after what was.
func (s *Server) deliver(c journal.Commit) {
	<-s.replay
	if c.Position().Number > s.replayed {
		s.view.Deliver(c)
	}
}

func (s *Server) openPlanner(ctx context.Context) error {
	s.planner = plan.New(plan.Options{
		Store: s.intent.Store(), Epoch: s.journal.Incarnation().Epoch, Logger: s.log,
		Registry: s.registry, Forget: s.forget,
	})
	return s.planner.Load(ctx)
}

// chunk resolves what the journal names: compiled checks and what is built in.
func (s *Server) chunk(id model.ChunkID) *model.Chunk {
	if c := model.BuiltinChunkOf(id); c != nil {
		return c
	}
	return s.planner.Chunk(id)
}

func (s *Server) openAuthority(context.Context) error {
	var err error
	s.authority, err = pki.Open(s.path("pki"), s.advertised(), s.now)
	if err != nil {
		return err
	}
	s.sessions, err = muster.New(muster.Config{
		Journal: s.journal, Nodes: nodes{s}, View: s.view, Assignments: s.planner, SigningKey: s.authority.SigningKey(),
		Limits: muster.Limits{
			FrameBytes: int(s.cfg.MaxFrame), UnackedBytes: int(s.cfg.MaxUnacked), OutputBytes: int(s.cfg.MaxOutput),
			NodeResultsPerSec: s.cfg.NodeRate,
			Keepalive:         time.Duration(s.cfg.KeepaliveInterval), Timeout: time.Duration(s.cfg.KeepaliveTimeout),
			JournalQueueBytes: journal.DefaultQueueBytes,
		},
		OnShed: s.shed, OnBehind: s.behind, Now: s.now, Queues: s.queues, Log: s.log, Registerer: s.registry,
	})
	return err
}

// Run runs the server until ctx ends, then stops it: first nobody new gets in, then
// agents are sent away, then what was taken is finished.
func (s *Server) Run(ctx context.Context) error {
	// Two lives: the front (whoever speaks to us) ends first, the back (whatever
	// works off what they said) a moment later.
	back, stopBack := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBack()
	g, back := errgroup.WithContext(back)
	front, stopFront := context.WithCancel(ctx)
	defer stopFront()
	context.AfterFunc(back, stopFront)

	run := func(what string, ctx context.Context, fn func(context.Context) error) {
		g.Go(func() error {
			if err := fn(ctx); err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("%s: %w", what, err)
			}
			return nil
		})
	}
	// The view runs since Open (replay needs it) and until Close.
	// Reactions outlive the snapshots: the last ones wait for what they record.
	reacting, stopReacting := context.WithCancel(context.WithoutCancel(ctx))
	run("reactions", reacting, s.reactor.Run)
	run("intent", back, s.intent.Run)
	run("planner", back, func(ctx context.Context) error { return s.planner.Run(ctx, s.intent.Wake()) })
	run("snapshots", back, func(ctx context.Context) error {
		defer stopReacting()
		return s.runSnapshots(ctx)
	})
	run("own events", back, s.watchOneself)
	run("intent mark", back, s.markIntent)
	run("password requests", back, s.watchPasswordRequests)
	run("old definitions", back, s.collect)
	run("sessions", back, s.sessions.Run)

	if err := s.began(ctx); err != nil {
		stopBack()
		if ctx.Err() != nil {
			err = nil // stopped before it began
		}
		return errors.Join(err, g.Wait())
	}
	run("agents", front, s.serveAgents)
	run("people", front, s.servePeople)
	run("admin", front, s.serveAdmin)
	s.ready.Store(nil)
	s.log.Info("ready", "address", s.people.Addr().String(), "took", s.now().Sub(s.started))

	g.Go(func() error {
		<-front.Done()
		s.notReady("stopping")
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		s.sessions.Drain(drain, 5*time.Second)
		stopBack()
		return nil
	})
	return g.Wait()
}

// began tells the view that the server listens again, writes what a crash may have
// swallowed of forgotten checks, and which intent is in force.
func (s *Server) began(ctx context.Context) error {
	if err := s.append(ctx, journal.All, &wire.Record{Kind: wire.RecordStarted}); err != nil {
		return err
	}
	forgotten, err := s.planner.ForgottenSince(ctx, s.view.Revision())
	if err != nil {
		return err
	}
	s.forget(forgotten)
	return s.append(ctx, journal.All, &wire.Record{Kind: wire.RecordIntent, Intent: s.planner.Revision()})
}

// Close gives back what Open took. The data folder's lock goes last.
func (s *Server) Close() error {
	var errs []error
	for _, l := range []net.Listener{s.people, s.agents, s.plain, s.admin} {
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

// releaseReplay lets a committer go that waits for a replay which failed.
func (s *Server) releaseReplay() {
	select {
	case <-s.replay:
	default:
		s.replayed = ^uint64(0)
		close(s.replay)
	}
}

func (s *Server) notReady(why string) { s.ready.Store(&why) }

// NotReady says why the server is not ready; nothing when it is.
func (s *Server) NotReady() (why []string) {
	if w := s.ready.Load(); w != nil {
		why = append(why, *w)
	}
	if err := s.journal.Stats().Blocked; err != nil {
		why = append(why, "the journal does not commit: "+err.Error())
	}
	return why
}

func workers() int { return max(2, runtime.GOMAXPROCS(0)) }
