package plan

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
	"github.com/muster-fleet/muster/internal/wire"
)

// Options are what a planner needs of its surroundings.
type Options struct {
	Store    intent.Store
	Epoch    uint64 // of the journal's incarnation: the first half of every generation
	Logger   *slog.Logger
	Registry prometheus.Registerer // nil: none
	Kinds    *kind.Registry        // nil: all of Muster's
	// Forget hears of results that are expected no more, before Apply returns. It
	// writes them into the journal. See RemovalsSince for what a crash swallowed.
	Forget func([]Removal)
	// Routing is where windows, routes and silences are put in force; nil: nowhere.
	Routing Routing
	// Pipelines is where what is kept from Sensu is put in force, and windows; nil: nowhere.
	Pipelines Routing
	// Tools is where Assets are put in force for the server's own commands, and who of what is
	// kept from Sensu names them; nil: nowhere.
	Tools Routing
}

// Planner implements Assignments and Directory. Readers may call it at any time;
// Load, Apply, CatchUp, Preview and RemovalsSince wait for one another.
type Planner struct {
	o    Options
	gids gids

	// Lock order: compiling, then mu or chunkMu (never both).
	compiling sync.Mutex // one list of changes at a time; never held by readers
	defs      map[intent.Key]any
	fns       []func(directory.Change)
	wheres    map[string]*where.Condition

	mu       sync.RWMutex // short: no input or output happens under it
	fleet    *fleet
	revision int64
	broken   uint64

	chunkMu    sync.RWMutex
	chunks     map[model.ChunkID]*model.Chunk
	chunkByKey map[chunkKey]*model.Chunk
	retired    map[model.ChunkID]time.Time // since when nobody has them
}

var (
	_ directory.Assignments = (*Planner)(nil)
	_ directory.Reader      = (*Planner)(nil)
)

// New makes a planner that knows nothing yet: call Load.
func New(o Options) *Planner {
	if o.Kinds == nil {
		o.Kinds = kind.All()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Forget == nil {
		o.Forget = func([]Removal) {}
	}
	p := &Planner{
		o: o, defs: map[intent.Key]any{}, wheres: map[string]*where.Condition{},
		chunks: map[model.ChunkID]*model.Chunk{}, chunkByKey: map[chunkKey]*model.Chunk{},
		retired: map[model.ChunkID]time.Time{},
	}
	p.fleet = newFleet(&p.gids)
	if o.Registry != nil {
		o.Registry.MustRegister(collector{p})
	}
	return p
}

// kinds in the order in which Load reads them: what is referred to first.
var kinds = [...]string{"Namespace", "Node", "Group", "Property", "Handler", "Secret", "Check", "Window", "Route", "Silence", "Filter", "Mutator", "Hook", "Pipeline", "Asset"}

// Load reads all of the intent store. Call it once, before anything else.
func (p *Planner) Load(ctx context.Context) error {
	revision, err := p.o.Store.Revision(ctx)
	if err != nil {
		return fmt.Errorf("load intent: %w", err)
	}
	if err := p.loadChunks(ctx); err != nil {
		return err
	}
	var changes []intent.Change
	for _, kind := range kinds {
		rows, err := p.o.Store.List(ctx, intent.ListQuery{Kind: kind})
		if err != nil {
			return fmt.Errorf("load intent: list %s: %w", kind, err)
		}
		for _, row := range rows {
			changes = append(changes, intent.Change{Revision: revision, Key: row.Key, ID: row.ID, After: row.Body})
		}
	}
	if _, err := p.apply(ctx, changes, revision); err != nil {
		return err
	}
	return p.CatchUp(ctx) // what was written while we listed
}

func (p *Planner) loadChunks(ctx context.Context) error {
	rows, err := p.o.Store.List(ctx, intent.ListQuery{Kind: chunkKind})
	if err != nil {
		return fmt.Errorf("load intent: list chunks: %w", err)
	}
	for _, row := range rows {
		if _, err := p.keepChunk(row); err != nil { // then nothing was ever told to run it
			p.o.Logger.Error("a stored definition of a check is left out", "error", err)
			p.broken++
		}
	}
	return nil
}

// Run applies what the intent store records whenever wake says so, until ctx ends.
// While the store fails it tries again every second.
func (p *Planner) Run(ctx context.Context, wake <-chan struct{}) error {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-again:
		}
		again = nil
		if err := p.CatchUp(ctx); err != nil && !errors.Is(err, context.Canceled) {
			p.o.Logger.Error("cannot compile changes; trying again", "error", err)
			again = time.After(time.Second)
		}
	}
}

// catchUpChanges is how many changes one pass compiles at most.
const catchUpChanges = 10_000

// CatchUp applies all changes recorded since the last one applied.
func (p *Planner) CatchUp(ctx context.Context) error {
	for {
		changes, err := p.o.Store.Changes(ctx, p.Revision(), catchUpChanges)
		if err != nil {
			return fmt.Errorf("read changes: %w", err)
		}
		if len(changes) == 0 {
			return nil
		}
		if _, err := p.Apply(ctx, changes); err != nil {
			return err
		}
	}
}

// Apply compiles recorded changes and returns the nodes whose assignment changed,
// deleted ones included. Changes that were applied before are passed over. After an
// error nothing is changed: call it again.
func (p *Planner) Apply(ctx context.Context, changes []intent.Change) ([]model.NodeID, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	return p.apply(ctx, changes, changes[len(changes)-1].Revision)
}

func (p *Planner) apply(ctx context.Context, changes []intent.Change, revision int64) ([]model.NodeID, error) {
	p.compiling.Lock()
	defer p.compiling.Unlock()
	t, err := p.translate(ctx, changes)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	pass := p.fleet.apply(t.edits)
	changed := p.fleet.build(pass, wire.Generation{Epoch: p.o.Epoch, Revision: uint64(revision)})
	p.fleet.sweep()
	p.revision = max(p.revision, revision)
	p.broken += t.broken
	p.mu.Unlock()

	for _, text := range pass.oversized {
		p.o.Logger.Error("assignment is too large: the agent goes on with what it holds", "reason", text)
	}
	t.keep(p.defs)
	p.routes(t)
	deleted := pass.deletedNodes()
	changed = slices.AppendSeq(changed, maps.Keys(deleted))
	if forgotten := t.forgotten(pass.lost, deleted); len(forgotten) > 0 {
		p.o.Forget(forgotten)
	}
	if len(changed) > 0 {
		for _, fn := range p.fns {
			fn(directory.Change{Revision: revision, Assignments: changed})
		}
	}
	return changed, nil
}

func (f *fleet) sweep() {
	f.groupSets.sweep()
	f.checkSets.sweep()
}

// Revision is the intent revision that the assignments reflect.
func (p *Planner) Revision() int64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.revision
}

// For implements Assignments.
func (p *Planner) For(id model.NodeID) *directory.Assignment {
	p.mu.RLock()
	defer p.mu.RUnlock()
	n := p.fleet.nodes[id]
	if n == nil || n.content == nil {
		return nil
	}
	return &directory.Assignment{
		Node: id, UID: n.def.uid, Generation: n.gen, Hash: n.content.hash,
		Chunks: n.content.chunks, Properties: n.content.properties, Proxied: n.content.proxied,
	}
}

// Subscribe implements Assignments. fn is called by whoever calls Apply.
func (p *Planner) Subscribe(fn func(directory.Change)) {
	p.compiling.Lock()
	defer p.compiling.Unlock()
	p.fns = append(p.fns, fn)
}
