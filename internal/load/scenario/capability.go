package scenario

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	sensu "github.com/muster-fleet/muster/internal/load/sensu/about"
	"github.com/muster-fleet/muster/internal/model"
)

// muster is the target of a scenario that names none.
const muster = "muster"

// Targets returns the systems that a scenario can be played against.
func Targets() []string { return []string{muster, sensu.Name} }

// AgainstSensu reports whether the target is Sensu, not Muster.
func (s *Scenario) AgainstSensu() bool { return s.Target == sensu.Name }

// Capability is a part of a run that a scenario may need.
type Capability struct {
	Name, What string

	fields []string // one of them is used, as in Class.TLS; none: only the field needs names it
}

// Capabilities returns all that a scenario can need. A scenario names in needs only those that no field shows.
func Capabilities() []Capability {
	return []Capability{
		{"results", "results of checks, with status mix and changes", []string{"Check.Name", "Class.Recorded"}},
		{"keepalives", "keepalives, and alerts for machines that are down", nil},
		{"tls", "mutual TLS", []string{"Class.TLS"}},
		{"output-sizes", "outputs of any length up to 1000 KiB", []string{"Output.Bytes"}},
		{"churn", "reconnects, restarts, machines offline that send what they spooled", []string{"Class.Churn"}},
		{"rates", "phases at other rates, and steps", []string{"Phase.Step", "Phase.Of", "Phase.Rate"}},
		{"phase-objectives", "objectives of one phase", []string{"Phase.Objectives"}},
		{"faults", "machines that die or hang, cut connections, failing checks", []string{"Fault.Stop", "Fault.Hang", "Fault.Cut", "Fault.Fail"}},
		{"refusals", "frames that have to be refused", []string{"Fault.Wrong"}},
		{"restart", "the server restarted, killed or stopped while results flow", []string{"Fault.Server"}},
		{"cores", "a server that may use some cores only", []string{"Server.Cores"}},
		{"renames", "machines renamed while results flow", []string{"Churn.Renames"}},
		{"intent", "checks and directives made, changed and deleted while results flow", []string{"Scenario.Intent"}},
		{"recorded", "a recorded stream, each of its nodes played by several agents", []string{"Class.Recorded"}},
		{"operators", "people who list, watch and apply while results flow", []string{"Scenario.Operators"}},
		{"silences", "people who silence machines while results flow", []string{"Operators.Silences"}},
		{"runs", "commands run at once on machines, and facts that change", []string{"Operators.Runs", "Operators.Facts"}},
		{"alerts", "messages about problems, by handlers and routes, to a webhook of the loader's", []string{"Check.Alert"}},
		{"values", "measured values of items", []string{"Class.Values"}},
		{"policies", "directives, their signed runs and compliance", []string{"Class.Policies"}},
		{"inventories", "inventories of machines that have directives", []string{"Class.Inventory"}},
		{"proxy-checks", "results about things that have no agent", []string{"Check.Proxy"}},
		{"round-robin", "checks that one of many agents runs in turn", []string{"Check.RoundRobin"}},
		{"stream-handler", "a handler that is notified of every result, by connections that stay open", []string{"Scenario.Stream"}},
		{fleetOfServers, "agents shared out between several servers", nil},
	}
}

// uses reports whether any of some fields is set, such as Class.TLS, or Fault.Server=kill. The usual rate of 1 counts as none.
func (s *Scenario) uses(fields []string) (used bool) {
	walk("", reflect.ValueOf(s), func(_, name string, _ reflect.StructField, value reflect.Value) {
		if value.IsZero() || name == "Phase.Rate" && value.Float() == 1 {
			return
		}
		used = used || slices.Contains(fields, name) || value.Kind() == reflect.String && slices.Contains(fields, name+"="+value.String())
	})
	return used
}

// fleetOfServers is the capability that this version of Muster lacks. Of Sensu, --server names several backends.
const fleetOfServers = "fleet-of-servers"

// required returns the capabilities that the scenario needs.
func (s *Scenario) required() []Capability {
	return slices.DeleteFunc(Capabilities(), func(c Capability) bool {
		return !slices.Contains(s.Needs, c.Name) && !s.uses(c.fields)
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
