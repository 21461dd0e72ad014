package load

import (
	"context"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Target is a system other than Muster that a scenario is played against: one folder
// beside this package each. RunTarget calls its methods one after the other, in this
// order, but for Totals.
type Target interface {
	// Name is the system's, as a scenario's target has it.
	Name() string
	// Secured says whether its agents' connections have TLS.
	Secured() bool
	// Prepare makes what the agents need there, and says which version it is.
	Prepare(ctx context.Context) (version string, err error)
	// Agents are the scenario's, not yet connected. They tell observe of every result
	// that has left, from many goroutines.
	Agents(observe func(Observed)) []TargetAgent
	// Totals sums what the agents counted so far.
	Totals() Totals
	// Compare asks the system what it holds, with the agents at rest, and tells differ of
	// each state that is not as the agents left it. kept results are there.
	Compare(ctx context.Context, differ func(i Imbalance, problem string)) (states int, kept uint64, err error)
	// Clean removes what Prepare made and would go on by itself.
	Clean(ctx context.Context) error
}

// TargetAgent is one simulated agent.
type TargetAgent interface {
	Run(ctx context.Context) // connects, and comes back by itself, until ctx ends
	Rest()                   // stays connected; makes no more results
	Trouble() error          // why it is not connected; nil: it is, or nothing went wrong
}

// Observed is one result that has left.
type Observed struct {
	Intended time.Time // when it was meant to be made: when the system asked for it
	Due      time.Time // when the agent knew of that
	Left     time.Time // when its connection had taken it whole
}

// Totals are sums over a target's agents.
type Totals struct {
	Ready     int    `json:"-"`        // agents that the system knew and made work, ever
	Connected int    `json:"-"`        // now
	Requests  uint64 `json:"requests"` // to make a result
	Dropped   uint64 `json:"dropped"`  // of them, not followed, because the protocol says so or the run had ended
	Missed    uint64 `json:"missed"`   // that should have come in between, and did not
	Sent      uint64 `json:"sent"`     // results given to connections …
	Written   uint64 `json:"written"`  // … and taken whole
	Alive     uint64 `json:"alive"`    // keepalives, which are no results
	Lost      uint64 `json:"lost"`     // connections that ended by themselves
	Failed    uint64 `json:"failed"`   // connections that were not opened: they are tried again
}

// Targeted is what a report has of a system that is not Muster.
type Targeted struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Totals
}

// targetGoals are the objectives that mean the same whatever the target: the others are
// about acknowledgements, or about what only Muster says of itself.
func targetGoals() []string {
	return []string{"rate", "connect", "machine", "server-cpu", "loader-memory"}
}

// ofAcknowledgements says that a figure times or counts acknowledgements. A report of
// another system has what comes nearest in its place: when results had left.
func ofAcknowledgements(figure string) bool {
	return slices.Contains([]string{"held", "p50", "p99", "p999", "max", "beyond-p50", "beyond-p99"}, figure)
}

// TargetPlays says what of a scenario RunTarget cannot play: nil, or an Unsupported error.
func TargetPlays(sc *scenario.Scenario) error {
	what := ""
	switch {
	case len(sc.Faults) > 0:
		what = "faults"
	case len(sc.Intent) > 0:
		what = "intent"
	case sc.Operators != scenario.Operators{}:
		what = "operators"
	}
	if sc.HasAlerts() {
		what = "messages about problems"
	}
	if sc.Stream.Connections > 0 {
		what = "a handler that is told of every result"
	}
	for i := range sc.Agents {
		if sc.Agents[i].Churn != (scenario.Churn{}) {
			what = "churn"
		}
		if sc.Agents[i].Recorded != nil {
			what = "recorded streams"
		}
	}
	for i := range sc.Phases {
		p := &sc.Phases[i]
		if kind := p.Kind(); kind == kindStep || p.Rate != 0 && p.Rate != 1 {
			what = "phases at other rates"
		}
		if len(p.Objectives) > 0 {
			what = "objectives of one phase"
		}
	}
	if what == "" {
		return nil
	}
	return model.Errorf(model.Unsupported, "%s: target %s has no %s: the system under test keeps the time, and its agents only answer", sc.Name, sc.Target, what).
		WithHint("a scenario with a ramp, steady phases and a drain: muster load show sensu-4000x8x5s")
}

// NewGenerator makes what a check says that a class of a scenario holds, the same as Muster's
// agents would.
func NewGenerator(sc *scenario.Scenario, class int, check *scenario.Check) Generator {
	return newGenerator(sc.Seed^uint64(class)<<48, check)
}
