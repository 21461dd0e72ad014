package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/agent/facts"
	"github.com/muster-fleet/muster/internal/agent/inventory"
	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/agent/secrets"
	"github.com/muster-fleet/muster/internal/agent/spool"
	"github.com/muster-fleet/muster/internal/guard"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/wire"
)

// Agent is the program on one node that runs checks and sends their results to the server.
type Agent struct {
	cfg         Config
	ready       chan struct{}          // closed when Run has read its state folder
	name        atomic.Pointer[string] // the node's name, as the server sent it in Welcome
	clock       serverClock
	facts       factWatcher
	connected   atomic.Bool
	nodeDeleted atomic.Bool   // the server has deleted this ephemeral node
	retryNow    chan struct{} // capacity 1: the next attempt to connect need not wait

	// Set once by Run before any other goroutine starts.
	started     uint64 // boot clock, ms
	spool       *spool.Spool
	lastSession savedSession
	stop        context.CancelFunc

	units       assignedDefinitions
	checks      checks
	templates   templates
	directives  directives
	inventories *inventoryCollector
	requests    requestedRuns
	secrets     *secrets.Resolver
	credentials credentials
}

// New returns an agent that does nothing before the caller starts its method Run.
func New(cfg Config) (*Agent, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	allow, err := run.ParseAllowList(cfg.Commands.Allow)
	if err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, ready: make(chan struct{}), retryNow: make(chan struct{}, 1)}
	a.name.Store(&a.cfg.Name)
	a.facts.changed = make(chan struct{}, 1)
	a.credentials.renewNow = make(chan struct{}, 1)
	a.secrets = secrets.New(secrets.Options{Dir: cfg.Commands.SecretsDir})
	a.checks.agent = a
	a.checks.runner = &run.Runner{
		PluginPath: cfg.Commands.PluginPath, Node: func() string { return *a.name.Load() },
		Nice: cfg.Commands.Nice, Guard: cfg.Commands.Guard, Allow: allow,
	}
	a.requests.agent, a.requests.ready = a, make(chan struct{}, 1)
	a.inventories = newInventoryCollector(a)
	a.units = assignedDefinitions{log: cfg.Log, secrets: a.secrets, runners: map[model.DefinitionKind]definitionRunner{
		model.DefinitionCheck: &a.checks, model.DefinitionTemplate: &a.templates, model.DefinitionDirective: &a.directives,
		model.DefinitionWaiver: waivers{},
	}}
	return a, nil
}

// ErrForgotten says that the server deleted this ephemeral node while the node was offline. The agent
// has a join token: an agent with the same settings joins as a new node. Run has removed the state
// of the deleted node.
var ErrForgotten = errors.New("the server deleted this ephemeral node; the agent joins as a new node")

// Run enrols if the machine has no identity, then runs checks and keeps a session until ctx ends.
// It then waits up to Config.StopGrace for running checks, says Bye and closes the spool. It
// returns an error where it cannot start or the server has refused this node for good, and
// ErrForgotten where the node may join again.
func (a *Agent) Run(ctx context.Context) error {
	if err := a.runOnStateFolder(ctx); err != nil || !a.nodeDeleted.Load() || ctx.Err() != nil {
		return err
	}
	if err := Reset(a.cfg.StateDir, func(*pki.Identity, []string) error { return nil }); err != nil {
		return err
	}
	return ErrForgotten
}

// runOnStateFolder locks the state folder, loads the node's identity, opens the spool and runs the agent. A new
// machine enrols first. The spool is the log of unsent results.
func (a *Agent) runOnStateFolder(ctx context.Context) error {
	ctx, a.stop = context.WithCancel(ctx)
	defer a.stop()
	folder, err := lockStateFolder(a.cfg.StateDir)
	if err != nil {
		return err
	}
	defer folder.Close()
	a.started = a.cfg.Machine.BootMs()
	defer a.secrets.Close()
	a.facts.measureFacts(&a.cfg.Machine)
	id, err := a.loadOrEnrolIdentity(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	a.name.Store(&id.Name)
	assignment, err := loadAssignment(a.cfg.StateDir, id, a.units.supportedDefinition)
	if err != nil {
		a.cfg.Log.Error("ignored the stored assignment; the server sends the assignment again", "err", err)
	}
	a.lastSession = loadSavedSession(a.cfg.StateDir)
	if !slices.Equal(a.lastSession.ConfiguredServers, a.cfg.Servers) { // a changed --server replaces the stored list
		a.lastSession.Servers = nil
	}
	a.spool, err = spool.Open(filepath.Join(a.cfg.StateDir, spoolFolder), spool.Options{
		MaxBytes: a.cfg.Spool.Bytes, MaxAge: a.cfg.Spool.Age, HadSession: a.lastSession.Incarnation != 0,
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
	if err := a.checks.openSchedulerAndAssets(id.Node); err != nil {
		return err
	}
	a.templates.openItemScheduler(a, id.Node)
	a.directives.openScheduler(a, id.Node)
	if assignment != nil {
		a.directives.restoring = true
		if err := a.units.applyAssignment(assignment); err != nil {
			a.cfg.Log.Error("apply the stored assignment", "err", err)
		}
		a.directives.restoring = false
	}
	close(a.ready)
	return a.runUntilStopped(ctx, id, assignment)
}

// runUntilStopped runs checks and keeps a session until ctx ends. It stops checks and requested commands first, then
// the session, which thus sends the last results; Run then closes the spool.
func (a *Agent) runUntilStopped(ctx context.Context, id *pki.Identity, assignment *link.Assignment) error {
	checksCtx, stopChecks := context.WithCancel(ctx)
	defer stopChecks()
	linkCtx, stopLink := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLink()
	a.requests.acceptRequests(ctx)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	watchers.Go(func() { a.facts.watchFacts(checksCtx, &a.cfg) })
	watchers.Go(func() { a.inventories.collectPeriodically(checksCtx) })
	a.credentials.setIdentity(id, a.cfg.Machine.Now)
	session := a.linkConfig(id, assignment)
	known := slices.Concat(session.SavedServers, session.Servers)
	a.credentials.servers.Store(&known)
	watchers.Go(func() { a.checks.assets.Run(checksCtx) })
	watchers.Go(func() { a.keepCertificateValid(checksCtx) })
	watchers.Go(func() { a.templates.wheel.Run(checksCtx) })
	watchers.Go(func() { _ = a.directives.scheduler.Run(checksCtx) })
	linked := make(chan error, 1)
	go func() {
		err := link.Run(linkCtx, session, a.spool, (*linkEvents)(a))
		stopChecks() // no server will take results any more
		linked <- err
	}()
	_ = a.checks.scheduler.Run(checksCtx)
	a.requests.stopRuns()
	stopLink()
	return <-linked
}

// Config has the settings of an Agent. Only StateDir is required, and Token at the first start of a machine that has
// not joined.
type Config struct {
	StateDir string            // identity, assignment and spool; mode 0700
	Token    string            // join token; used while there is no identity
	CA       [32]byte          // SHA-256 of the CA to trust when joining without a token; zero: see Join
	Servers  []string          // host:port in order of preference; default: the identity's
	Name     string            // proposed at enrolment; default the host name
	Labels   map[string]string // reported to the server
	Groups   []string          // self-declared, where token or group allows it
	Version  string            // of the program, for Hello

	Commands    Commands
	Spool       SpoolLimits
	AssetDir    string        // extracted archives of Assets; default the folder assets in StateDir
	AssetBytes  int64         // disk for them; default 2 GiB
	Linger      time.Duration // longest delay of a result to share a frame; default 500 ms
	FirstWithin time.Duration // a new check runs once within this time; default 10 s
	FactsEvery  time.Duration // period of measuring the machine; default 1 min
	StopGrace   time.Duration // time for running commands at a stop; default 5 s

	Machine Machine      // default ThisMachine()
	Dial    pki.Dial     // default link.NewDialer(nil)
	State   func(string) // receives the agent's state in one line at each change; must not block; may be nil
	Log     *slog.Logger
}

// Commands has the agent's settings for commands, such as concurrency, PATH and allowed programs. It also names the
// folders of secrets and of scripts for the inventory.
type Commands struct {
	MaxConcurrent int          // checks at once; default CPUs, at least 2
	PluginPath    string       // appended to PATH; default run.DefaultPluginPath
	Nice          int          // added to the priority of commands; default 0
	Allow         []string     // the programs that may run, see run.ParseAllow; empty: all
	SecretsDir    string       // folder of secrets that checks name by file; default secrets.DefaultDir
	InventoryDir  string       // folder of scripts that print properties of the inventory; default inventory.DefaultDir
	NoRun         bool         // refuses all runs on request
	PolicyEnforce bool         // directives in enforce mode may change the machine
	AuditOnly     bool         // refuses requested commands, so that a server changes nothing on the machine
	Guard         *guard.Guard // ends commands if the agent is killed; the caller closes it; nil: they go on
}

// SpoolLimits has the limits of the spool (the log of unsent results), in bytes and in age.
type SpoolLimits struct {
	Bytes int64         // on disk; default 64 MiB
	Age   time.Duration // of a signal; default 24 h
}

// restrictions lists the server requests that the agent's settings forbid, such as ad-hoc commands. The message Hello
// carries the list.
func (c *Config) restrictions() (list []string) {
	if c.Commands.NoRun {
		list = append(list, wire.RestrictRuns)
	}
	if len(c.Commands.Allow) > 0 {
		list = append(list, wire.RestrictCommands)
	}
	if c.Commands.AuditOnly {
		list = append(list, wire.RestrictChanges)
	}
	return list
}

// Machine has the clocks, the host name and the facts of the agent's computer. Tests replace it.
type Machine struct {
	ID     string // of the installation; empty if unknown
	Boot   string // changes with every start of the machine
	Host   string // host name
	BootMs func() uint64
	Now    func() time.Time
	Facts  func() map[string]string // measures the present facts; the caller owns the map
	// Resolve asks the resolver for names that later Facts report, until ctx ends; may be nil.
	Resolve func(ctx context.Context)
}

// ThisMachine returns the clocks, host name and facts of the real computer as a Machine.
func ThisMachine() Machine {
	host, _ := os.Hostname()
	meter := facts.New(facts.LocalSystem())
	return Machine{
		ID: firstLineOfFile("/etc/machine-id", "/var/lib/dbus/machine-id"), Boot: bootID(), Host: host,
		BootMs: bootMs(), Now: time.Now, Facts: meter.Measure, Resolve: meter.Resolve,
	}
}

// firstLineOfFile returns the trimmed first line of the first readable file, or "" if no file is readable.
func firstLineOfFile(files ...string) string {
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil {
			line, _, _ := strings.Cut(string(data), "\n")
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// withDefaults fills in default settings, and returns an error about an invalid setting.
func (c Config) withDefaults() (Config, error) {
	if c.StateDir == "" {
		return c, model.Errorf(model.Invalid, "the agent needs a state folder: set --state-dir")
	}
	for _, server := range c.Servers {
		if err := model.CheckHostPort(server); err != nil {
			return c, err
		}
	}
	if c.Machine.BootMs == nil {
		c.Machine = ThisMachine()
	}
	if c.Machine.Now == nil {
		c.Machine.Now = time.Now
	}
	if c.Machine.Facts == nil {
		c.Machine.Facts = func() map[string]string { return nil }
	}
	if c.Dial == nil {
		c.Dial = link.NewDialer(nil)
	}
	c.Commands.InventoryDir = cmp.Or(c.Commands.InventoryDir, inventory.DefaultDir)
	c.AssetDir = cmp.Or(c.AssetDir, filepath.Join(c.StateDir, "assets"))
	c.FactsEvery = cmp.Or(c.FactsEvery, factsEvery)
	c.Name = cmp.Or(c.Name, c.Machine.Host)
	if c.State == nil {
		c.State = func(string) {}
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c, nil
}

// spoolClock reads the clocks of a Machine for the spool, as the interface spool.Clock requires.
type spoolClock struct{ m *Machine }

// BootMs returns the milliseconds since the boot of the machine.
func (c spoolClock) BootMs() uint64 { return c.m.BootMs() }

// BootID returns an id that changes with each boot of the machine.
func (c spoolClock) BootID() string { return c.m.Boot }

// WallMs returns the wall clock in milliseconds since 1970.
func (c spoolClock) WallMs() int64 { return c.m.Now().UnixMilli() }
