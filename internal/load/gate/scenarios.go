package gate

import (
	"slices"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Checked is a scenario of the release check.
type Checked struct {
	Name  string
	Scale float64 // of its agents: the same on every machine
}

// Scenarios are those of the release check: each path of a result, a session or a request through the server is in one of
// them. Two ordinary cores carry server and loader, and the server's periodic work does not hide the cost of a result;
// together they take ten minutes.
func Scenarios() []Checked {
	return []Checked{
		{"sensu-4000x40x5s", 0.25},   // results without TLS: the cost of each, from the socket to the view
		{"muster-15000x4x10s", 0.05}, // mutual TLS, few results per frame: the cost of sessions and frames
		{"muster-churn", 0.25},       // reconnects, restarts and spools
		{"muster-mixed", 0.2},        // API, watches and changes of intent beside results
		{"muster-restart", 0.1},      // a restart and a kill: nothing lost, nothing twice; its counters begin anew, and are not compared
		{"muster-bad-day", 0.2},      // dead machines, failing checks, wrong frames, a kill: every alert, once
	}
}

// Find returns the scenario of the release check with this name.
func Find(name string) (Checked, bool) {
	if i := slices.Index(Names(), name); i >= 0 {
		return Scenarios()[i], true
	}
	return Checked{}, false
}

// Load reads the quick form of the scenario at its fixed scale, and returns an error if machine m is too small.
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

// Names returns the names of Scenarios.
func Names() (list []string) {
	for _, c := range Scenarios() {
		list = append(list, c.Name)
	}
	return list
}
