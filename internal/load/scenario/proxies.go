package scenario

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Proxies are proxy nodes of one kind: things without an agent. They are the nodes
// NAME-00000 and up, with the label class=NAME, and the group NAME.
type Proxies struct {
	Name   string            `json:"name"`
	Count  int               `json:"count"`
	Labels map[string]string `json:"labels,omitempty"`
}

// About says whom a check is about, as a check's proxy does: groups, which are kinds of
// proxies.
type About struct {
	Groups []string `json:"groups"`
}

// Things is how many proxy nodes a check is about; 0: it is about the agents that run it.
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

// Turns says whether the server gives runs of any check to one agent in turn, at times of
// its own.
func (s *Scenario) Turns() bool {
	return slices.ContainsFunc(s.Agents, func(c Class) bool {
		return slices.ContainsFunc(c.Checks, func(k Check) bool { return k.RoundRobin })
	})
}

// HasProxies says whether any check is about proxy nodes.
func (s *Scenario) HasProxies() bool {
	return slices.ContainsFunc(s.Agents, func(c Class) bool {
		return slices.ContainsFunc(c.Checks, func(k Check) bool { return k.Proxy != nil })
	})
}

// PerInterval is how often one check of a class runs in each interval, on all agents together.
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

// statesOf is how many event states a check of a class makes.
func (s *Scenario) statesOf(c *Class, k *Check) int {
	if k.Proxy != nil {
		return s.Things(k) * max(1, k.Count)
	}
	return c.Count * max(1, k.Count)
}

// scaleProxies makes so many times the proxy nodes, where what agents send about them is by
// how many there are. Where each agent runs each check for each of them, they stay: with
// fewer agents there are as many fewer runs already.
func (s *Scenario) scaleProxies(count func(int) int) {
	for i := range s.Proxies {
		p := &s.Proxies[i]
		inTurn := !slices.ContainsFunc(s.Agents, func(c Class) bool {
			return slices.ContainsFunc(c.Checks, func(k Check) bool {
				return k.Proxy != nil && !k.RoundRobin && slices.Contains(k.Proxy.Groups, p.Name)
			})
		})
		if inTurn {
			p.Count = count(p.Count)
		}
	}
}

// proxies checks the kinds of proxy nodes.
func (v *checker) proxies() {
	all, seen := 0, map[string]bool{}
	for i := range v.Proxies {
		p, at := &v.Proxies[i], fmt.Sprintf("proxies[%d]", i)
		v.name(at+".name", p.Name)
		if p.Name != "" && (seen[p.Name] || v.class(p.Name) != nil) {
			v.flaw(at+".name", "give each a name of its own", "there are two classes %q", p.Name)
		}
		seen[p.Name] = true
		if p.Count == 0 {
			v.absent(at+".count", "write how many", "missing")
		} else {
			v.whole(at+".count", p.Count, 1, wire.MaxProxies)
		}
		all += max(0, p.Count)
		if len(p.Labels) > model.DefaultLabels-1 {
			v.flaw(at+".labels", "", "%d labels, at most %d beside class", len(p.Labels), model.DefaultLabels-1)
		}
		for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
			if err := model.LabelError(key, p.Labels[key]); err != nil {
				v.flaw(at+".labels."+key, "", "%v", err)
			} else if key == "class" {
				v.flaw(at+".labels.class", "leave it out", "every proxy node has it already: class=%s", p.Name)
			}
		}
		checks := 0
		for c := range v.Agents {
			for j := range v.Agents[c].Checks {
				if k := &v.Agents[c].Checks[j]; k.Proxy != nil && slices.Contains(k.Proxy.Groups, p.Name) {
					checks += max(1, k.Count)
				}
			}
		}
		switch {
		case checks > model.DefaultStatesPerNode:
			v.flaw(at, "make the proxies more, and the checks about each fewer", "%d checks are about each; a server takes %d of a node", checks, model.DefaultStatesPerNode)
		case checks == 0 && p.Name != "":
			v.flaw(at, "write proxy: {groups: ["+p.Name+"]} at a check", "no check is about them")
		}
	}
	if all > wire.MaxProxies {
		v.flaw("proxies", "", "%d proxy nodes, at most %d", all, wire.MaxProxies)
	}
}

// about checks what a check says of whom it is about, and of turns.
func (v *checker) about(field string, k *Check) {
	if k.Proxy != nil {
		var names []string
		for _, p := range v.Proxies {
			names = append(names, p.Name)
		}
		if len(k.Proxy.Groups) == 0 {
			v.absent(field+".proxy.groups", "write proxy: {groups: [NAME]} with the name of proxies", "missing")
		}
		for i, name := range k.Proxy.Groups {
			at := fmt.Sprintf("%s.proxy.groups[%d]", field, i)
			if slices.Contains(k.Proxy.Groups[:i], name) {
				v.flaw(at, "leave one of them out", "%s is there twice", name)
			} else if len(names) == 0 {
				v.flaw(at, "write proxies: [{name: "+model.CleanName(name)+", count: 50}] at the head", "there are no proxies")
			} else {
				v.oneOf(at, "kind of proxies", name, names)
			}
		}
	}
	if k.Proxy != nil && k.Alert != "" {
		v.flaw(field+".alert", "leave it out: alerts of such checks are judged where a fault lets them fail", "the check is about proxy nodes, and several agents report it")
	}
	switch {
	case k.Timeout == 0:
	case !k.RoundRobin:
		v.flaw(field+".timeout", "leave it out", "simulated agents run nothing: only with roundRobin it matters, which waits for it")
	default:
		v.between(field+".timeout", k.Timeout, minInterval, max(minInterval, k.Interval))
	}
	if k.RoundRobin && k.Proxy == nil && k.TTL != 0 {
		v.flaw(field+".ttl", "leave it out, or write proxy", "each agent's event is as old as its last turn: a server refuses a TTL there")
	}
}

// pace refuses phases that would play a timetable faster which the server keeps.
func (v *checker) pace() {
	if !v.Turns() {
		return
	}
	for i := range v.Phases {
		p, at := &v.Phases[i], fmt.Sprintf("phases[%d]", i)
		switch {
		case p.Step > 0:
			v.flaw(at+".step", "write steady, and more or fewer proxies", "the server says when checks with roundRobin run, as their interval says: no phase makes that faster")
		case p.Of != "" || p.Rate != 0 && p.Rate != 1 || p.Faster[Results] != 0:
			v.flaw(at+".rate", "leave it out", "the server says when checks with roundRobin run, as their interval says: no phase makes that faster")
		}
	}
}

// perAgent is how many results per second one agent sends of a check; of turns it has its
// share.
func (s *Scenario) perAgent(c *Class, k *Check) float64 {
	if k.Interval <= 0 || c.Count <= 0 {
		return 0
	}
	return float64(s.PerInterval(c, k)) / float64(c.Count) / time.Duration(k.Interval).Seconds()
}

// failingThings checks a fault of a check about proxy nodes: so many of those.
func (v *checker) failingThings(at string, f *FailCheck, things int) {
	v.whose(at, f.Class, f.Group)
	v.whole(at+".count", f.Count, 0, things)
	v.nought(at+".count", "leave count out for all of them, or leave out the fault", float64(f.Count), "want 1 to %d", max(1, things))
	v.share(at+".share", f.Share)
	v.nought(at+".share", "leave share out for all of them, or leave out the fault", f.Share, "want more than 0 and at most 1")
	if f.Count != 0 && f.Share != 0 {
		v.flaw(at, "keep one of them", "both count and share")
	}
	if f.Within != "" {
		v.flaw(at+".within", "leave it out", "the check is about proxy nodes, which are chosen by count or share alone")
	}
}

// failed finds the check that a fault lets fail: of the first class that has it.
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

// struckAmong is how many there are that a fault may strike: agents, or the things that a
// check which fails is about.
func (s *Scenario) struckAmong(f *Fault, p *Pick) int {
	if f.Fail != nil {
		if k := s.failed(f.Fail); k != nil && k.Proxy != nil {
			return s.Things(k)
		}
	}
	return s.nodesOf(p)
}
