package scenario

import (
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// sizedWarmup is the longest warm-up of a sized run.
const sizedWarmup = model.Duration(time.Minute)

// SizedLatency is the limit of the latency of a sized run without one.
const SizedLatency = Limit("500ms")

// Sized returns the scenario for sizing: so many times its agents, each as before, measured in one steady phase without
// faults and changes of intent.
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
