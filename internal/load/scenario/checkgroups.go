package scenario

import (
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// groupsOf checks those that a class is in.
func (v *checker) groupsOf(at string, c *Class) {
	if c.Name == AllGroup {
		v.flaw(at+".name", "call it otherwise", "%s is the group of all agents", AllGroup)
	}
	for j, g := range c.Groups {
		field := fmt.Sprintf("%s.groups[%d]", at, j)
		v.name(field, g)
		switch {
		case g == AllGroup || g == c.Name && g != "":
			v.flaw(field, "leave it out", "its agents are in group %s anyway", g)
		case v.class(g) != nil:
			v.flaw(field, "give both classes a group of another name", "group %s is that of class %s alone", g, g)
		case slices.Contains(c.Groups[:j], g):
			v.flaw(field, "leave it out", "%s is in group %s already", c.Name, g)
		}
	}
}

// groupNames are all that a check can target.
func (v *checker) groupNames() []string {
	shared, _ := v.Shared()
	return append(append(v.classNames(), shared...), AllGroup)
}

// groupChecks checks those of groups; names are the checks that are there, by what they are
// called on the server.
func (v *checker) groupChecks(names map[string]string) {
	known := v.groupNames()
	for i := range v.Checks {
		k, at := &v.Checks[i], fmt.Sprintf("checks[%d]", i)
		v.name(at+".name", k.Name)
		v.check(at, &k.Check)
		if k.Proxy != nil || k.RoundRobin || k.Timeout != 0 {
			v.flaw(at, "write it among the checks of a class", "checks of groups are not about proxy nodes, and nobody takes turns to run them")
		}
		switch {
		case len(k.Groups) == 0 && len(k.Each) == 0:
			v.absent(at+".groups", "write groups: [GROUP, …]: one check for all of them; or each: [GROUP, …]: for each one of its own", "whose agents run it?")
		case len(k.Groups) > 0 && len(k.Each) > 0:
			v.flaw(at+".each", "keep one of them", "both groups and each")
		}
		for _, list := range [...]struct {
			field string
			names []string
		}{{"groups", k.Groups}, {"each", k.Each}} {
			for j, g := range list.names {
				field := fmt.Sprintf("%s.%s[%d]", at, list.field, j)
				if v.oneOf(field, "group", g, known) && slices.Contains(list.names[:j], g) {
					v.flaw(field, "leave it out", "%s is named twice", g)
				}
			}
		}
	}
	for i := range v.Checks {
		field := fmt.Sprintf("checks[%d].name", i)
		one := Scenario{Checks: v.Checks[i : i+1]}
		for _, p := range one.ofGroups() {
			v.fullName(field, p, "of groups", names)
		}
	}
}

// fullName checks that no other check is called so on the server.
func (v *checker) fullName(field string, p Placed, whose string, names map[string]string) {
	full := p.prefix + p.Name // with a number behind it: the check's name
	if other, twice := names[full]; twice && p.Name != "" {
		v.flaw(field, "call one of them otherwise", "this and a check %s would both be called %s-000", other, full)
	}
	names[full] = whose
}

// held checks what each agent of a class runs in all.
func (v *checker) held(at string, c *Class) {
	states, rate := 0, 0.0
	for _, k := range v.Held(c) {
		if k.Proxy == nil {
			states += max(1, min(k.Count, maxAgents))
		}
		rate += v.perAgent(c, k.Check)
		if c.Recorded != nil && !k.Own() {
			v.flaw(at+".recorded", "leave its groups out, or the check", "check %s targets it, and a recorded stream is all that its agents send", k.Name)
			return
		}
	}
	if len(c.Checks) > 0 {
		at += ".checks"
	}
	if states > model.DefaultStatesPerNode {
		v.flaw(at, "make the agents more, and their checks fewer", "%d checks of each agent; a server takes %d", states, model.DefaultStatesPerNode)
	}
	if rate > model.DefaultNodeRate {
		v.flaw(at, "make the intervals longer", "%.0f results per second of each agent; a server takes %d", rate, model.DefaultNodeRate)
	}
}
