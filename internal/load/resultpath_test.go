package load_test

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
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/metrics"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/wire"
)

// pathOptions describes a server with only the path of a result: session, journal with fsync, view and acknowledgement,
// without intent, API and reactions.
type pathOptions struct {
	dir      string             // of journal and CA
	scenario *scenario.Scenario // whose nodes come and run its checks
	tls      bool               // mutual
	listen   net.Listener
	sessions func(journal.Journal) journal.Journal // makes the journal that sessions append to, which may lie; nil: the real one
}

// resultPath is a server with only the path of a result.
type resultPath struct {
	*pathFleet
	opts      pathOptions
	view      *event.View
	authority *pki.Authority // nil without TLS
	ready     chan struct{}  // closed when the journal is replayed and agents are let in

	log    *journal.Log
	server *muster.Server
}

// openPath opens the journal of a server; run replays it.
func openPath(o pathOptions) (*resultPath, error) {
	log, registry := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	s := &resultPath{pathFleet: newPathFleet(o.scenario), opts: o, ready: make(chan struct{})}
	queues := &queue.Registry{}
	s.view = event.New(shard.New(shard.Options{Definitions: s.Definition, Workers: runtime.GOMAXPROCS(0), Registerer: registry, Queues: queues, Logger: log}),
		event.Options{Registerer: registry, Queues: queues})
	shown := metrics.NewJournal(registry, "journal")
	var err error
	s.log, err = journal.Open(filepath.Join(o.dir, "journal"), journal.Options{Deliver: func(c journal.Commit) { s.view.Deliver(c) },
		Reserve: -1, Linger: journal.ServerLinger,
		ObserveCommit: shown.Committed, Queues: queues, Logger: log})
	if err != nil {
		return nil, err
	}
	shown.Open(s.log)
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	if o.tls {
		if s.authority, err = pki.Open(filepath.Join(o.dir, "pki"), []string{"localhost", "127.0.0.1"}, time.Now); err != nil {
			return nil, err
		}
		key = s.authority.SigningKey()
	}
	var sessions journal.Journal = s.log
	if o.sessions != nil {
		sessions = o.sessions(s.log)
	}
	shared := core.Config{Journal: sessions, Assignments: s, Log: log, Registerer: registry}
	s.server, err = muster.New(muster.Config{Config: shared, Nodes: s, View: s.view, SigningKey: key})
	return s, err
}

// run serves agents until ctx ends.
func (s *resultPath) run(ctx context.Context) error {
	// The view and the journal outlive the sessions: the last commits are applied.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var view sync.WaitGroup
	view.Go(func() { _ = s.view.Run(life) })
	defer view.Wait()
	defer end()
	defer s.log.Close()
	if err := s.log.Read(ctx, journal.Position{}, func(c journal.Commit) error { s.view.Deliver(c); return nil }); err != nil {
		return err
	}
	if err := s.view.WaitApplied(ctx, s.log.Head()); err != nil {
		return err
	}
	for _, r := range []wire.Record{{Kind: wire.RecordStarted}, {Kind: wire.RecordIntent, Intent: wire.IntentMark{Revision: 1}}} {
		if err := s.log.Append(ctx, journal.Entry{Section: journal.All, Data: wire.AppendRecord(nil, &r)}); err != nil {
			return err
		}
	}
	close(s.ready)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.server.Run(ctx) })
	g.Go(func() error {
		if s.authority == nil {
			return muster.ServePlain(ctx, s.opts.listen, s.server)
		}
		return muster.Listen(s.opts.listen, s.authority, s.server, slog.New(slog.DiscardHandler)).Run(ctx)
	})
	return g.Wait()
}
