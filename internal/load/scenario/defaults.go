package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Defaults fills in absent fields. A field that stays empty means none.
func (s *Scenario) Defaults() {
	s.Scenario, s.Target, s.Title = Version, cmp.Or(s.Target, muster), cmp.Or(s.Title, s.Name)
	for i := range s.Agents {
		s.Agents[i].defaults()
	}
	for i := range s.Checks {
		s.Checks[i].defaults()
	}
	if first := &s.Phases[0]; first.Ramp == 0 {
		s.Phases = slices.Insert(s.Phases, 0, Phase{Ramp: s.ramp()})
	}
	if last := &s.Phases[len(s.Phases)-1]; last.Drain == 0 {
		s.Phases = append(s.Phases, Phase{Drain: model.Duration(30 * time.Second)})
	}
	delete(s.Objectives, "loss") // it always holds
	s.moveFaults()
	seen := map[string]int{}
	for i := range s.Phases {
		p := &s.Phases[i]
		delete(p.Objectives, "loss")
		if p.Measured() {
			p.Rate = cmp.Or(p.Rate, p.Faster[Results], 1)
			if delete(p.Faster, Results); len(p.Faster) == 0 {
				p.Faster = nil
			}
		}
		if p.Step > 0 {
			p.Rate, p.By, p.To = p.steps()
		}
		p.Name = cmp.Or(p.Name, p.Kind())
		if seen[p.Name]++; seen[p.Name] > 1 {
			p.Name = fmt.Sprintf("%s %d", p.Name, seen[p.Name])
		}
	}
	for i := range s.Faults {
		if f := s.Faults[i].Fail; f != nil {
			status, _ := model.ParseStatus(cmp.Or(f.Status, "critical"))
			f.Status = status.String()
		}
	}
	if s.Operators.Lists > 0 {
		s.Operators.Pause = cmp.Or(s.Operators.Pause, "30/min")
	}
}

// ramp returns the length of a ramp: 500 agents connect in a second, and it takes at least two seconds.
func (s *Scenario) ramp() model.Duration {
	return model.Duration(max(2, (s.Nodes("")+499)/500)) * model.Duration(time.Second)
}

// defaults fills in absent fields of a class.
func (c *Class) defaults() {
	c.Linger = cmp.Or(c.Linger, model.Duration(500*time.Millisecond))
	if c.Keepalive != nil {
		c.Keepalive.Interval, c.Keepalive.Timeout = c.Keepalive.EffectiveTimes()
	}
	for j := range c.Checks {
		c.Checks[j].defaults()
	}
	for j := range c.Values {
		c.Values[j].Count, c.Values[j].Type = cmp.Or(c.Values[j].Count, 1), cmp.Or(c.Values[j].Type, "float")
	}
}

// defaults fills in absent fields of a check.
func (k *Check) defaults() {
	k.Count = cmp.Or(k.Count, 1)
	if k.Output.Like = cmp.Or(k.Output.Like, Digits); k.Output.Like == Digits {
		k.Output.Bytes = model.Size(k.Output.Length())
	}
	status := make(map[string]float64, len(k.Status))
	for name, share := range k.Status {
		known, _ := model.ParseStatus(name)
		status[known.String()] = share
	}
	if k.Status != nil {
		k.Status = status
	}
}
