package load

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Target is a system other than Muster that keeps the time itself: it asks its agents for results, and they
// answer. RunTarget calls its methods one after the other, in this order, but for Totals.
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
	Totals() report.Totals
	// Compare asks the system what it holds, with the agents at rest, and tells differ of
	// each state that is not as the agents left it. kept results are there.
	Compare(ctx context.Context, differ func(i report.Imbalance, problem string)) (states int, kept uint64, err error)
	// Clean removes what Prepare made and would go on by itself.
	Clean(ctx context.Context) error
}

// TargetAgent is one simulated agent.
type TargetAgent interface {
	Run(ctx context.Context) // connects, and comes back by itself, until ctx ends
	Rest()                   // stays connected; makes no more results
	Trouble() error          // why it is not connected; nil: it is, or nothing went wrong
}

// Found is a target that runs, and what is said of it.
type Found struct {
	Target  Target
	Hosts   []string // host:port of each address that agents connect to
	System  string   // before the version in a title
	Program string   // whose version it is
}

// Observed is one result that has left.
type Observed struct {
	Intended time.Time // when it was meant to be made: when the system asked for it
	Due      time.Time // when the agent knew of that
	Left     time.Time // when its connection had taken it whole
}

// whatever are the objectives that mean the same whatever the target: the others are
// about acknowledgements, or about what only Muster says of itself.
func whatever(figure string) bool {
	return slices.Contains([]string{"rate", "connect", "machine", "server-cpu", "loader-memory"}, figure)
}

// TargetPlays says what of a scenario RunTarget cannot play against a system: nil, or an
// Unsupported error.
func TargetPlays(sc *scenario.Scenario, t Target) error {
	plays := []string{"results", "keepalives", "output-sizes", "tls", "fleet-of-servers"} // the addresses decide about TLS, and there may be several
	return sc.Refused(plays, "target "+t.Name(), "the system under test keeps the time, and its agents only answer", "a scenario with a ramp, steady phases and a drain: muster load show sensu-4000x8x5s")
}

// leaveOut takes away the goals that have no figure where what is loaded is no whole server, and
// says so.
func (c *Config) leaveOut(measured func(figure string) bool, against string) (labels []string) {
	var left []string
	c.Goals = slices.DeleteFunc(slices.Clone(c.Goals), func(g report.Goal) bool {
		if measured(g.Name) {
			return false
		}
		left = append(left, g.Name)
		return true
	})
	if slices.Sort(left); len(left) > 0 {
		labels = []string{fmt.Sprintf("not measured against %s, and not judged: %s", against, strings.Join(slices.Compact(left), ", "))}
	}
	return labels
}
