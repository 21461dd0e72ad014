package load

import (
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Part is which of a joined run's agents one loader plays: every Of-th, so that each has
// some of every class. The zero Part is all of them. The plan is that of the whole, whatever
// the parts: who plays an agent changes nothing of what it does when.
type Part struct {
	Number int `json:"number"` // from 0, which is the loader that leads
	Of     int `json:"of"`
	Here   int `json:"here"` // of them, those on this machine, this one included
}

// owns says whether a member of the fleet is of this part.
func (p Part) owns(member int) bool { return p.Of < 2 || member%p.Of == p.Number }

// share is how many of n members are.
func (p Part) share(n int) int {
	if p.Of < 2 {
		return n
	}
	return (n - p.Number + p.Of - 1) / p.Of
}

// place is the i-th own agent's among all that have sessions at the same time.
func (r *run) place(i int) int {
	if p := r.cfg.Part; p.Of > 1 {
		return i*p.Of + p.Number
	}
	return i
}

// Joinable says whether several loaders can play a scenario together: nil, or an
// Unsupported error with the reason.
func (c Config) Joinable() error {
	sc, out := c.Scenario, "leave --loaders out"
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
		{sc.HasProxies() || sc.Turns(), "agents of several send results of one proxy node, or take turns, and the ledger of those is not shared", out},
	} {
		if x.has {
			return model.Errorf(model.Unsupported, "%s cannot be played by several loaders: %s", sc.Name, x.why).WithHint("%s", x.hint)
		}
	}
	return nil
}

func (p Part) String() string { return fmt.Sprintf("loader %d of %d", p.Number+1, max(1, p.Of)) }
