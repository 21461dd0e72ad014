package load

import (
	"cmp"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/preflight"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
)

// Config configures one run. Zero fields get the default named beside them; those of Options are: Members(Scenario), all
// members, a GiB of spools shared by all agents (four of values and directives), at most a MiB each, 512 connections at once, one
// sender per 25,000 results/s and at most one per core, one source address per 20,000 agents.
type Config struct {
	play.Options
	Subject
	Events

	MaxLag   time.Duration // of the generator, p99; beyond it the run is invalid; default 50 ms
	Goals    []report.Goal // what the run should reach
	Observed string        // file of the observation log; empty: there is none
	Bare     int64         // Resident before anything was made for agents; zero: as Run finds it
	Joint    Joint         // the loaders that play the other parts; nil: Alone

	labels []string // of what is not judged
}

// Subject describes the server under test beside its listeners.
type Subject struct {
	ServerPID func() int     // to report its CPU, memory and disk, asked anew each time; nil: not
	AdminURL  string         // the server's admin listener, for /metrics and /readyz; empty: not asked
	Fell      func() string  // how the server's process ended by itself, empty: it did not; nil: nobody knows
	Startup   report.Startup // of the server's process; zero: the run has not started it
	Data      string         // the server's data folder, where it is on this machine: is there room? Empty: not looked at
	Before    play.View      // what the view holds, asked before and after; nil: not compared
}

// Events has the functions that a run calls, and the channel by which a person ends the run; each may be nil.
type Events struct {
	Begun    func()              // called when the timetable begins
	Played   func()              // called when the timetable is over, from where on Stop ends nothing
	Progress func(report.Sample) // every second
	Stop     <-chan string       // ends the present phase, and the run with it: what was played is compared and reported. What it yields is who asked; empty: who began the run. Nobody reads it before Begun
}

// withDefaults returns the configuration with defaults in place of absent fields, or an error if the run is impossible.
func (c Config) withDefaults() (Config, error) {
	if c.Server == "" && c.ServerTLS == "" {
		return c, model.Errorf(model.Invalid, "no server given").WithHint("--server 127.0.0.1:8443")
	}
	if c.Joint == nil {
		c.Joint = Alone{}
	}
	if c.Members == nil {
		c.Members = simulated.Members(c.Scenario)
	}
	if err := c.takeObjectives(nil); err != nil {
		return c, err
	}
	own := c.Part.Share(len(c.Members))
	c.Parallel = cmp.Or(c.Parallel, 512)
	c.Spool = cmp.Or(c.Spool, min(1<<20, spools(c.Scenario)/max(1, own)))
	c.Sources = cmp.Or(c.Sources, (own+19_999)/20_000)
	c.MaxLag = cmp.Or(c.MaxLag, usualLag(c.Scenario))
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if err := c.check(); err != nil {
		return c, err
	}
	items := c.Scenario.ValueRate()/500_000 + c.Scenario.ComponentRate()/50_000
	senders := min(1+int((c.Scenario.Rate()/25_000+items)*busiest(c.Scenario)/float64(max(1, c.Part.Of))), runtime.GOMAXPROCS(0))
	c.Senders = min(cmp.Or(c.Senders, senders), own)
	return c, nil
}

// spools returns the bytes that all agents together may keep unacknowledged, because many values wait during a restart
// of the server.
func spools(sc *scenario.Scenario) int {
	if sc.ValueRate()+sc.ComponentRate() > 0 {
		return 4 << 30
	}
	return 1 << 30
}

// usualLag returns the usual limit of the generator's lag: seconds for values and directives, milliseconds for results.
func usualLag(sc *scenario.Scenario) time.Duration {
	if report.SoleUnit(sc) != "" {
		return report.UsualSignalLag
	}
	return report.UsualLag
}

// takeObjectives makes goals of the scenario's objectives, without those that omit names.
func (c *Config) takeObjectives(omit []string) error {
	for _, name := range slices.Sorted(maps.Keys(c.Scenario.Objectives)) {
		if slices.Contains(omit, name) {
			continue
		}
		f, known := scenario.FigureOf(name)
		want, err := c.Scenario.Objectives[name].In(f.Unit)
		if !known || err != nil {
			return model.Errorf(model.Invalid, "objective %s: %v", name, err).WithHint("muster load lint")
		}
		c.Goals = append(c.Goals, report.Goal{Name: name, Want: want})
	}
	return nil
}

// busiest returns the highest rate of a scenario, relative to its own rate.
func busiest(sc *scenario.Scenario) float64 {
	most := 1.0
	for _, p := range plan.NewTimetable(sc.Phases, 0) {
		most = max(most, p.Rate)
	}
	return most
}

// drain returns how long the scenario waits for the last acknowledgements.
func (c *Config) drain() time.Duration {
	most := model.Duration(0)
	for _, p := range c.Scenario.Phases {
		most = max(most, p.Drain)
	}
	return cmp.Or(time.Duration(most), 30*time.Second)
}

// plan summarizes the scenario for the report.
func (c *Config) plan() report.Plan {
	p := report.Plan{Agents: len(c.Members), Offered: c.Scenario.Rate(), Seed: c.Scenario.Seed}
	states := c.Scenario.States()
	switch of := judge.SignalsOf(c.Scenario); report.SoleUnit(c.Scenario) {
	case report.Value:
		states, p.Offered = of.Values.Items(), c.Scenario.ValueRate()
	case report.Component:
		states, p.Offered = of.Directives.Runs(), of.Directives.Rate()
	}
	for _, x := range plan.NewTimetable(c.Scenario.Phases, 0) {
		if x.Measured {
			p.Duration += time.Duration(x.To - x.From).Seconds()
		}
	}
	linger := model.Duration(0)
	for i := range c.Scenario.Agents {
		x := &c.Scenario.Agents[i]
		for _, k := range c.Scenario.Held(x) {
			p.Output = max(p.Output, k.Output.Length())
		}
		p.PerFrame, linger, p.TLS = max(p.PerFrame, x.PerFrame), max(linger, x.Linger), p.TLS || x.TLS
	}
	p.Linger = ms(cmp.Or(time.Duration(linger), play.DefaultLinger))
	p.Checks = max(min(states, 1), (states+p.Agents/2)/max(1, p.Agents))
	if p.Offered > 0 {
		p.Interval = float64(states) / p.Offered
	}
	return p
}

// check returns an error if the run cannot be played.
func (c *Config) check() error {
	switch {
	case len(c.Members) == 0:
		return model.Errorf(model.Invalid, "%s has no agents", c.Scenario.Name)
	case c.Sources*max(1, c.Part.Of) > 250:
		return model.Errorf(model.Invalid, "%d source addresses: at most 250, of all loaders", c.Sources*max(1, c.Part.Of))
	case c.Part.Of > len(c.Members):
		return model.Errorf(model.Invalid, "%d loaders for %d agents: each plays at least one", c.Part.Of, len(c.Members))
	}
	if c.Part.Of > 1 {
		if err := play.Joinable(c.Scenario); err != nil {
			return err
		}
	}
	for i := range c.Scenario.Agents {
		if x := &c.Scenario.Agents[i]; x.Churn.Renames.PerSecond(x.Count) > 0 && c.API == nil && !c.Follows() {
			return model.Errorf(model.Invalid, "class %s renames nodes, and there is no login", x.Name).WithHint("muster login, or leave --server out")
		} else if len(x.Values)+len(x.Policies) > 0 && c.API == nil && !c.Follows() {
			return model.Errorf(model.Invalid, "class %s sends values or runs of directives, which the API compares, and there is no login", x.Name).WithHint("muster login, or leave --server out")
		} else if (x.TLS || len(x.Policies) > 0) && c.TLS == nil {
			return model.Errorf(model.Invalid, "class %s wants TLS or signs runs, and there are no certificates", x.Name).WithHint("--data DIR, the server's data folder")
		}
	}
	if n := c.Scenario.Server.Cores; n > 0 && c.Control == nil && !c.Follows() {
		return model.Errorf(model.Invalid, "server.cores: the server is not the run's own").WithHint("leave --server out; or start that server with GOMAXPROCS=%d and take server.cores out of the file", n)
	}
	for i := range c.Scenario.Faults {
		if f := &c.Scenario.Faults[i]; f.Server != "" && c.Control == nil && !c.Follows() {
			return model.Errorf(model.Invalid, "fault %s: the server is not the run's own", play.What(f)).WithHint("leave --server out")
		}
	}
	return nil
}

// Preflight checks whether this machine can hold a run: it returns all missing resources as an error, and conditions
// that would distort figures as warnings. It opens and starts nothing, and measures the machine for a second and a
// half.
func Preflight(c Config) (warnings []string, err error) {
	if c, err = c.withDefaults(); err != nil {
		return nil, err
	}
	if err := preflight.Check(c.before()); err != nil {
		return nil, err
	}
	if w := preflight.Busy(c.ServerPID); w != "" {
		warnings = append(warnings, w)
	}
	return warnings, nil
}

// before returns the resources that the run needs, for preflight.
func (c Config) before() preflight.Run {
	return preflight.Run{Scenario: c.Scenario, Servers: cmp.Or(c.Server, c.ServerTLS), Sources: c.Sources, Loaders: c.Part.Of, Here: c.Part.Here,
		OwnServer: c.Control != nil, Data: c.Data}
}
