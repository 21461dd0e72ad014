package load

import (
	"context"
	"crypto/tls"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/outputs"
	"github.com/muster-fleet/muster/internal/load/people"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Config is one run. Zero fields get the default named beside them.
type Config struct {
	Server string // host:port of the agents' listener
	// TLS makes the configuration of one agent's connection; nil: plain, on loopback.
	TLS func(uid uuid.UUID) (*tls.Config, error)

	Agents    int                             // default 100
	First     int                             // number of the first one: several runs share a fleet
	Fleet     int                             // nodes that hold results when the measurement begins, in multiples of Agents; default Agents. See rounds.go.
	Checks    int                             // per agent; default 40
	Interval  time.Duration                   // of every check; default 5 s. Rate replaces it.
	Rate      float64                         // results per second of all agents; 0: from Interval
	PerFrame  int                             // results that fill a frame; 0: only the linger does
	Linger    time.Duration                   // default 500 ms, as agents do
	Output    int                             // bytes of each result's output; default 100
	Changes   float64                         // share of results that change the status; 0.02 unless negative
	Duration  time.Duration                   // measured; default 60 s
	Warmup    time.Duration                   // before it, sent but not measured; default 5 s
	Drain     time.Duration                   // after it, to wait for the last acknowledgements; default 30 s
	MaxLag    time.Duration                   // of the generator, p99; beyond it the run is invalid; default 50 ms
	Storm     bool                            // in the middle all agents reconnect at once
	Halfway   func(ctx context.Context) error // done in the middle, such as ending the server; nil: nothing
	Spool     int                             // bytes that an agent keeps unacknowledged; default a GiB shared by all, at most a MiB each
	Parallel  int                             // connections being opened at once; default 512
	Senders   int                             // goroutines; default one per 25,000 results/s, at most one per core
	Sources   int                             // loopback addresses to connect from; default one per 20,000 agents
	Seed      uint64                          // same seed, same nodes and plan
	ServerPID func() int                      // to report its CPU, memory and disk, asked anew each time; nil: not
	AdminURL  string                          // the server's admin listener, for /metrics and /readyz; empty: not asked

	// Of a scenario, which replaces the fields above.
	Scenario  *scenario.Scenario
	ServerTLS string                                          // the listener of classes with TLS, host:port; Server is that of the others
	Members   []simulated.Member                              // its machines; nil: Members(Scenario)
	Bare      int64                                           // Resident before anything was made for agents; zero: as Run finds it
	Control   Control                                         // the server's process, for faults; nil: it is not the run's own
	Fell      func() string                                   // how the server's process ended by itself, empty: it did not; nil: nobody knows
	Data      string                                          // the server's data folder, where it is on this machine: is there room? Empty: not looked at
	Driven    Driven                                          // another system that is loaded; nil: Muster, or what RunTarget asks
	API       *client.Client                                  // for operators and changes of intent; nil: there is no login
	Second    func(from time.Time, h *hdrhistogram.Histogram) // every second: latencies of what was acknowledged in it, in µs, with the tag warmup where it is not measured

	Pages     *people.Pages                   // asked for while results flow; nil: none
	Goals     []report.Goal                   // what the run should reach
	Before    View                            // what the view holds, asked before and after; nil: not compared
	Facts     func(i int) map[string]string   // of agent i's machine now, asked every few seconds; nil: none
	Generate  outputs.Generator               // what results say; default: distinct outputs, Changes
	Nodes     func(i int) (uuid.UUID, string) // identity of agent i; default NodeUID, NodeName
	Log       *slog.Logger
	CheckName func(i int) string  // what the short form's check i is called; default as Prepare does
	Begun     func()              // called when the timetable begins; may be nil
	Stop      <-chan string       // ends the present phase, and the run with it: what was played is compared and reported. What it yields is who asked; empty: who began the run. Nobody reads it before Begun; may be nil
	Played    func()              // called when the timetable is over, from where on Stop ends nothing; may be nil
	Progress  func(report.Sample) // every second; may be nil

	Part   Part   // of the agents that this process plays; zero: all
	Others Others // the loaders that play the other parts; nil: nobody else does, or another one leads

	version string   // of Driven
	follows bool     // another loader leads
	labels  []string // of what is not judged
	isShort bool     // Scenario stands for the flat fields
}

// usualLag is how late a generator may be (p99) whose run says something of the server. Who allows more
// is told so wherever the figures are shown.
const usualLag = 50 * time.Millisecond

func (c Config) withDefaults() (Config, error) {
	set := func(d *time.Duration, preset time.Duration) {
		if *d == 0 {
			*d = preset
		}
	}
	setInt := func(n *int, preset int) {
		if *n == 0 {
			*n = preset
		}
	}
	if c.Scenario != nil {
		if err := c.long(); err != nil {
			return c, err
		}
		if c.Driven != nil {
			c.labels = c.leaveOut(measuredOfDriven, c.Driven.Name())
		}
	}
	setInt(&c.Agents, 100)
	setInt(&c.Checks, 40)
	setInt(&c.Output, 100)
	setInt(&c.Parallel, 512)
	setInt(&c.Fleet, c.Agents)
	own := c.Part.share(c.Agents)
	setInt(&c.Spool, min(1<<20, 1<<30/max(1, own)))
	setInt(&c.Sources, (own+19_999)/20_000)
	set(&c.Interval, 5*time.Second)
	set(&c.Linger, defaultLinger)
	set(&c.Duration, time.Minute)
	set(&c.Warmup, 5*time.Second)
	set(&c.Drain, 30*time.Second)
	set(&c.MaxLag, usualLag)
	if c.Changes == 0 {
		c.Changes = 0.02
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Scenario == nil {
		if c.Rate > 0 {
			c.Interval = time.Duration(float64(c.Agents*c.Checks) / c.Rate * float64(time.Second))
		} else {
			c.Rate = float64(c.Agents*c.Checks) / c.Interval.Seconds()
		}
		if c.Generate == nil {
			c.Generate = &outputs.Digits{Size: c.Output, Changes: c.Changes, Seed: c.Seed, Rare: c.rare()}
		}
		if c.Nodes == nil {
			c.Nodes = func(i int) (uuid.UUID, string) { return simulated.NodeUID(c.Seed, i), simulated.NodeName(i) }
		}
		if c.CheckName == nil {
			c.CheckName = simulated.CheckName
		}
	}
	if err := c.check(); err != nil {
		return c, err
	}
	if c.Scenario == nil {
		c.Scenario, c.Members = c.short()
		c.isShort = true
	}
	setInt(&c.Senders, min(1+int(c.Rate*busiest(c.Scenario)/25_000/float64(max(1, c.Part.Of))), runtime.GOMAXPROCS(0)))
	c.Senders = min(c.Senders, own)
	return c, nil
}

// check says what of a configuration cannot be played.
func (c *Config) check() error {
	switch {
	case c.Server == "" && c.ServerTLS == "" && c.Driven == nil:
		return model.Errorf(model.Invalid, "no server given").WithHint("--server 127.0.0.1:8443")
	case c.Agents < 1 || c.Checks < 1 || c.Checks > model.DefaultStatesPerNode:
		return model.Errorf(model.Invalid, "%d agents with %d checks: want at least one agent and 1 to %d checks", c.Agents, c.Checks, model.DefaultStatesPerNode)
	case c.PerFrame < 0 || c.PerFrame > wire.MaxSignals:
		return model.Errorf(model.Invalid, "%d results per frame: the protocol allows %d", c.PerFrame, wire.MaxSignals)
	case c.Output < outputs.MinLength:
		return model.Errorf(model.Invalid, "outputs of %d bytes: at least %d are needed to tell them apart", c.Output, outputs.MinLength)
	case c.Output > scenario.MaxOutput:
		return model.Errorf(model.Invalid, "outputs of %d bytes: a frame has room for at most %s", c.Output, model.Size(scenario.MaxOutput))
	case c.Fleet%c.Agents != 0:
		return model.Errorf(model.Invalid, "a fleet of %d comes by in rounds of %d agents: the one must be a multiple of the other", c.Fleet, c.Agents)
	case c.Sources*max(1, c.Part.Of) > 250:
		return model.Errorf(model.Invalid, "%d source addresses: at most 250, of all loaders", c.Sources*max(1, c.Part.Of))
	case c.Part.Of > c.Agents:
		return model.Errorf(model.Invalid, "%d loaders for %d agents: each plays at least one", c.Part.Of, c.Agents)
	case c.Interval <= 0:
		return model.Errorf(model.Invalid, "rate %g/s of %d agents leaves no interval", c.Rate, c.Agents)
	}
	if c.Scenario == nil {
		return nil
	}
	if c.Part.Of > 1 {
		if err := c.Joinable(); err != nil {
			return err
		}
	}
	for i := range c.Scenario.Agents {
		if x := &c.Scenario.Agents[i]; x.Churn.Renames.PerSecond(x.Count) > 0 && c.API == nil && !c.follows {
			return model.Errorf(model.Invalid, "class %s renames nodes, and there is no login", x.Name).WithHint("muster login, or leave --server out")
		} else if x.TLS && c.TLS == nil && c.Driven == nil {
			return model.Errorf(model.Invalid, "class %s wants TLS, and there are no certificates", x.Name).WithHint("--data DIR, the server's data folder")
		} else if x.Share > 1 {
			return model.Errorf(model.Invalid, "class %s: %d agents on one connection: the protocol has one session on each", x.Name, x.Share).WithHint("leave share out")
		}
	}
	if n := c.Scenario.Server.Cores; n > 0 && c.Control == nil && !c.follows && c.Driven == nil {
		return model.Errorf(model.Invalid, "server.cores: the server is not the run's own").WithHint("leave --server out; or start that server with GOMAXPROCS=%d and take server.cores out of the file", n)
	}
	for i := range c.Scenario.Faults {
		if f := &c.Scenario.Faults[i]; f.Server != "" && c.Control == nil && !c.follows {
			return model.Errorf(model.Invalid, "fault %s: the server is not the run's own", what(f)).WithHint("leave --server out")
		}
	}
	return nil
}

// rare is the one state in the fleet that is UNKNOWN, where pages are asked for.
func (c Config) rare() *outputs.Rare {
	if c.Pages == nil {
		return nil
	}
	return &outputs.Rare{Agent: c.First + simulated.RareNode(c.Fleet), Check: c.Checks / 2}
}

// anyTLS says whether agents of some class speak TLS.
func (c Config) anyTLS() bool {
	if c.Scenario == nil {
		return c.TLS != nil
	}
	return slices.ContainsFunc(c.Scenario.Agents, func(c scenario.Class) bool { return c.TLS })
}
