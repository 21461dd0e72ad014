package scenario

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Nodes is how many agents there are, in a class or, for the empty name, in all.
func (s *Scenario) Nodes(class string) (n int) {
	for _, c := range s.Agents {
		if class == "" || c.Name == class {
			n += max(0, c.Count)
		}
	}
	return n
}

// Sessions is how many connections they hold.
func (s *Scenario) Sessions() (n int) {
	for _, c := range s.Agents {
		n += (c.Count + max(1, c.Share) - 1) / max(1, c.Share)
	}
	return n
}

// Rate is how many results they send per second, at the scenario's own rate.
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

// ValueRate is how many values they send per second, and ComponentRate how many components
// of policies they report on.
func (s *Scenario) ValueRate() (perSecond float64) {
	for _, c := range s.Agents {
		for _, k := range c.Values {
			perSecond += float64(c.Count*k.Items()) / time.Duration(max(1, k.Interval)).Seconds()
		}
	}
	return perSecond
}

// Items returns how many items of an agent it stands for.
func (v *Values) Items() int { return max(1, v.Count) * (1 + v.Dependents) }

// ComponentRate is how many components of policies they report on per second.
func (s *Scenario) ComponentRate() (perSecond float64) {
	for _, c := range s.Agents {
		for _, p := range c.Policies {
			perSecond += float64(c.Count*p.Components) / time.Duration(max(1, p.Interval)).Seconds()
		}
	}
	return perSecond
}

// KeepaliveRate is how many agents say per second that they live, where they have nothing
// else to say.
func (s *Scenario) KeepaliveRate() (perSecond float64) {
	for i := range s.Agents {
		interval, _ := s.Agents[i].keepalive()
		perSecond += float64(s.Agents[i].Count) / time.Duration(interval).Seconds()
	}
	return perSecond
}

// States is how many event states they make, keepalives aside.
func (s *Scenario) States() (n int) {
	for i := range s.Agents {
		c := &s.Agents[i]
		if c.Recorded != nil {
			n += c.Recorded.states(c.Count)
			continue
		}
		for _, k := range s.Held(c) {
			n += s.statesOf(c, k.Check)
		}
	}
	return n
}

// Duration is how long it takes at most, and Measured how much of that is measured.
func (s *Scenario) Duration() (d time.Duration) {
	for i := range s.Phases {
		d += time.Duration(s.Phases[i].Whole())
	}
	return d
}

// Measured is how long the phases are that are measured, with warm-up and all steps.
func (s *Scenario) Measured() time.Duration { return time.Duration(s.played()) }

// keepalive is how often its nodes are to be heard of, and after how long they are missed.
func (c *Class) keepalive() (interval, timeout model.Duration) {
	interval, timeout = model.Duration(model.DefaultKeepalive), model.Duration(model.DefaultKeepaliveTimeout)
	if k := c.Keepalive; k != nil {
		if k.Interval != 0 {
			interval = k.Interval
		}
		if k.Timeout != 0 {
			timeout = k.Timeout
		}
	}
	return interval, timeout
}
