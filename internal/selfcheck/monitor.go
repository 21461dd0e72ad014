package selfcheck

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/muster/internal/follow"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/react"
	"github.com/muster-fleet/muster/internal/source/core"
)

// Options lists the measurements of a Monitor and its output. Run and the other methods call the
// functions; only Record and Events may block.
type Options struct {
	KeepaliveTimeout time.Duration // of the server; nodes may have another
	SnapshotCycle    string        // the setting, for a hint
	RestoredCommand  string        // gives an older copy of the data a new incarnation
	Now              func() time.Time
	Log              *slog.Logger

	// Record writes a result of a built-in check about a node and returns when it is durable.
	Record func(ctx context.Context, node model.NodeID, check model.CheckID, status model.Status, output string) error
	Event  func(node model.NodeID, check model.CheckID) (event.State, bool)
	Events func(ctx context.Context, q event.Query) (event.Page, error)

	Machines  func() int // nodes with an agent
	Exists    func(node model.NodeID) bool
	Node      func(namespace, name string) (model.NodeID, bool)
	Connected func() int                        // nodes with a session
	Hits      func(since time.Time) []core.Hit  // limits met
	Journal   func() journal.Stats              //
	Holder    func() (name string, bytes int64) // consumer that keeps most of the journal from being cut; "": none
	Lag       func() react.Lag                  // of history
	Trouble   func() error                      // of the history store
	Streams   func() []follow.State             // of handlers of every result
}

// Monitor keeps the built-in events.
type Monitor struct {
	o       Options
	outages outages
	older   olderData
	clones  clones
	lost    chan string // text of a mass outage that is still to be recorded
}

// New makes a monitor. Its reporting methods may be called before Run.
func New(o Options) *Monitor {
	return &Monitor{o: o, outages: outages{timeout: o.KeepaliveTimeout}, clones: clones{reports: map[model.NodeID]core.Clone{}, arrived: make(chan struct{}, 1)}, lost: make(chan string, 1)}
}

// Run keeps the events until ctx ends.
func (m *Monitor) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.watchHealth(ctx) })
	g.Go(func() error { return m.recordOutages(ctx) })
	g.Go(func() error { return m.watchClones(ctx) })
	g.Go(func() error { return m.watchLimits(ctx) })
	return g.Wait()
}
