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
// Unsupported error that says what it waits for.
func (c Config) Joinable() error {
	if c.Scenario.HasAlerts() {
		return model.Errorf(model.Unsupported, "%s cannot be played by several loaders yet: its messages have to be held against the results of all loaders together", c.Scenario.Name).
			WithHint("leave --loaders out, or take alert out of its checks")
	}
	if c.Scenario.Stream != nil {
		return model.Errorf(model.Unsupported, "%s cannot be played by several loaders yet: the lines of its stream have to be held against the results of all loaders together", c.Scenario.Name).
			WithHint("leave --loaders out, or take stream out of the file")
	}
	if len(c.Scenario.Intent) > 0 {
		return model.Errorf(model.Unsupported, "%s cannot be played by several loaders: who holds a change of intent is timed by one clock", c.Scenario.Name).
			WithHint("leave --loaders out, or take intent out of the file")
	}
	if slices.ContainsFunc(c.Scenario.Faults, func(f scenario.Fault) bool { return f.Stop != nil || f.Fail != nil }) {
		return model.Errorf(model.Unsupported, "%s cannot be played by several loaders: the alerts of stop and fail are held against the results of one", c.Scenario.Name).
			WithHint("leave --loaders out, or take stop and fail out of the faults")
	}
	if slices.ContainsFunc(c.Scenario.Agents, func(x scenario.Class) bool { return x.Recorded != nil }) {
		return model.Errorf(model.Unsupported, "%s cannot be played by several loaders yet: its recorded stream is a file of this machine", c.Scenario.Name).WithHint("leave --loaders out")
	}
	if c.Scenario.HasProxies() || c.Scenario.Turns() {
		return model.Errorf(model.Unsupported, "%s cannot be played by several loaders yet: what agents of several say of one proxy node, and whose turn it was, waits for a ledger that all of them share", c.Scenario.Name).
			WithHint("leave --loaders out")
	}
	return nil
}

func (p Part) String() string { return fmt.Sprintf("loader %d of %d", p.Number+1, max(1, p.Of)) }
