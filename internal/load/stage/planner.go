package stage

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/store/intentdb"
)

// planner is the planner alone, with the nodes, groups and checks of the scenario: every
// result is a new value of a property of its node, and where it changes the status a new
// definition of its check, for all nodes that run it. What assignments hold is acknowledged.
// Changes are not written to the store; definitions never seen are numbered there, which a
// planner does itself.
func (d *Driven) planner(ctx context.Context, sc *scenario.Scenario) error {
	store, err := intentdb.Open(ctx, filepath.Join(d.dir, "intent.db"), time.Now)
	if err != nil {
		return err
	}
	d.end(store.Close)
	service := intent.NewService(intent.Options{Store: store, Validate: func(*model.Resource) error { return nil }})
	if err := service.Load(ctx); err != nil {
		return err
	}
	if err := simulated.PrepareScenario(ctx, service, sc); err != nil {
		return err
	}
	p := plan.New(plan.Options{Store: store, Epoch: 1, Registry: d.metric})
	if err := p.Load(ctx); err != nil {
		return err
	}
	e := &edits{planner: p, revision: p.Revision(), states: map[state]*edited{}, wake: make(chan struct{}, 1)}
	if err := e.define(ctx, sc); err != nil {
		return err
	}
	life, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { e.compile(life) })
	d.end(func() error { stop(); running.Wait(); return nil })
	d.config.Stage, d.config.Before = e, e
	return nil
}

// compile brings the assignments up to date until ctx ends: all that waits in one pass, as a
// server does with what was recorded meanwhile.
func (e *edits) compile(ctx context.Context) {
	for {
		select {
		case <-e.wake:
		case <-ctx.Done():
			return
		}
		e.mu.Lock()
		changes, waiters := e.changes, e.waiters
		e.changes, e.waiters = nil, nil
		if e.room != nil {
			close(e.room)
			e.room = nil
		}
		e.mu.Unlock()
		_, err := e.planner.Apply(ctx, changes)
		for _, w := range waiters {
			w.waiter.Committed(w.token, journal.Position{}, err)
		}
	}
}

// Each implements load.View: what the assignment of each node says of the last result of each
// check. Where it has not the last definition of the check, it says something else.
func (e *edits) Each(_ context.Context, fn func(load.Kept) error) error {
	for _, node := range e.planner.Directory().Nodes(simulated.Namespace) {
		a := e.planner.Directory().For(node)
		for _, definition := range a.Definitions {
			definition := definition.AsCheck()
			e.mu.Lock()
			c := e.checks[definition.Unit]
			present := c != nil && definition.Env[versioned] == c.name()
			e.mu.Unlock()
			if c == nil {
				continue
			}
			last, ok, err := saidIn(a.Properties, c.property)
			if err != nil {
				return err
			} else if !ok {
				continue
			}
			if !present {
				last.digest = max(1, ^last.digest)
			}
			if err := fn(load.Kept{Node: node, Check: definition.Unit, Stream: last.stream, Results: last.results, Number: last.number, Digest: last.digest}); err != nil {
				return err
			}
		}
	}
	return nil
}
