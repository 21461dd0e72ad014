package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	sensu "github.com/muster-fleet/muster/internal/load/sensu/about"
	"github.com/muster-fleet/muster/internal/model"
)

// muster is the target of a scenario that names none.
const muster = "muster"

// Targets returns the systems that a scenario can be played against.
func Targets() []string { return []string{muster, sensu.Name} }

// System returns the target other than Muster; ok is false for Muster.
func (s *Scenario) System() (name string, ok bool) { return s.Target, s.Target == sensu.Name }

// Capability is a part of a run that a scenario may need.
type Capability struct {
	Name, What string

	needed func(s *Scenario) bool // its fields need it; nil: only the field needs names it
}

// Capabilities returns all that a scenario can need. A scenario names in needs only those that no field shows.
func Capabilities() []Capability {
	class := func(is func(c *Class) bool) func(*Scenario) bool {
		return func(s *Scenario) bool { return slices.ContainsFunc(s.Agents, func(c Class) bool { return is(&c) }) }
	}
	check := func(is func(k Check) bool) func(*Scenario) bool {
		return func(s *Scenario) bool {
			return slices.ContainsFunc(s.Agents, func(c Class) bool {
				return slices.ContainsFunc(s.Held(&c), func(p Placed) bool { return is(*p.Check) })
			})
		}
	}
	phase := func(is func(p Phase) bool) func(*Scenario) bool {
		return func(s *Scenario) bool { return slices.ContainsFunc(s.Phases, is) }
	}
	fault := func(is func(f Fault) bool) func(*Scenario) bool {
		return func(s *Scenario) bool { return slices.ContainsFunc(s.Faults, is) }
	}
	return []Capability{
		{Name: "results", What: "results of checks, with status mix and changes", needed: func(s *Scenario) bool {
			return slices.ContainsFunc(s.Agents, func(c Class) bool { return c.Recorded != nil || len(s.Held(&c)) > 0 })
		}},
		{Name: "keepalives", What: "keepalives, and alerts for machines that are down"},
		{Name: "tls", What: "mutual TLS", needed: class(func(c *Class) bool { return c.TLS })},
		{Name: "output-sizes", What: "outputs of any length up to 1000 KiB", needed: check(func(k Check) bool { return k.Output.Bytes > 0 })},
		{Name: "churn", What: "reconnects, restarts, machines offline that send what they spooled", needed: class(func(c *Class) bool { return c.Churn != Churn{} })},
		{Name: "rates", What: "phases at other rates, and steps", needed: phase(func(p Phase) bool { return p.Step > 0 || p.Of != "" || p.Rate != 0 && p.Rate != 1 })},
		{Name: "phase-objectives", What: "objectives of one phase", needed: phase(func(p Phase) bool { return len(p.Objectives) > 0 })},
		{Name: "faults", What: "machines that die or hang, cut connections, failing checks", needed: fault(func(f Fault) bool { return f.Server == "" && f.Wrong == nil })},
		{Name: "refusals", What: "frames that have to be refused", needed: fault(func(f Fault) bool { return f.Wrong != nil })},
		{Name: "restart", What: "the server restarted, killed or stopped while results flow", needed: fault(func(f Fault) bool { return f.Server != "" })},
		{Name: "cores", What: "a server that may use some cores only", needed: func(s *Scenario) bool { return s.Server.Cores > 0 }},
		{Name: "renames", What: "machines renamed while results flow", needed: class(func(c *Class) bool { return c.Churn.Renames != "" })},
		{Name: "intent", What: "checks and directives made, changed and deleted while results flow", needed: func(s *Scenario) bool { return len(s.Intent) > 0 }},
		{Name: "recorded", What: "a recorded stream, each of its nodes played by several agents", needed: class(func(c *Class) bool { return c.Recorded != nil })},
		{Name: "operators", What: "people who list, watch and apply while results flow", needed: func(s *Scenario) bool { return s.Operators.Any() }},
		{Name: "silences", What: "people who silence machines while results flow", needed: func(s *Scenario) bool { return s.Operators.Silences != "" }},
		{Name: "runs", What: "commands run at once on machines, and facts that change", needed: func(s *Scenario) bool { return s.Operators.Runs != "" || s.Operators.Facts != "" }},
		{Name: "alerts", What: "messages about problems, by handlers and routes, to a webhook of the loader's", needed: (*Scenario).HasAlerts},
		{Name: "values", What: "measured values of items", needed: class(func(c *Class) bool { return len(c.Values) > 0 })},
		{Name: "policies", What: "directives, their signed runs and compliance", needed: class(func(c *Class) bool { return len(c.Policies) > 0 })},
		{Name: "inventories", What: "inventories of machines that have directives", needed: class(func(c *Class) bool { return c.Inventory > 0 })},
		{Name: "proxy-checks", What: "results about things that have no agent", needed: check(func(k Check) bool { return k.Proxy != nil })},
		{Name: "round-robin", What: "checks that one of many agents runs in turn", needed: check(func(k Check) bool { return k.RoundRobin })},
		{Name: "stream-handler", What: "a handler that is notified of every result, by connections that stay open", needed: func(s *Scenario) bool { return s.Stream != nil }},
		{Name: fleetOfServers, What: "agents shared out between several servers"},
	}
}

// fleetOfServers is the capability that this version of Muster lacks. Of Sensu, --server names several backends.
const fleetOfServers = "fleet-of-servers"

// capabilityNames returns the names of all capabilities.
func capabilityNames() (names []string) {
	for _, c := range Capabilities() {
		names = append(names, c.Name)
	}
	return names
}

// required returns the capabilities that the scenario needs.
func (s *Scenario) required() []Capability {
	return slices.DeleteFunc(Capabilities(), func(c Capability) bool {
		return !slices.Contains(s.Needs, c.Name) && (c.needed == nil || !c.needed(s))
	})
}

// Missing returns the names of the needed capabilities that this version lacks against the scenario's target.
func (s *Scenario) Missing() (names []string) {
	lacks := []string{fleetOfServers}
	if s.Target == sensu.Name {
		lacks = sensu.Lacks()
	}
	for _, c := range s.required() {
		if slices.Contains(lacks, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

// Runs returns nil if this version can play the scenario, else an Unsupported error with the missing capabilities.
func (s *Scenario) Runs() error {
	if missing := s.Missing(); len(missing) > 0 {
		return model.Errorf(model.Unsupported, "%s cannot be played yet: against %s this version has no %s", s.Name, cmp.Or(s.Target, muster), strings.Join(missing, ", ")).
			WithHint("muster load list shows which scenarios run today")
	}
	return nil
}

// Refused returns nil if a player with these capabilities can play the scenario, else an Unsupported error. who is such
// as "target lines"; why may be empty.
func (s *Scenario) Refused(these []string, who, why, hint string) error {
	for _, c := range s.required() {
		if slices.Contains(these, c.Name) {
			continue
		}
		text := fmt.Sprintf("%s: %s has no %s (%s)", s.Name, who, c.Name, c.What)
		if why != "" {
			text += ": " + why
		}
		return model.Errorf(model.Unsupported, "%s", text).WithHint("%s", hint)
	}
	return nil
}
