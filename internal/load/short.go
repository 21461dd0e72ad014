package load

import (
	"maps"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
)

// shortClass is the one class of the short form.
const shortClass = "load"

// short is the scenario that the flat fields stand for, in which they have their defaults.
// Its nodes and checks are Prepare's.
func (c Config) short() (*scenario.Scenario, []simulated.Member) {
	class := scenario.Class{Name: shortClass, Count: c.Agents, TLS: c.TLS != nil, Linger: model.Duration(c.Linger), PerFrame: c.PerFrame,
		Checks: []scenario.Check{{Name: shortClass, Count: c.Checks, Interval: model.Duration(c.Interval), Changes: max(0, c.Changes), Output: scenario.Output{Bytes: model.Size(c.Output)}}}}
	sc := &scenario.Scenario{Seed: c.Seed, Agents: []scenario.Class{class}, Phases: []scenario.Phase{
		{Steady: model.Duration(c.Warmup + c.Duration), Warmup: model.Duration(c.Warmup)}, {Drain: model.Duration(c.Drain)}}}
	if c.Storm {
		sc.Faults = append(sc.Faults, scenario.Fault{At: model.Duration(c.Duration / 2), Cut: &scenario.Pick{}})
	}
	members := make([]simulated.Member, c.Fleet)
	for i := range members {
		members[i].Number = c.First + i
		members[i].UID, members[i].Name = c.Nodes(c.First + i)
	}
	return sc, members
}

// long fills the flat fields, which the report shows, from a scenario, and takes its
// objectives for goals.
func (c *Config) long() error {
	if c.Members == nil {
		c.Members = simulated.Members(c.Scenario)
	}
	c.Agents, c.Seed, c.Rate = len(c.Members), c.Scenario.Seed, c.Scenario.Rate()
	for i := range c.Scenario.Agents {
		x := &c.Scenario.Agents[i]
		for _, k := range c.Scenario.Held(x) {
			c.Output = max(c.Output, k.Output.Length())
		}
		c.PerFrame, c.Linger = max(c.PerFrame, x.PerFrame), max(c.Linger, time.Duration(x.Linger))
	}
	states := c.Scenario.States()
	c.Checks = max(min(states, 1), (states+c.Agents/2)/max(1, c.Agents))
	if c.Rate > 0 {
		c.Interval = time.Duration(float64(states) / c.Rate * float64(time.Second))
	}
	for _, p := range newScore(c.Scenario.Phases, 0) {
		if p.measured {
			c.Duration += time.Duration(p.to - p.from)
		}
	}
	for _, p := range c.Scenario.Phases {
		c.Drain = max(c.Drain, time.Duration(p.Drain))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Scenario.Objectives)) {
		f, known := scenario.FigureOf(name)
		want, err := c.Scenario.Objectives[name].In(f.Unit)
		if !known || err != nil {
			return model.Errorf(model.Invalid, "objective %s: %v", name, err).WithHint("muster load lint")
		}
		c.Goals = append(c.Goals, report.Goal{Name: name, Want: want})
	}
	return nil
}

// busiest is the highest rate that a scenario asks for, as a multiple of its own.
func busiest(sc *scenario.Scenario) float64 {
	most := 1.0
	for _, p := range newScore(sc.Phases, 0) {
		most = max(most, p.rate)
	}
	return most
}
