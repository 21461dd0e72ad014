// Package spine is the path of a result alone: session, journal with fsync, view,
// acknowledgement, without intent, API and reactions. Benchmarks of a stage run
// against it, and the load tester's own tests. Nodes are load.NodeUID's; all hold
// the same checks. Start and end of its goroutines are Run's. One lock, over the nodes' keys.
package spine

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/metrics"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/wire"
)

// Options of a spine.
type Options struct {
	Dir        string // journal and CA
	Agents     int
	Checks     int
	Interval   time.Duration
	Seed       uint64
	TLS        bool // mutual
	Listen     net.Listener
	Registerer prometheus.Registerer
	Log        *slog.Logger

	OutputBytes int     // longest output of one result, beyond it is refused; zero: the server's default
	FS          disk.FS // under the journal; nil: the machine's

	// Sessions is the journal that sessions append to; nil: the spine's own. Tests put
	// one there that lies.
	Sessions func(journal.Journal) journal.Journal
}

// Spine implements what the session layer asks of intent and planner, in memory.
type Spine struct {
	opts      Options
	View      *event.View
	Authority *pki.Authority // nil without TLS

	// Ready is closed when the journal is replayed and agents are let in.
	Ready chan struct{}

	log    *journal.Log
	server *muster.Server
	mu     sync.RWMutex // guards nodes: their keys come with their first sessions
	nodes  map[uuid.UUID]muster.Node
	chunks []*model.Chunk
	uids   []uuid.UUID
	hash   [32]byte
}

// firstNode is the number of node 0.
const firstNode = 1000

// Open opens the journal and replays it.
func Open(o Options) (*Spine, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	s := &Spine{opts: o, Ready: make(chan struct{}), nodes: make(map[uuid.UUID]muster.Node, o.Agents)}
	for i := range o.Agents {
		uid := load.NodeUID(o.Seed, i)
		s.uids = append(s.uids, uid)
		s.nodes[uid] = muster.Node{ID: model.NodeID(firstNode + i), Name: load.NodeName(i), Namespace: 2}
	}
	for i := range o.Checks {
		c := &model.Chunk{ID: model.ChunkID(100 + i), Check: model.CheckID(100 + i), Namespace: 2, CheckName: fmt.Sprintf("load-%03d", i),
			Command: &model.Command{Shell: "true"}, Interval: o.Interval, Timeout: o.Interval, FailAfter: 3, RecoverAfter: 1,
			Severities: [4]model.Severity{model.NotClassified, model.SeverityWarning, model.High, model.Average}}
		c.Hash = wire.ChunkHash(wire.AppendChunk(nil, c))
		s.chunks = append(s.chunks, c)
	}
	s.hash = wire.AssignmentHash(s.chunks, nil)
	queues := &queue.Registry{}
	s.View = event.New(event.Options{Chunks: s.Chunk, Workers: runtime.GOMAXPROCS(0), Registerer: o.Registerer, Queues: queues, Logger: o.Log})
	shown := metrics.NewJournal(o.Registerer, "journal")
	var err error
	s.log, err = journal.Open(filepath.Join(o.Dir, "journal"), journal.Options{Deliver: func(c journal.Commit) { s.View.Deliver(c) },
		FS: o.FS, Reserve: -1, Linger: 5 * time.Millisecond, // as the server
		Committed: shown.Committed, Queues: queues, Logger: o.Log})
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
	s.server, err = muster.New(muster.Config{Journal: sessions, Nodes: s, View: s.View, Assignments: s, SigningKey: key,
		Log: o.Log, Registerer: o.Registerer})
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
	for _, r := range []wire.Record{{Kind: wire.RecordStarted}, {Kind: wire.RecordIntent, Intent: 1}} {
		if err := s.log.Append(ctx, journal.Entry{Section: journal.All, Data: wire.AppendRecord(nil, &r)}); err != nil {
			return err
		}
	}
	close(s.Ready)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.server.Run(ctx) })
	g.Go(func() error {
		if s.Authority == nil {
			return muster.ServePlain(ctx, s.opts.Listen, s.server)
		}
		return muster.Listen(s.opts.Listen, s.Authority, s.server, s.opts.Log).Run(ctx)
	})
	return g.Wait()
}

// Lookup, Seen: muster.Nodes.
func (s *Spine) Lookup(uid uuid.UUID) (muster.Node, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n, ok := s.nodes[uid]
	return n, ok
}

// Gone: nobody is.
func (s *Spine) Gone(uuid.UUID, string) muster.Gone { return muster.Gone{} }

// FirstKey takes whichever comes first, as long as the spine lives.
func (s *Spine) FirstKey(uid uuid.UUID, key string) (onRecord, holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[uid]
	if n.Key == "" {
		n.Key = key
		s.nodes[uid] = n
	}
	return n.Key, ""
}

// Seen is not kept: there is no intent.
func (s *Spine) Seen(muster.Node, *wire.Hello) (limit, reason string) { return "", "" }

// Team: the server's defaults but for the outputs.
func (s *Spine) Team(model.NamespaceID) muster.TeamLimits {
	return muster.TeamLimits{Namespace: "spine", OutputBytes: s.opts.OutputBytes}
}

// For, Chunk, Subscribe: plan.Assignments.
func (s *Spine) For(node model.NodeID) *plan.Assignment {
	i := int(node) - firstNode
	if i < 0 || i >= len(s.uids) {
		return nil
	}
	return &plan.Assignment{Node: node, UID: s.uids[i], Generation: wire.Generation{Epoch: 1, Revision: 1}, Hash: s.hash, Chunks: s.chunks}
}

// Chunk finds a definition.
func (s *Spine) Chunk(id model.ChunkID) *model.Chunk {
	if i := int(id) - 100; i >= 0 && i < len(s.chunks) {
		return s.chunks[i]
	}
	return nil
}

// Subscribe: nothing ever changes.
func (s *Spine) Subscribe(func([]model.NodeID)) {}
