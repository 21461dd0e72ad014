package scenario

import (
	"math"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// FewAnswers are fewer than what says whether a pipeline is starved.
const FewAnswers = 20

// answering is how long a measured phase of a quick run lasts at least, where phases speed pipelines up: as long as the
// slowest of the operators' timetables needs for so many answers that it can be judged beside the others, and a tenth
// more, for the last ones are on their way when a phase ends; beside its warm-up, a sixth. Zero: nothing is compared so.
func (s *Scenario) answering() model.Duration {
	o := s.Operators
	if !slices.ContainsFunc(s.Phases, func(p Phase) bool { return len(p.Faster) > 0 }) {
		return 0
	}
	slowest := math.Inf(1)
	for _, r := range []Rate{o.Applies, o.Runs, o.Facts, o.Silences} {
		if rate := r.PerSecond(s.Nodes("")); rate > 0 {
			slowest = min(slowest, rate)
		}
	}
	if math.IsInf(slowest, 1) {
		return 0
	}
	return model.Duration(math.Ceil(1.1*1.2*FewAnswers/slowest) * 1e9)
}
