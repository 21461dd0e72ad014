package scenario

import (
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// moveFaults puts those of phases to the scenario's own, whose times count from the beginning of
// the measurement. What lasts until the end, lasts until that of its phase there.
func (s *Scenario) moveFaults() {
	for i := range s.Phases {
		p := &s.Phases[i]
		for _, f := range p.Faults {
			if f.For == 0 && (f.Stop != nil || f.Hang != nil || f.Fail != nil || f.Wrong != nil) {
				f.For = p.Length() - p.Warmup - f.At
			}
			f.At += s.begins(i)
			s.Faults = append(s.Faults, f)
		}
		p.Faults = nil
	}
}

// begins is when phase i begins, after its warm-up, since the measurement began.
func (s *Scenario) begins(i int) (at model.Duration) {
	first := true
	for k := range s.Phases[:i+1] {
		p := &s.Phases[k]
		if !p.Measured() {
			continue
		}
		if first {
			at, first = -p.Warmup, false
		}
		if k < i {
			at += p.Whole()
		}
	}
	return at + s.Phases[i].Warmup
}

// moved is when something happens in a scenario whose phases are shorter or longer now: at the
// same place of the same phase, which began then and begins now at these times.
func moved(at model.Duration, then, now []model.Duration) model.Duration {
	for i := 1; i < len(then); i++ {
		if at <= then[i] && then[i] > then[i-1] {
			return round(float64(now[i-1]) + float64(at-then[i-1])*float64(now[i]-now[i-1])/float64(then[i]-then[i-1]))
		}
	}
	return now[len(now)-1]
}

// edgesOf are the beginnings of the measured phases, and the end of the last.
func (s *Scenario) edgesOf() (list []model.Duration) {
	for i := range s.Phases {
		if p := &s.Phases[i]; p.Measured() {
			list = append(list, s.begins(i)-p.Warmup)
		}
	}
	if len(list) > 0 {
		list[0] = 0
	}
	return append(list, s.end())
}

// allFaults are the scenario's, and those of its phases.
func (s *Scenario) allFaults() []Fault {
	list := slices.Clone(s.Faults)
	for i := range s.Phases {
		list = append(list, s.Phases[i].Faults...)
	}
	return list
}

// strikes says whether anything goes wrong in phase i: it may say so, or the scenario, as one does
// that was filled in.
func (s *Scenario) strikes(i int) bool {
	begin := s.begins(i)
	return len(s.Phases[i].Faults) > 0 ||
		slices.ContainsFunc(s.Faults, func(f Fault) bool { return f.At >= begin && f.At < begin+s.Phases[i].Length() })
}

// PhaseFigures are those that an objective of one phase can be set for.
func PhaseFigures() []string {
	return []string{"rate", "held", "p50", "p99", "p999", "max", "beyond-p50", "beyond-p99", "machine", "server-cpu", "loader-cpu", "cpu-ratio",
		"detect", "clear", "back", "back-serving", "serving", "acknowledging", "holds-p99", "list-p99", "apply-p99", "silence-p99", "watch-p99", "history-behind"}
}

// ofPhase checks the faults and objectives of one.
func (v *checker) ofPhase(at string, i int) {
	p := &v.Phases[i]
	kind := p.Kind()
	if len(p.Faults) > 0 && !slices.Contains([]string{"steady", "soak", "fault"}, kind) {
		v.flaw(at+".faults", "", "faults are of fault, steady and soak, not of %s", kind)
	} else if len(p.Faults) > 0 && slices.ContainsFunc(v.Phases[:i], func(p Phase) bool { return p.Step > 0 }) {
		v.flaw(at+".faults", "put the phase before the steps", "steps end when one breaks: nobody knows when this phase begins")
	}
	if kind == "fault" && !v.strikes(i) {
		v.absent(at+".faults", "write faults: [{at: 10s, for: 60s, stop: {count: 10}}]", "nothing goes wrong in it")
	}
	for j := range p.Faults {
		v.fault(fmt.Sprintf("%s.faults[%d]", at, j), &p.Faults[j], p.Length()-p.Warmup, "the phase")
	}
	if len(p.Objectives) > 0 && !slices.Contains([]string{"steady", "soak", "fault"}, kind) {
		v.flaw(at+".objectives", "", "objectives are of fault, steady and soak, not of %s", kind)
	}
	v.limits(at+".objectives", p.Objectives, PhaseFigures())
}
