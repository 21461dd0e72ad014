// Package spine is the path of a result alone: session, journal with fsync, view,
// acknowledgement, without intent, API and reactions. Benchmarks of a stage run
// against it, and the load tester's own tests; fleet.go is what it has for intent and
// planner. Start and end of its goroutines are Run's. One lock, over the nodes' keys.
package spine

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/metrics"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/wire"
)

// Options of a spine.
type Options struct {
	Dir        string // journal and CA
	Fleet      *Fleet // nil: nodes with load.NodeUID's ids that all run the same:
	Agents     int
	Checks     int
	Interval   time.Duration
	Seed       uint64
	TLS        bool // mutual
	Listen     net.Listener
	Plain      net.Listener // with TLS, one more for agents without; nil: none
	Registerer prometheus.Registerer
	Log        *slog.Logger

	OutputBytes int     // longest output of one result, beyond it is refused; zero: the server's default
	Budget      int64   // of the journal, which nobody cuts, in bytes; zero: the server's default
	FS          disk.FS // under the journal; nil: the machine's

	// Emit hears of transitions, as event.Options says; nil: nobody does.
	Emit func([]event.Transition)

	// Sessions is the journal that sessions append to; nil: the spine's own. Tests put
	// one there that lies.
	Sessions func(journal.Journal) journal.Journal
}

// Spine is session, journal and view.
type Spine struct {
	*Fleet
	opts      Options
	View      *event.View
	Authority *pki.Authority // nil without TLS

	// Ready is closed when the journal is replayed and agents are let in.
	Ready chan struct{}

	log    *journal.Log
	server *muster.Server
}

// Open opens the journal and replays it.
func Open(o Options) (*Spine, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	if o.Fleet == nil {
		o.Fleet = newFleet(&o)
	}
	o.Fleet.outputBytes = o.OutputBytes
	s := &Spine{Fleet: o.Fleet, opts: o, Ready: make(chan struct{})}
	queues := &queue.Registry{}
	s.View = event.New(shard.New(shard.Options{Definitions: s.Definition, Workers: runtime.GOMAXPROCS(0), Registerer: o.Registerer, Queues: queues, Logger: o.Log}),
		event.Options{Emit: o.Emit, Registerer: o.Registerer, Queues: queues})
	shown := metrics.NewJournal(o.Registerer, "journal")
	var err error
	s.log, err = journal.Open(filepath.Join(o.Dir, "journal"), journal.Options{Deliver: func(c journal.Commit) { s.View.Deliver(c) },
		FS: o.FS, Budget: o.Budget, Reserve: -1, Linger: journal.ServerLinger,
		ObserveCommit: shown.Committed, Queues: queues, Logger: o.Log})
	if err != nil {
		return nil, err
	}
	shown.Open(s.log)
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	if o.TLS {
		if s.Authority, err = pki.Open(filepath.Join(o.Dir, "pki"), []string{"localhost", "127.0.0.1"}, time.Now); err != nil {
			return nil, err
		}
		key = s.Authority.SigningKey()
	}
	var sessions journal.Journal = s.log
	if o.Sessions != nil {
		sessions = o.Sessions(s.log)
	}
	shared := core.Config{Journal: sessions, Assignments: s, Log: o.Log, Registerer: o.Registerer}
	s.server, err = muster.New(muster.Config{Config: shared, Nodes: s, View: s.View, SigningKey: key})
	return s, err
}

// Run serves until ctx ends.
func (s *Spine) Run(ctx context.Context) error {
	// The view and the journal outlive the sessions: the last commits are applied.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var view sync.WaitGroup
	view.Go(func() { _ = s.View.Run(life) })
	defer view.Wait()
	defer end()
	defer s.log.Close()
	if err := s.log.Read(ctx, journal.Position{}, func(c journal.Commit) error { s.View.Deliver(c); return nil }); err != nil {
		return err
	}
	if err := s.View.WaitApplied(ctx, s.log.Head()); err != nil {
		return err
	}
	for _, r := range []wire.Record{{Kind: wire.RecordStarted}, {Kind: wire.RecordIntent, Intent: &wire.IntentMark{Revision: 1}}} {
		if err := s.log.Append(ctx, journal.Entry{Section: journal.All, Data: wire.AppendRecord(nil, &r)}); err != nil {
			return err
		}
	}
	close(s.Ready)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.server.Run(ctx) })
	if s.opts.Plain != nil {
		g.Go(func() error { return muster.ServePlain(ctx, s.opts.Plain, s.server) })
	}
	g.Go(func() error {
		if s.Authority == nil {
			return muster.ServePlain(ctx, s.opts.Listen, s.server)
		}
		return muster.Listen(s.opts.Listen, s.Authority, s.server, s.opts.Log).Run(ctx)
	})
	return g.Wait()
}
