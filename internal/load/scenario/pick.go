package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/load/number"
)

// Of says whether the agents of a class are among those that something may happen to.
func (p *Pick) Of(c *Class) bool { return among(c, p.Class, p.Group) }

// Of says whether the agents of a class hold what is changed.
func (c *Change) Of(class *Class) bool { return among(class, c.Class, c.Group) }

// among says whether a class is the one named, and in the group named; empty: whichever.
func among(c *Class, class, group string) bool {
	return (class == "" || class == c.Name) && (group == "" || c.In(group))
}

// whose says in words which agents are meant; empty: all.
func whose(class, group string) string {
	if group != "" {
		return "group " + group
	}
	return class
}

// nodesOf is how many agents may be picked.
func (s *Scenario) nodesOf(p *Pick) (n int) {
	for i := range s.Agents {
		if c := &s.Agents[i]; p.Of(c) {
			n += max(0, c.Count)
		}
	}
	return n
}

// whose checks a reference to a class or a group; neither means all.
func (v *checker) whose(at, class, group string) {
	if class != "" && group != "" {
		v.flaw(at, "keep one of them", "both class and group")
	}
	v.className(at+".class", class)
	if group != "" {
		v.oneOf(at+".group", "group", group, v.groupNames())
	}
}

func (v *checker) pick(at string, p *Pick) {
	if p == nil {
		return
	}
	v.whose(at, p.Class, p.Group)
	most := v.nodesOf(p)
	if p.Count < 0 || p.Count > most && most > 0 {
		v.flaw(at+".count", "", "want 1 to %d, not %d", most, p.Count)
	}
	v.nought(at+".count", "leave count out for all of them, or leave out the fault", float64(p.Count), "want 1 to %d", max(1, most))
	v.share(at+".share", p.Share)
	v.nought(at+".share", "leave share out for all of them, or leave out the fault", p.Share, "want more than 0 and at most 1")
	if p.Count != 0 && p.Share != 0 {
		v.flaw(at, "keep one of them", "both count and share")
	}
	if p.Within != "" {
		v.label(at+".within", p)
	}
}

// label checks that the nodes of those that may be picked have a label.
func (v *checker) label(field string, p *Pick) {
	labels := map[string]bool{"class": true, "rack": true, "site": true}
	for i := range v.Agents {
		if c := &v.Agents[i]; p.Of(c) {
			for name := range c.Labels {
				labels[name] = true
			}
		}
	}
	v.oneOf(field, "label", p.Within, slices.Sorted(maps.Keys(labels)))
}

// String is 5 of web, 10 % of all, all of group eu within one rack.
func (p *Pick) String() string {
	of := cmp.Or(whose(p.Class, p.Group), "all")
	text := "all of " + of
	switch {
	case of == "all" && p.Count == 0 && p.Share == 0:
		text = "all"
	case p.Count > 0:
		text = fmt.Sprintf("%d of %s", p.Count, of)
	case p.Share > 0:
		text = number.Percent(p.Share) + " of " + of
	}
	if p.Within != "" {
		text += " within one " + p.Within
	}
	return text
}
