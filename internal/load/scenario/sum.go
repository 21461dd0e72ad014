package scenario

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Nodes returns the number of agents, of a class or, for the empty name, of all.
func (s *Scenario) Nodes(class string) (n int) {
	for _, c := range s.Agents {
		if class == "" || c.Name == class {
			n += max(0, c.Count)
		}
	}
	return n
}

// ClassOf returns the class of a machine by its number in the fleet, or nil.
func (s *Scenario) ClassOf(member int) *Class {
	for i := range s.Agents {
		if member < s.Agents[i].Count {
			return &s.Agents[i]
		}
		member -= s.Agents[i].Count
	}
	return nil
}

// SignalInterval returns the interval of the values or directives of a class; zero: it has none.
func (c *Class) SignalInterval() model.Duration {
	switch {
	case len(c.Values) > 0:
		return c.Values[0].Interval
	case len(c.Policies) > 0:
		return c.Policies[0].Interval
	}
	return 0
}

// Rate returns their results per second, at the scenario's own rate.
func (s *Scenario) Rate() (perSecond float64) {
	for i := range s.Agents {
		c := &s.Agents[i]
		if c.Recorded != nil {
			perSecond += c.Recorded.rate(c.Count)
			continue
		}
		for _, k := range s.Held(c) {
			perSecond += float64(s.PerInterval(c, k.Check)) / time.Duration(max(1, k.Interval)).Seconds()
		}
	}
	return perSecond
}

// ValueRate returns their values per second.
func (s *Scenario) ValueRate() (perSecond float64) {
	for _, c := range s.Agents {
		for _, k := range c.Values {
			perSecond += float64(c.Count*k.Items()) / time.Duration(max(1, k.Interval)).Seconds()
		}
	}
	return perSecond
}

// Items returns the number of items of an agent.
func (v *Values) Items() int { return max(1, v.Count) * (1 + v.Dependents) }

// ComponentRate returns the components of policies that they report per second.
func (s *Scenario) ComponentRate() (perSecond float64) {
	for _, c := range s.Agents {
		for _, p := range c.Policies {
			perSecond += float64(c.Count*p.Components) / time.Duration(max(1, p.Interval)).Seconds()
		}
	}
	return perSecond
}

// KeepaliveRate returns their keepalives per second, where they send nothing else.
func (s *Scenario) KeepaliveRate() (perSecond float64) {
	for i := range s.Agents {
		interval, _ := s.Agents[i].Keepalive.EffectiveTimes()
		perSecond += float64(s.Agents[i].Count) / time.Duration(interval).Seconds()
	}
	return perSecond
}

// States returns the number of their event states, without keepalives.
func (s *Scenario) States() (n int) {
	for i := range s.Agents {
		c := &s.Agents[i]
		if c.Recorded != nil {
			n += c.Recorded.states(c.Count)
			continue
		}
		for _, k := range s.Held(c) {
			if k.Proxy != nil {
				n += s.Things(k.Check) * max(1, k.Count)
			} else {
				n += c.Count * max(1, k.Count)
			}
		}
	}
	return n
}

// Duration returns the longest time of the run.
func (s *Scenario) Duration() (d time.Duration) {
	for i := range s.Phases {
		d += time.Duration(s.Phases[i].Whole())
	}
	return d
}

// Measured returns the length of the measured phases, with warm-up and all steps.
func (s *Scenario) Measured() time.Duration { return time.Duration(s.played()) }
