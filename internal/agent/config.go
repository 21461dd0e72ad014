package agent

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/agent/facts"
	"github.com/muster-fleet/muster/internal/guard"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Config has the settings of an agent. Only StateDir is required, and Token at the first start of a
// machine that has not joined.
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

	Machine Machine // default ThisMachine()
	Dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	State   func(string) // receives the agent's state in one line at each change; must not block; may be nil
	Log     *slog.Logger
}

// Commands bounds the commands that an agent runs.
type Commands struct {
	MaxConcurrent int          // checks at once; default CPUs, at least 2
	PluginPath    string       // appended to PATH; default run.DefaultPluginPath
	Nice          int          // added to the priority of commands; default 0
	Allow         []string     // the programs that may run, see run.ParseAllow; empty: all
	SecretsDir    string       // folder of secrets that checks name by file; default secrets.DefaultDir
	NoRun         bool         // refuses all runs on request
	AuditOnly     bool         // refuses commands on request: a server changes nothing on the machine
	Guard         *guard.Guard // ends commands if the agent is killed; the caller closes it; nil: they go on
}

// SpoolLimits bounds the spool.
type SpoolLimits struct {
	Bytes int64         // on disk; default 64 MiB
	Age   time.Duration // of a signal; default 24 h
}

// restrictions lists for Hello the requests that the settings refuse.
func (c *Config) restrictions() (list []string) {
	for _, r := range []struct {
		name string
		set  bool
	}{
		{wire.RestrictRuns, c.Commands.NoRun}, {wire.RestrictCommands, len(c.Commands.Allow) > 0}, {wire.RestrictChanges, c.Commands.AuditOnly},
	} {
		if r.set {
			list = append(list, r.name)
		}
	}
	return list
}

// Machine describes the machine that the agent runs on; tests replace it.
type Machine struct {
	ID     string // of the installation; empty if unknown
	Boot   string // changes with every start of the machine
	Host   string // host name
	BootMs func() uint64
	Now    func() time.Time
	Facts  func() map[string]string // measures; the caller owns the map
	// Resolve asks the resolver for names that later Facts report, until ctx ends; may be nil.
	Resolve func(ctx context.Context)
}

// ThisMachine returns the machine that the program runs on.
func ThisMachine() Machine {
	host, _ := os.Hostname()
	meter := facts.New(facts.LocalSystem())
	return Machine{
		ID: firstLine("/etc/machine-id", "/var/lib/dbus/machine-id"), Boot: bootID(), Host: host,
		BootMs: bootMs(), Now: time.Now, Facts: meter.Measure, Resolve: meter.Resolve,
	}
}

func firstLine(files ...string) string {
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil {
			line, _, _ := strings.Cut(string(data), "\n")
			return strings.TrimSpace(line)
		}
	}
	return ""
}

func (c Config) withDefaults() (Config, error) {
	if c.StateDir == "" {
		return c, model.Errorf(model.Invalid, "the agent needs a state folder")
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
	if c.AssetDir == "" {
		c.AssetDir = filepath.Join(c.StateDir, "assets")
	}
	if c.FactsEvery <= 0 {
		c.FactsEvery = factsEvery
	}
	if c.Name == "" {
		c.Name = c.Machine.Host
	}
	if c.State == nil {
		c.State = func(string) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// spoolClock adapts a Machine to spool.Clock.
type spoolClock struct{ m *Machine }

func (c spoolClock) BootMs() uint64 { return c.m.BootMs() }
func (c spoolClock) BootID() string { return c.m.Boot }
func (c spoolClock) WallMs() int64  { return c.m.Now().UnixMilli() }
