package play

import (
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Part selects the agents that one loader of a joined run plays: every Of-th, so that each loader has some of every
// class. The zero Part has all agents. The plan of an agent does not depend on the loader that plays it.
type Part struct {
	Number int `json:"number"` // from 0, which is the loader that leads
	Of     int `json:"of"`
	Here   int `json:"here"` // of them, those on this machine, this one included
}

// Owns reports whether a member of the fleet is in this part.
func (p Part) Owns(member int) bool { return p.Of < 2 || member%p.Of == p.Number }

// Share returns how many of n members are in this part.
func (p Part) Share(n int) int {
	if p.Of < 2 {
		return n
	}
	return (n - p.Number + p.Of - 1) / p.Of
}

// member returns the member of the fleet that is the i-th of this part.
func (p Part) member(i int) int {
	if p.Of > 1 {
		return i*p.Of + p.Number
	}
	return i
}

// Joinable returns an Unsupported error if several loaders cannot play a scenario together, else nil.
func Joinable(sc *scenario.Scenario) error {
	const out = "leave --loaders out"
	for _, x := range []struct {
		has       bool
		why, hint string
	}{
		{sc.HasAlerts(), "its messages have to be held against the results of all loaders together", out + ", or take alert out of its checks"},
		{sc.Stream != nil, "the lines of its stream have to be held against the results of all loaders together", out + ", or take stream out of the file"},
		{len(sc.Intent) > 0, "who holds a change of intent is timed by one clock", out + ", or take intent out of the file"},
		{slices.ContainsFunc(sc.Faults, func(f scenario.Fault) bool { return f.Stop != nil || f.Fail != nil }),
			"the alerts of stop and fail are held against the results of one", out + ", or take stop and fail out of the faults"},
		{slices.ContainsFunc(sc.Agents, func(x scenario.Class) bool { return x.Recorded != nil }), "its recorded stream is a file of this machine", out},
		{sc.ComponentRate() > 0, "its runs of directives are signed with keys that the server's data folder has", out + ", or take policies out of its agents"},
		{sc.HasProxies() || sc.Turns(), "agents of several send results of one proxy node, or take turns, and the ledger of those is not shared", out},
	} {
		if x.has {
			return model.Errorf(model.Unsupported, "%s cannot be played by several loaders: %s", sc.Name, x.why).WithHint("%s", x.hint)
		}
	}
	return nil
}

// String returns the number of the loader, such as loader 1 of 3.
func (p Part) String() string { return fmt.Sprintf("loader %d of %d", p.Number+1, max(1, p.Of)) }
