package scenario

import "slices"

// Proxies are proxy nodes of one kind, which have no agent: the nodes NAME-00000 and up, with the label class=NAME, in
// the group NAME.
type Proxies struct {
	Name   string            `json:"name" check:"name|required"`
	Count  int               `json:"count" check:"1..proxies|write how many|required"`
	Labels map[string]string `json:"labels,omitempty"`
}

// About names the proxy nodes of a check by their groups.
type About struct {
	Groups []string `json:"groups"`
}

// Things returns the number of proxy nodes of a check, or 0 if its results are about the agents that run it.
func (s *Scenario) Things(k *Check) (n int) {
	if k.Proxy == nil {
		return 0
	}
	for i := range s.Proxies {
		if slices.Contains(k.Proxy.Groups, s.Proxies[i].Name) {
			n += max(0, s.Proxies[i].Count)
		}
	}
	return n
}

// hasCheck reports whether any check is one.
func (s *Scenario) hasCheck(is func(k *Check) bool) bool {
	return slices.ContainsFunc(s.Placed(), func(p Placed) bool { return is(p.Check) })
}

// Turns reports whether the server requests runs of any check from one agent in turn.
func (s *Scenario) Turns() bool { return s.hasCheck(func(k *Check) bool { return k.RoundRobin }) }

// HasProxies reports whether any check is about proxy nodes.
func (s *Scenario) HasProxies() bool {
	return s.hasCheck(func(k *Check) bool { return k.Proxy != nil })
}

// PerInterval returns the number of runs of a check of a class in each interval, on all agents together.
func (s *Scenario) PerInterval(c *Class, k *Check) int {
	n := max(0, c.Count)
	if k.RoundRobin {
		n = 1
	}
	if k.Proxy != nil {
		n *= s.Things(k)
	}
	return n * max(1, k.Count)
}

// scaleProxies scales the proxy nodes of round-robin checks. Where each agent runs a check for each of them, they stay:
// fewer agents run it less often already.
func (s *Scenario) scaleProxies(count func(int) int) {
	for i := range s.Proxies {
		p := &s.Proxies[i]
		if !s.hasCheck(func(k *Check) bool { return k.Proxy != nil && !k.RoundRobin && slices.Contains(k.Proxy.Groups, p.Name) }) {
			p.Count = count(p.Count)
		}
	}
}

// failed finds the check of a fault, in the first class that has it.
func (s *Scenario) failed(f *FailCheck) *Check {
	for i := range s.Agents {
		c := &s.Agents[i]
		if !f.Of(c) {
			continue
		}
		for j := range c.Checks {
			if k := &c.Checks[j]; k.Name == f.Check || slices.Contains(k.Names(), f.Check) {
				return k
			}
		}
	}
	return nil
}

// struckAmong returns the number of agents, or of proxy nodes of a failing check, that a fault chooses from.
func (s *Scenario) struckAmong(f *Fault, p *Pick) int {
	if f.Fail != nil {
		if k := s.failed(f.Fail); k != nil && k.Proxy != nil {
			return s.Things(k)
		}
	}
	return s.nodesOf(p)
}
