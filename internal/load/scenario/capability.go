package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Capability is something that a scenario may need of what it loads.
type Capability struct {
	Name   string `json:"name"`
	What   string `json:"what"`
	Exists bool   `json:"exists"`          // in this version, against the target: Muster where nothing else is said
	Waits  string `json:"waits,omitempty"` // what it comes with
}

// Capabilities are all that a scenario can need. Those that follow from its fields need
// not be named. Those that can only be named have no field that says what is to be played:
// they get one before they exist.
func Capabilities() []Capability {
	exists := func(name, what string) Capability { return Capability{name, what, true, ""} }
	waits := func(name, what, with string) Capability { return Capability{name, what, false, with} }
	return append([]Capability{
		exists("results", "results of checks, with status mix and changes"),
		exists("keepalives", "machines that say that they live, and alerts for those that do not"),
		exists("tls", "mutual TLS"),
		exists("output-sizes", "outputs of any length up to 1000 KiB"),
		exists("churn", "reconnects, restarts, machines offline that send what they spooled"),
		exists("rates", "phases at other rates, and steps"),
		exists("phase-objectives", "objectives of one phase"),
		exists("faults", "machines that die or hang, cut connections, failing checks"),
		exists("refusals", "frames that have to be refused"),
		exists("restart", "the server restarted, killed or stopped while results flow"),
		exists("cores", "a server that may use some cores only"),
		exists("renames", "machines renamed while results flow"),
		exists("intent", "checks and groups made, changed and deleted while results flow"),
		exists("recorded", "a recorded stream, each of its nodes played by several agents"),
		exists("operators", "people who list, watch and apply while results flow"),
		exists("silences", "people who silence machines while results flow"),
		exists("runs", "commands run at once on machines, and facts that change"),
		exists("alerts", "messages about problems, by handlers and routes, to a webhook of the loader's"),
		exists("values", "measured values, without anything else"),
		waits("policies", "policy runs and compliance", "the policy pipeline"),
		waits("inventories", "inventories of machines", "the inventory pipeline"),
		exists("proxy-checks", "results about things that have no agent"),
		exists("round-robin", "checks that one of many agents runs in turn"),
		exists("stream-handler", "a handler that is notified of every result, by connections that stay open"),
		waits("fleet-of-servers", "agents shared out between several servers", "several servers for one fleet"),
		waits("shared-connections", "several agents on one connection", "a protocol that allows it"),
	}, waiting()...)
}

func capabilityOf(name string) (Capability, bool) {
	for _, c := range Capabilities() {
		if c.Name == name {
			return c, true
		}
	}
	return Capability{}, false
}

// Requires are the capabilities that the scenario needs: those it names, and those that
// follow from its fields.
func (s *Scenario) Requires() []string {
	var list []string
	need := func(name string, when bool) {
		if when && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	for i := range s.Agents {
		c := &s.Agents[i]
		held := s.Held(c)
		need("results", len(held) > 0 || c.Recorded != nil)
		need("recorded", c.Recorded != nil)
		need("tls", c.TLS)
		need("shared-connections", c.Share > 1)
		need("values", len(c.Values) > 0)
		need("policies", len(c.Policies) > 0)
		need("inventories", c.Inventory > 0)
		need("churn", c.Churn != Churn{})
		need("renames", c.Churn.Renames != "")
		for _, check := range held {
			need("output-sizes", check.Output.Bytes > 0)
			need("proxy-checks", check.Proxy != nil)
			need("round-robin", check.RoundRobin)
		}
	}
	for i := range s.Phases {
		p := &s.Phases[i]
		need("rates", p.Step > 0 || p.Of != "" || p.Rate != 0 && p.Rate != 1)
		need("phase-objectives", len(p.Objectives) > 0)
	}
	for _, f := range s.Faults {
		need("faults", f.Server == "" && f.Wrong == nil)
		need("refusals", f.Wrong != nil)
		need("restart", f.Server != "")
	}
	need("cores", s.Server.Cores > 0)
	need("intent", len(s.Intent) > 0)
	need("operators", s.Operators.Any())
	need("silences", s.Operators.Silences != "")
	need("runs", s.Operators.Runs != "" || s.Operators.Facts != "")
	need("alerts", s.HasAlerts())
	need("stream-handler", s.Stream != nil)
	if x, ok := s.System(); ok {
		_, waits := capabilityOf(targetPrefix + x)
		need(targetPrefix+x, waits)
	}
	for _, name := range s.Needs {
		need(name, true)
	}
	return list
}

// Beyond are those of them that something which has only these does not.
func (s *Scenario) Beyond(these ...string) (list []Capability) {
	for _, name := range s.Requires() {
		if c, ok := capabilityOf(name); ok && !slices.Contains(these, name) {
			list = append(list, c)
		}
	}
	return list
}

// Missing are those of them that do not exist yet against the scenario's target.
func (s *Scenario) Missing() (list []Capability) {
	for _, name := range s.Requires() {
		if c, ok := capabilityOf(name); ok && !c.against(s.Target).Exists {
			list = append(list, c.against(s.Target))
		}
	}
	return list
}

// Runs says whether this version can play the scenario: nil, or an Unsupported error that
// says what it waits for.
func (s *Scenario) Runs() error {
	missing := s.Missing()
	if len(missing) == 0 {
		return nil
	}
	var lines []string
	for _, c := range missing {
		lines = append(lines, c.Name+" ("+c.What+"): comes with "+c.Waits)
	}
	return model.Errorf(model.Unsupported, "%s cannot be played yet, it waits for\n  %s", s.Name, strings.Join(lines, "\n  ")).
		WithHint("muster load list shows which scenarios run today")
}

// Refused says what of the scenario it has that whoever plays these does not: nil, or an Unsupported
// error. who is such as "target lines"; why may be empty; hint is what to type.
func (s *Scenario) Refused(these []string, who, why, hint string) error {
	beyond := s.Beyond(these...)
	if len(beyond) == 0 {
		return nil
	}
	text := fmt.Sprintf("%s: %s has no %s (%s)", s.Name, who, beyond[0].Name, beyond[0].What)
	if why != "" {
		text += ": " + why
	}
	return model.Errorf(model.Unsupported, "%s", text).WithHint("%s", hint)
}
