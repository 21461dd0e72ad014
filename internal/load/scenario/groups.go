package scenario

import (
	"fmt"
	"slices"
)

// AllGroup is the group that all agents are in.
const AllGroup = "all"

// GroupCheck is a check, or several equal checks, of groups. An agent in several of its Groups holds it once; an agent in
// several of Each holds one for each of them.
type GroupCheck struct {
	Check
	Groups []string `json:"groups,omitempty" check:"a group"` // one check for all of these: NAME-000 on the server …
	Each   []string `json:"each,omitempty" check:"a group"`   // … or for each of these one of its own: GROUP-NAME-000
}

// Placed is a check, or several equal checks, with its name on the server and its targets.
type Placed struct {
	*Check
	Groups []string

	prefix string // of its name: empty, or GROUP-
	class  string // its class; empty: it is of groups
}

// Own reports whether it is of one class.
func (p Placed) Own() bool { return p.class != "" }

// FullName returns the name of the i-th of them on the server.
func (p Placed) FullName(i int) string { return fmt.Sprintf("%s%s-%03d", p.prefix, p.Name, i) }

// Shared returns the groups of classes beside their own, in the order of the file, with their classes.
func (s *Scenario) Shared() (names []string, classes map[string][]string) {
	classes = map[string][]string{}
	for i := range s.Agents {
		for _, g := range s.Agents[i].Groups {
			if classes[g] == nil {
				names = append(names, g)
			}
			classes[g] = append(classes[g], s.Agents[i].Name)
		}
	}
	return names, classes
}

// TargetsAll reports whether a check targets the group of all agents.
func (s *Scenario) TargetsAll() bool {
	return slices.ContainsFunc(s.ofGroups(), func(p Placed) bool { return slices.Contains(p.Groups, AllGroup) })
}

// Placed returns all checks: those of each class, then those of groups.
func (s *Scenario) Placed() (list []Placed) {
	for i := range s.Agents {
		list = append(list, s.Agents[i].placed()...)
	}
	return append(list, s.ofGroups()...)
}

// placed returns the checks of a class.
func (c *Class) placed() (list []Placed) {
	for j := range c.Checks {
		list = append(list, Placed{&c.Checks[j], []string{c.Name}, c.Name + "-", c.Name})
	}
	return list
}

// ofGroups returns the checks of groups.
func (s *Scenario) ofGroups() (list []Placed) {
	for i := range s.Checks {
		k := &s.Checks[i]
		if len(k.Groups) > 0 {
			list = append(list, Placed{&k.Check, k.Groups, "", ""})
		}
		for _, g := range k.Each {
			list = append(list, Placed{&k.Check, []string{g}, g + "-", ""})
		}
	}
	return list
}

// Names returns the names of the checks within their class: NAME, or NAME-000 and up for several.
func (c *Check) Names() []string {
	if c.Count <= 1 {
		return []string{c.Name}
	}
	names := make([]string, c.Count)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%03d", c.Name, i)
	}
	return names
}

// Held returns the checks that each agent of a class runs, each once however many of its groups it targets: its own,
// then those of groups in the order of the file.
func (s *Scenario) Held(c *Class) []Placed {
	list := c.placed()
	for _, p := range s.ofGroups() {
		if slices.ContainsFunc(p.Groups, c.In) {
			list = append(list, p)
		}
	}
	return list
}

// In reports whether the agents of the class are in a group.
func (c *Class) In(group string) bool {
	return group == c.Name || group == AllGroup || slices.Contains(c.Groups, group)
}

// Failing returns the names on the server of the checks that a fault strikes: those of its name in the first class that
// has any and may be struck.
func (s *Scenario) Failing(f *FailCheck) (names []string) {
	for i := range s.Agents {
		c := &s.Agents[i]
		if !f.Of(c) {
			continue
		}
		for _, p := range s.Held(c) {
			for n, name := range p.Names() {
				if name == f.Check || p.Name == f.Check || fmt.Sprintf("%s-%03d", p.Name, n) == f.Check {
					names = append(names, p.FullName(n))
				}
			}
		}
		if len(names) > 0 {
			return names
		}
	}
	return nil
}
