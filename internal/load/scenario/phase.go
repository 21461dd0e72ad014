package scenario

import (
	"cmp"
	"math"

	"github.com/muster-fleet/muster/internal/model"
)

// said are the fields of a phase that say what happens in it; a checked phase has one.
func (p *Phase) said() (names []string) {
	for _, f := range [...]struct {
		name string
		d    model.Duration
	}{{"ramp", p.Ramp}, {"steady", p.Steady}, {"step", p.Step}, {"soak", p.Soak}, {"fault", p.Fault}, {"drain", p.Drain}} {
		if f.d != 0 {
			names = append(names, f.name)
		}
	}
	return names
}

// Kind is ramp, steady, step, soak, fault or drain; empty where it is not exactly one of them.
func (p *Phase) Kind() string {
	if said := p.said(); len(said) == 1 {
		return said[0]
	}
	return ""
}

// Length is how long it lasts; of steps: each of them.
func (p *Phase) Length() model.Duration {
	return cmp.Or(p.Ramp, p.Steady, p.Step, p.Soak, p.Fault, p.Drain)
}

// length is where Length is kept.
func (p *Phase) length() *model.Duration {
	for _, d := range []*model.Duration{&p.Ramp, &p.Steady, &p.Step, &p.Soak, &p.Fault} {
		if *d != 0 {
			return d
		}
	}
	return &p.Drain
}

// Whole is how long it lasts at most, with all of its steps.
func (p *Phase) Whole() model.Duration {
	return p.Length() * model.Duration(len(p.Rates()))
}

// Measured says whether its figures count.
func (p *Phase) Measured() bool { return p.Steady != 0 || p.Step != 0 || p.Soak != 0 || p.Fault != 0 }

// Saturation is what a phase's rate may be of, instead of the scenario's own.
const Saturation = "saturation"

// Beyond says whether it asks for more than what held before it: it is meant to break.
func (p *Phase) Beyond() bool { return p.Of == Saturation && p.Rate > 1 }

// Returns says whether phase i has to settle after one that was meant to break.
func (s *Scenario) Returns(i int) bool {
	return s.Phases[i].Settle > 0 && i > 0 && s.Phases[i-1].Beyond()
}

// steps are where its rates begin, how much is added (0: they grow by a share) and where they end.
func (p *Phase) steps() (rate, by, to float64) {
	if by = cmp.Or(p.By, 0.1); p.Grow > 0 {
		by = 0
	}
	return cmp.Or(p.Rate, 1), by, cmp.Or(p.To, 10)
}

// Rates are those that it plays one after the other: one, or those of its steps. They are
// of the scenario's own, where Of does not say otherwise.
func (p *Phase) Rates() []float64 {
	rate, by, to := p.steps()
	if p.Step == 0 {
		return []float64{rate}
	}
	var list []float64
	for i := range maxSteps + 1 {
		next := rate + float64(i)*by
		if p.Grow > 0 {
			next = rate * math.Pow(1+p.Grow, float64(i))
		}
		if next > to+1e-9 || by <= 0 && p.Grow <= 0 {
			break
		}
		list = append(list, math.Round(next*1e6)/1e6)
	}
	return list
}

// said are the fields of a fault that say what it is; a checked fault has one.
func (f *Fault) said() (names []string) {
	for _, k := range [...]struct {
		name string
		set  bool
	}{{"stop", f.Stop != nil}, {"hang", f.Hang != nil}, {"cut", f.Cut != nil}, {"fail", f.Fail != nil}, {"wrong", f.Wrong != nil}, {"server", f.Server != ""}, {"run", f.Run != ""}} {
		if k.set {
			names = append(names, k.name)
		}
	}
	return names
}
