package agent

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/agent/asset"
	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/agent/schedule"
	"github.com/muster-fleet/muster/internal/agent/secrets"
	"github.com/muster-fleet/muster/internal/agent/spool"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/wire"
)

// Agent runs the checks of one node.
type Agent struct {
	cfg       Config
	runner    *run.Runner
	ready     chan struct{} // closed when Run has read its state folder
	maxOutput atomic.Int64  // what the server takes of one result
	lost      atomic.Uint64 // results that the spool did not take
	clockOff  atomic.Bool   // the log has told that the clock is off
	offset    atomic.Pointer[serverClock]
	connected atomic.Bool
	forgotten atomic.Bool            // the server has forgotten this ephemeral node
	name      atomic.Pointer[string] // of the node, as the server says

	measured   atomic.Pointer[map[string]string] // facts; the map is never changed
	remeasured chan struct{}                     // they differ
	again      chan struct{}                     // the server may take us now

	// Set once by Run before anything else sees them.
	began     uint64 // boot clock, ms
	spool     *spool.Spool
	scheduler *schedule.Scheduler
	assets    *asset.Cache
	asked     asked
	session   session
	secrets   *secrets.Keeper

	credentials credentials
	giveUp      context.CancelFunc

	mu     sync.Mutex
	checks map[schedule.Key]*check
	chunks map[model.ChunkID]model.CheckID // what RunNow names
	held   *link.Assignment                // in force, or what will be when the server takes us back
	ceased bool                            // nothing runs: the server has no place for this machine
}

// serverClock ties the server's clock to our boot clock at the last Welcome, so that
// a jump of our wall clock shows at once.
type serverClock struct {
	serverMs int64
	bootMs   uint64
}

// New makes an agent; nothing happens before Run.
func New(cfg Config) (*Agent, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	allow, err := run.ParseAllow(cfg.AllowCommands)
	if err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, ready: make(chan struct{}), remeasured: make(chan struct{}, 1), again: make(chan struct{}, 1)}
	a.credentials.doubted = make(chan struct{}, 1)
	a.asked.agent, a.asked.ready = a, make(chan struct{}, 1)
	a.name.Store(&a.cfg.Name)
	a.secrets = secrets.New(secrets.Options{Dir: cfg.SecretsDir})
	a.runner = &run.Runner{PluginPath: cfg.PluginPath, Node: func() string { return *a.name.Load() }, Nice: cfg.Nice, Guard: cfg.Guard, Allow: allow}
	return a, nil
}

// Run enrols if need be, and then runs checks and keeps a session until ctx ends. At
// the end it waits briefly for what runs, says Bye and closes the spool. It returns
// an error only if it cannot begin, or the server has refused this node for good; it is
// ErrForgotten where another agent on the same configuration may join anew.
func (a *Agent) Run(ctx context.Context) error {
	if err := a.run(ctx); err != nil || !a.forgotten.Load() || ctx.Err() != nil {
		return err
	}
	if err := Reset(a.cfg.StateDir, func(*pki.Identity, []string) error { return nil }); err != nil {
		return err
	}
	return ErrForgotten
}

// ErrForgotten is that of an ephemeral node which was away for so long that the server
// has forgotten it. It has a token, so it joins again by itself, as a new node: what
// belonged to the node that it was is removed.
var ErrForgotten = errors.New("the server has forgotten this node: it joins again")

func (a *Agent) run(ctx context.Context) error {
	ctx, a.giveUp = context.WithCancel(ctx)
	defer a.giveUp()
	lock, err := lock(a.cfg.StateDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	a.began = a.cfg.Machine.BootMs()
	defer a.secrets.Close()
	a.measure()
	id, err := a.identity(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	a.name.Store(&id.Name)
	held, err := loadHeld(a.cfg.StateDir, id)
	if err != nil {
		a.cfg.Log.Error("the kept assignment is not used, the server sends it again", "err", err)
	}
	a.session = loadSession(a.cfg.StateDir)
	if !slices.Equal(a.session.Own, a.cfg.Servers) { // somebody has set --server since: the newer word counts
		a.session.Servers = nil
	}
	a.spool, err = spool.Open(filepath.Join(a.cfg.StateDir, spoolFolder), spool.Options{
		MaxBytes: a.cfg.SpoolBytes, MaxAge: a.cfg.SpoolAge, Known: a.session.Incarnation != 0,
		Clock: clock{&a.cfg.Machine}, Logger: a.cfg.Log,
	})
	if err != nil {
		return err
	}
	defer func() {
		if err := a.spool.Close(); err != nil {
			a.cfg.Log.Error("spool did not close", "err", err)
		}
	}()
	a.scheduler = schedule.New(schedule.Config{
		Node: id.Node, MaxConcurrent: a.cfg.MaxConcurrent, FirstWithin: a.cfg.FirstWithin, Grace: a.cfg.StopGrace,
		Boot: func() time.Duration { return time.Duration(a.cfg.Machine.BootMs()) * time.Millisecond },
		Now:  a.cfg.Machine.Now,
	})
	a.assets, err = asset.Open(asset.Config{
		Dir: a.cfg.AssetDir, Bytes: a.cfg.AssetBytes, Fetch: a.fetchAsset, Arrived: a.assetArrived, Log: a.cfg.Log,
	})
	if err != nil {
		return err
	}
	if held != nil {
		if err := a.apply(held); err != nil {
			a.cfg.Log.Error("the kept assignment cannot be applied", "err", err)
		}
	}
	close(a.ready)
	return a.runAll(ctx, id, held)
}

// runAll stops in order: first no more checks and commands, then the session, so that the last
// results may still leave; then (in Run) the spool.
func (a *Agent) runAll(ctx context.Context, id *pki.Identity, held *link.Assignment) error {
	checksCtx, stopChecks := context.WithCancel(ctx)
	defer stopChecks()
	linkCtx, stopLink := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLink()
	a.asked.begin(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { a.watchFacts(checksCtx) })
	watching.Go(func() { a.assets.Run(checksCtx) })
	a.credentials.set(id, a.cfg.Machine.Now)
	session := a.linkConfig(id, held)
	a.credentials.reach(slices.Concat(session.SavedServers, session.Servers))
	watching.Go(func() { a.keepCertificate(checksCtx) })
	linked := make(chan error, 1)
	go func() {
		err := link.Run(linkCtx, session, a.spool, (*events)(a))
		stopChecks() // nobody will ever take results again
		linked <- err
	}()
	_ = a.scheduler.Run(checksCtx)
	a.asked.end()
	stopLink()
	return <-linked
}

func (a *Agent) linkConfig(id *pki.Identity, held *link.Assignment) link.RunConfig {
	servers := a.cfg.Servers
	if len(servers) == 0 {
		servers = id.Servers
	}
	return link.RunConfig{
		Config: link.Config{
			Node: id.Node, ServerKey: id.ServerKey, Dial: a.cfg.Dial,
			BootMs: a.cfg.Machine.BootMs, Now: a.cfg.Machine.Now, Log: a.cfg.Log,
		},
		Servers: servers, TLS: a.credentials.TLS, SavedServers: a.session.Servers, Hello: a.hello, Facts: a.said, Remeasured: a.remeasured, RetryNow: a.again, Held: held, Stats: a.stats, Linger: a.cfg.Linger, RunOutputs: &a.asked, Requests: a.secrets,
	}
}

func (a *Agent) hello() wire.Hello {
	return wire.Hello{
		Name: a.cfg.Name, MachineID: a.cfg.Machine.ID, BootID: a.cfg.Machine.Boot, Version: a.cfg.Version,
		OS: runtime.GOOS, Arch: runtime.GOARCH, Incarnation: a.session.Incarnation, Labels: a.cfg.Labels,
		Facts: *a.measured.Load(), Groups: a.cfg.Groups, ClockUnixMs: a.cfg.Machine.Now().UnixMilli(), Restrictions: a.refuses(),
	}
}

// events is the agent as the link sees it: all calls come from one goroutine at a time.
type events Agent

// Connected implements link.Events.
func (e *events) Connected(server string, w *wire.Welcome) {
	a := (*Agent)(e)
	a.offset.Store(&serverClock{serverMs: w.ServerUnixMs, bootMs: a.cfg.Machine.BootMs()})
	a.maxOutput.Store(int64(w.MaxOutput))
	name := w.Name
	a.name.Store(&name)
	a.connected.Store(true)
	a.secrets.Connected(w.Features)
	a.assets.Hurry()
	a.resume()
	now := session{Incarnation: w.Incarnation, Servers: slices.Clone(w.Servers), Own: a.cfg.Servers}
	if now.Incarnation != a.session.Incarnation || !slices.Equal(now.Servers, a.session.Servers) || !slices.Equal(now.Own, a.session.Own) {
		if !slices.Equal(now.Servers, a.session.Servers) {
			a.cfg.Log.Info("the server tells where to connect from now on; what this agent was given itself is tried after these", "servers", now.Servers)
		}
		a.session = now
		if err := saveSession(a.cfg.StateDir, now); err != nil {
			a.cfg.Log.Error("cannot remember the server", "err", err)
		}
	}
	a.cfg.State(Connected + " to " + server + " as " + w.Name)
	a.credentials.reach(slices.Concat([]string{server}, now.Servers, a.cfg.Servers, a.credentials.identity().Servers))
	a.cfg.Log.Info("connected", "server", server, "name", w.Name)
}

// Disconnected implements link.Events.
func (e *events) Disconnected(server string, err error) {
	a := (*Agent)(e)
	if a.connected.Swap(false) {
		a.spool.Offline()
	}
	a.asked.forget()
	a.secrets.Disconnected()
	a.cfg.State("no session with " + server + ": " + oneLine(err))
	a.cfg.Log.Warn("no session", "server", server, "err", err)
	a.credentials.refused(err)
	var refused *link.RefusedError
	if !errors.As(err, &refused) {
		return
	}
	if refused.Code == "forgotten" && a.cfg.Token != "" {
		a.forgotten.Store(true)
		a.giveUp()
	}
	if slices.Contains(noPlace, refused.Code) {
		a.cease(refused.Code)
	}
}

// Assigned implements link.Events.
func (e *events) Assigned(held *link.Assignment) {
	a := (*Agent)(e)
	if err := saveHeld(a.cfg.StateDir, held); err != nil {
		a.cfg.Log.Error("cannot keep the assignment for the next start", "err", err)
	}
	if err := a.apply(held); err != nil {
		a.cfg.Log.Error("cannot apply the assignment", "err", err)
		return
	}
	a.cfg.Log.Info("assignment in force", "checks", len(held.Chunks), "revision", held.Generation.Revision)
}

// Turn implements link.Events.
func (e *events) Turn(t *wire.Turn) { (*Agent)(e).turn(t) }

// Reply implements link.Events.
func (e *events) Reply(x *wire.Exchange) { (*Agent)(e).secrets.Heard(x) }

// RunNow implements link.Events.
func (e *events) RunNow(r *wire.Run) {
	(*Agent)(e).asked.ask(r)
}

// ServerOffset is this machine's clock less the server's; ok is false before the
// first session.
func (a *Agent) ServerOffset() (offset time.Duration, ok bool) {
	c := a.offset.Load()
	if c == nil {
		return 0, false
	}
	server := c.serverMs + int64(a.cfg.Machine.BootMs()-c.bootMs)
	return time.Duration(a.cfg.Machine.Now().UnixMilli()-server) * time.Millisecond, true
}
