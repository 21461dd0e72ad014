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
)

// Config of an agent. Only StateDir is required, and at the first start Token, unless
// the machine has joined before.
type Config struct {
	StateDir      string            // identity, assignment and spool; 0700
	AssetDir      string            // what archives of Assets hold; default the folder assets in StateDir
	AssetBytes    int64             // what is kept of it; default 2 GiB
	Token         string            // join token; used while there is no identity
	CA            [32]byte          // SHA-256 of the CA to trust when joining without a token; zero: see Join
	Servers       []string          // host:port in order of preference; default: those of the identity
	Name          string            // wanted at enrolment; default the host name
	Labels        map[string]string // shown as the agent's labels
	Groups        []string          // self-declared, where token or group allows it
	MaxConcurrent int               // commands at once; default CPUs, at least 2
	PluginPath    string            // appended to PATH; default run.DefaultPluginPath
	Nice          int               // added to the priority of commands; default 0
	AllowCommands []string          // what may run, see run.ParseAllow; empty: everything
	SecretsDir    string            // where secrets are read from that checks name by file; default secrets.DefaultDir
	NoRun         bool              // nothing runs out of its time
	AuditOnly     bool              // nothing changes the machine on a server's word: no commands of people
	SpoolBytes    int64             // default 64 MiB
	SpoolAge      time.Duration     // default 24 h
	Linger        time.Duration     // results wait this long to share a frame; default 500 ms
	FirstWithin   time.Duration     // a new check runs once within this; default 10 s
	FactsEvery    time.Duration     // the machine is measured anew; default 1 min
	StopGrace     time.Duration     // running commands may take this long at a stop; default 5 s
	Version       string            // of the program, for Hello
	Guard         *guard.Guard      // ends commands if we are killed; the caller closes it; nil: they go on

	Machine Machine // default ThisMachine()
	Dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	State   func(string) // hears in a line how the agent is whenever that changes; must not block; may be nil
	Log     *slog.Logger
}

// Machine is what the agent believes about where it runs; tests make their own.
type Machine struct {
	ID     string // of the installation; empty if unknown
	Boot   string // changes with every start of the machine
	Host   string // host name
	BootMs func() uint64
	Now    func() time.Time
	Facts  func() map[string]string // measured now; the caller's
	// Resolve asks the network for what Facts may say then, until ctx ends; nil: nothing.
	Resolve func(ctx context.Context)
}

// ThisMachine reads the machine it is called on.
func ThisMachine() Machine {
	host, _ := os.Hostname()
	meter := facts.New(facts.This())
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

// clock is the machine as the spool wants to see it.
type clock struct{ m *Machine }

func (c clock) BootMs() uint64 { return c.m.BootMs() }
func (c clock) BootID() string { return c.m.Boot }
func (c clock) WallMs() int64  { return c.m.Now().UnixMilli() }
