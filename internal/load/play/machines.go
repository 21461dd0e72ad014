package play

import (
	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/load/alerts"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/people"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Machines returns the agents of this process.
func (f *Fleet) Machines() []people.Machine {
	list := make([]people.Machine, len(f.agents))
	for i, a := range f.agents {
		list[i] = a
	}
	return list
}

// Here returns the present name of the machine's node, and whether it has a session.
func (a *agent) Here() (name string, here bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.name, a.session != nil
}

// Class returns the class of the machine.
func (a *agent) Class() *scenario.Class { return a.class.spec }

// Held returns the assignment of the machine, and the time since which it has it.
func (a *agent) Held() (held *link.Assignment, since int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.assigned, a.assignedAt
}

// Stayed reports whether the machine has a session for longer than observe.Slack.
func (a *agent) Stayed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session != nil && a.fleet.Now()-a.since > observe.Slack
}

// Otherwise sends the server other facts; it returns false if the machine has no session.
func (a *agent) Otherwise(facts map[string]string) bool {
	a.mu.Lock()
	s := a.session
	a.facts = facts // the next session begins with them
	a.mu.Unlock()
	return s != nil && s.SendFacts(&wire.Facts{Facts: facts}) == nil
}

// Says reports whether distribution is the last one that the machine sent in its present session.
func (a *agent) Says(distribution string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session != nil && a.facts["distribution"] == distribution
}

// Unheard returns by class the checks whose alerts the run does not judge, and the keepalive: users may silence these.
// Nil for a class means all its checks.
func (f *Fleet) Unheard() [][]string {
	heard, list := alerts.Listened(f.cfg.Scenario), make([][]string, len(f.classes))
	for i, c := range f.classes {
		own, some := []string{model.KeepaliveCheckName}, false
		for _, k := range c.checks {
			if heard[k.full] != "" {
				some = true
			} else {
				own = append(own, k.full)
			}
		}
		if some {
			list[i] = own
		}
	}
	return list
}
