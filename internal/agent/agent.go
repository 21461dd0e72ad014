package agent

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/agent/secrets"
	"github.com/muster-fleet/muster/internal/agent/spool"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// Agent runs the checks of one node.
type Agent struct {
	cfg       Config
	ready     chan struct{}          // closed when Run has read its state folder
	name      atomic.Pointer[string] // of the node, as the server names it
	clock     serverClock
	facts     factWatch
	connected atomic.Bool
	forgotten atomic.Bool   // the server has deleted this ephemeral node
	retryNow  chan struct{} // capacity 1: the next attempt to connect need not wait

	// Set once by Run before any other goroutine starts.
	started uint64 // boot clock, ms
	spool   *spool.Spool
	session session
	stop    context.CancelFunc

	units       units
	checks      checks
	requests    requestedRuns
	secrets     *secrets.Keeper
	credentials credentials
}

// New returns an agent that does nothing before Run.
func New(cfg Config) (*Agent, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	allow, err := run.ParseAllow(cfg.Commands.Allow)
	if err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, ready: make(chan struct{}), retryNow: make(chan struct{}, 1)}
	a.name.Store(&a.cfg.Name)
	a.facts.changed = make(chan struct{}, 1)
	a.credentials.refused = make(chan struct{}, 1)
	a.secrets = secrets.New(secrets.Options{Dir: cfg.Commands.SecretsDir})
	a.checks.agent = a
	a.checks.runner = &run.Runner{
		PluginPath: cfg.Commands.PluginPath, Node: func() string { return *a.name.Load() },
		Nice: cfg.Commands.Nice, Guard: cfg.Commands.Guard, Allow: allow,
	}
	a.requests.agent, a.requests.ready = a, make(chan struct{}, 1)
	a.units = units{log: cfg.Log, parts: map[model.ChunkKind]part{model.ChunkCheck: &a.checks}}
	return a, nil
}

// ErrForgotten says that the server has deleted this ephemeral node while it was away. The agent
// has a token: another one on the same configuration joins as a new node. Run has removed the state
// of the old one.
var ErrForgotten = errors.New("the server has deleted this ephemeral node: it joins again")

// Run enrols if the machine has no identity, then runs checks and keeps a session until ctx ends.
// It then waits up to Config.StopGrace for running checks, says Bye and closes the spool. It
// returns an error where it cannot start or the server has refused this node for good, and
// ErrForgotten where the node may join again.
func (a *Agent) Run(ctx context.Context) error {
	if err := a.run(ctx); err != nil || !a.forgotten.Load() || ctx.Err() != nil {
		return err
	}
	if err := Reset(a.cfg.StateDir, func(*pki.Identity, []string) error { return nil }); err != nil {
		return err
	}
	return ErrForgotten
}

func (a *Agent) run(ctx context.Context) error {
	ctx, a.stop = context.WithCancel(ctx)
	defer a.stop()
	folder, err := lock(a.cfg.StateDir)
	if err != nil {
		return err
	}
	defer folder.Close()
	a.started = a.cfg.Machine.BootMs()
	defer a.secrets.Close()
	a.facts.measure(&a.cfg.Machine)
	id, err := a.identity(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	a.name.Store(&id.Name)
	assignment, err := loadAssignment(a.cfg.StateDir, id, a.units.decode)
	if err != nil {
		a.cfg.Log.Error("stored assignment is not used, the server sends it again", "err", err)
	}
	a.session = loadSession(a.cfg.StateDir)
	if !slices.Equal(a.session.Own, a.cfg.Servers) { // --server was changed since: it wins
		a.session.Servers = nil
	}
	a.spool, err = spool.Open(filepath.Join(a.cfg.StateDir, spoolFolder), spool.Options{
		MaxBytes: a.cfg.Spool.Bytes, MaxAge: a.cfg.Spool.Age, Known: a.session.Incarnation != 0,
		Clock: spoolClock{&a.cfg.Machine}, Logger: a.cfg.Log,
	})
	if err != nil {
		return err
	}
	defer func() {
		if err := a.spool.Close(); err != nil {
			a.cfg.Log.Error("close the spool", "err", err)
		}
	}()
	if err := a.checks.open(id.Node); err != nil {
		return err
	}
	if assignment != nil {
		if err := a.units.apply(assignment); err != nil {
			a.cfg.Log.Error("apply the stored assignment", "err", err)
		}
	}
	close(a.ready)
	return a.runParts(ctx, id, assignment)
}

// runParts stops in this order: checks and requested commands first, then the session, so that it
// still sends the last results; Run then closes the spool.
func (a *Agent) runParts(ctx context.Context, id *pki.Identity, assignment *link.Assignment) error {
	checksCtx, stopChecks := context.WithCancel(ctx)
	defer stopChecks()
	linkCtx, stopLink := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLink()
	a.requests.start(ctx)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	watchers.Go(func() { a.facts.watch(checksCtx, &a.cfg) })
	watchers.Go(func() { a.checks.assets.Run(checksCtx) })
	a.credentials.set(id, a.cfg.Machine.Now)
	session := a.linkConfig(id, assignment)
	a.credentials.setServers(slices.Concat(session.SavedServers, session.Servers))
	watchers.Go(func() { a.keepCertificate(checksCtx) })
	linked := make(chan error, 1)
	go func() {
		err := link.Run(linkCtx, session, a.spool, (*events)(a))
		stopChecks() // no server will take results any more
		linked <- err
	}()
	_ = a.checks.scheduler.Run(checksCtx)
	a.requests.stopAll()
	stopLink()
	return <-linked
}
