package gate

import (
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Checked is a scenario of the release check.
type Checked struct {
	Name  string
	Scale float64 // of its agents: the same on every machine, so that counts can be compared
	Why   string
}

// Scenarios are those of the release check: each way that a result, a session or a request
// goes through the server is in one of them. Their rates are such that two
// ordinary cores carry server and loader easily, and what the server does by itself does not
// hide what a result costs; together they take nine minutes.
func Scenarios() []Checked {
	return []Checked{
		{"sensu-4000x40x5s", 0.25, "results, plain: what each costs, from the socket to the view"},
		{"muster-15000x4x10s", 0.05, "mutual TLS, few results per frame: what sessions and frames cost"},
		{"muster-churn", 0.25, "machines that reconnect, restart and send what they spooled: what coming back costs"},
		{"muster-mixed", 0.2, "everything at once: API, watches and changes of intent beside results"},
		{"muster-restart", 0.1, "the server restarted and killed: nothing is lost, nothing comes twice. What it costs is not counted, for its counters begin anew"},
		{"muster-bad-day", 0.2, "machines die, checks fail, an agent sends nonsense, the server is killed: every alert comes, once"},
	}
}

// Find is one of Scenarios by its name.
func Find(name string) (Checked, bool) {
	for _, c := range Scenarios() {
		if c.Name == name {
			return c, true
		}
	}
	return Checked{}, false
}

// Load is the scenario as the check plays it: its quick form at the fixed scale, which m
// has to carry.
func (c Checked) Load(m scenario.Machine) (*scenario.Scenario, error) {
	whole, err := scenario.Load(c.Name)
	if err != nil {
		return nil, err
	}
	sc := whole.Scaled(c.Scale).Quick(m)
	if sc.Scale != c.Scale {
		return nil, model.Errorf(model.Limited, "this machine does not carry %s with %g %% of its agents easily, and with fewer nothing could be compared", c.Name, 100*c.Scale).
			WithHint("free memory and open files (ulimit -Hn), or use a larger machine; muster load show %s --scale %g says what it needs", c.Name, c.Scale)
	}
	return sc, nil
}

// Names are those of Scenarios.
func Names() (list []string) {
	for _, c := range Scenarios() {
		list = append(list, c.Name)
	}
	return list
}
