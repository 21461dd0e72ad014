package scenario

import (
	"cmp"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/model"
)

// UniformClass names the class of a uniform fleet, its group and its checks.
const UniformClass = "load"

// Uniform describes a fleet of equal agents, of which muster load new makes a scenario. Zero fields get the default
// beside them.
type Uniform struct {
	Agents      int           // default 100
	Checks      int           // of each agent; default 40
	Interval    time.Duration // of every check; default 5 s
	Rate        float64       // results per second of all agents, in place of Interval
	PerFrame    int           // results that fill a frame; 0: a frame leaves when its linger is over
	Linger      time.Duration // default 500 ms, as agents do
	OutputBytes int           // of each result; default 100
	Changes     float64       // share of results that change the status
	Warmup      time.Duration // 0: everything counts
	Steady      time.Duration // measured; default a minute
	Drain       time.Duration // default 30 s
	TLS         bool          // mutual
	Seed        uint64
}

// Scenario returns a scenario with the nodes load-00000 and up, and the checks load-000 and up.
func (u Uniform) Scenario() *Scenario {
	agents, checks, interval := cmp.Or(u.Agents, 100), cmp.Or(u.Checks, 40), cmp.Or(u.Interval, 5*time.Second)
	if u.Rate > 0 {
		interval = time.Duration(float64(agents*checks) / u.Rate * float64(time.Second))
	}
	check := Check{Name: UniformClass, Count: checks, Interval: model.Duration(interval), Changes: u.Changes, Output: Output{Bytes: model.Size(u.OutputBytes)}}
	steady := Phase{Steady: model.Duration(u.Warmup + cmp.Or(u.Steady, time.Minute)), Warmup: model.Duration(u.Warmup)}
	return &Scenario{Scenario: Version, Name: UniformClass, Title: fmt.Sprintf("%s agents with %d checks every %s", number.Count(agents), checks, model.Duration(interval)), Seed: u.Seed,
		Agents: []Class{{Name: UniformClass, Count: agents, TLS: u.TLS, Linger: model.Duration(cmp.Or(u.Linger, 500*time.Millisecond)), PerFrame: u.PerFrame}},
		Checks: []GroupCheck{{Check: check, Groups: []string{UniformClass}}},
		Phases: []Phase{steady, {Drain: model.Duration(cmp.Or(u.Drain, 30*time.Second))}}}
}
