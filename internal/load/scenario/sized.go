package scenario

import (
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// sizedWarmup is how long a sized run warms up at most, and not longer than it measures.
const sizedWarmup = model.Duration(time.Minute)

// SizedLatency is what a sized run asks for where the scenario asks for no latency.
const SizedLatency = Limit("500ms")

// Sized is the scenario as a question of size: so many times its agents, each as before,
// measured for a time in which nothing is done to them on purpose: no faults, no changes of
// intent, one steady stretch.
func (s *Scenario) Sized(factor float64, measured time.Duration) *Scenario {
	out := s.Scaled(factor)
	longest := model.Duration(0)
	for i := range out.Agents {
		for _, k := range out.Held(&out.Agents[i]) {
			longest = max(longest, k.Interval)
		}
	}
	warmup := max(model.Duration(time.Second), min(longest, model.Duration(measured), sizedWarmup))
	out.Faults, out.Intent = nil, nil
	out.Phases = []Phase{{Name: "ramp", Ramp: out.ramp()}, {Name: "steady", Steady: model.Duration(measured) + warmup, Warmup: warmup, Rate: 1},
		{Name: "drain", Drain: model.Duration(30 * time.Second)}}
	latency := false
	for name := range out.Objectives {
		f, _ := FigureOf(name)
		if slices.Contains([]string{"faults", "restart", "outage", "intent", "step", "settle"}, f.Needs) {
			delete(out.Objectives, name)
		}
		latency = latency || name == "p99" || name == "beyond-p99"
	}
	if !latency {
		if out.Objectives == nil {
			out.Objectives = map[string]Limit{}
		}
		out.Objectives["beyond-p99"] = SizedLatency
	}
	return out
}
