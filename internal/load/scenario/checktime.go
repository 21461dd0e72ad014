package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// phases checks what happens when.
func (v *checker) phases() {
	if len(v.Phases) == 0 {
		v.absent("phases", "write phases: [{ramp: 10s}, {steady: 10m}, {drain: 30s}]", "missing")
		return
	}
	measured := 0
	for i := range v.Phases {
		p, at := &v.Phases[i], fmt.Sprintf("phases[%d]", i)
		kind := p.Kind()
		if kind == "" {
			said := p.said()
			if len(said) == 0 {
				v.absent(at, "write one of ramp, steady, step, soak, fault, drain with how long: steady: 10m", "says nothing to do")
			} else {
				v.flaw(at, "one line for each: they follow each other", "both %s", strings.Join(said, " and "))
			}
			continue
		}
		v.between(at+"."+kind, p.Length(), 1e8, maxTime)
		if p.Length() < 0 {
			continue
		}
		if p.Measured() && p.Fault == 0 {
			measured++
		}
		v.ofPhase(at, i)
		if i > 0 && kind == "ramp" {
			v.flaw(at+".ramp", "put it first", "the agents connect once, at the beginning")
		}
		if i < len(v.Phases)-1 && kind == "drain" {
			v.flaw(at+".drain", "put it last", "nothing is sent any more after it")
		}
		only := func(field string, set bool, kinds ...string) {
			if set && !slices.Contains(kinds, kind) {
				v.flaw(at+"."+field, "", "%s is of %s, not of %s", field, strings.Join(kinds, " and "), kind)
			}
		}
		only("rate", p.Rate != 0, "steady", "step", "soak", "fault")
		only("faster", len(p.Faster) > 0, "steady", "soak")
		only("of", p.Of != "", "steady", "soak")
		only("by", p.By != 0, "step")
		only("grow", p.Grow != 0, "step")
		only("to", p.To != 0, "step")
		only("settle", p.Settle != 0, "steady")
		only("warmup", p.Warmup != 0, "steady", "soak")
		v.rates(at, p)
		v.faster(at, p)
		if p.Of != "" && p.Step == 0 {
			v.oneOf(at+".of", "thing that a rate may be of", p.Of, []string{Saturation})
			if !slices.ContainsFunc(v.Phases[:i], func(p Phase) bool { return p.Step > 0 }) {
				v.flaw(at+".of", "put a phase like {step: 15s, rate: 0.5, by: 0.25} before it", "no steps before it find the saturation")
			}
		}
		if p.Settle > p.Length() || p.Settle < 0 {
			v.flaw(at+".settle", "", "want at most the length of the phase, %s, not %s", p.Length(), p.Settle)
		}
		if p.Settle > 0 && (i < 2 || !v.Phases[i-1].Measured() || !v.Phases[i-2].Measured()) {
			v.flaw(at+".settle", "put two steady phases before it: one as usual, then one at another rate", "as before what?")
		}
		if p.Warmup < 0 || p.Warmup > 0 && p.Warmup >= p.Length() {
			v.flaw(at+".warmup", "", "want less than the length of the phase, %s, not %s", p.Length(), p.Warmup)
		}
	}
	if measured == 0 {
		v.absent("phases", "write steady: 10m", "none of them is measured")
	}
}

func (v *checker) rates(at string, p *Phase) {
	for _, r := range [...]struct {
		field string
		rate  float64
	}{{"rate", p.Rate}, {"by", p.By}, {"to", p.To}} {
		if r.rate != 0 && (r.rate < 0.001 || r.rate > 1000) {
			v.flaw(at+"."+r.field, "1.2 is 120 % of the scenario's own rate", "want 0.001 to 1000, not %v", r.rate)
			return
		}
	}
	if p.Step > 0 {
		rate, by, to := p.steps()
		switch {
		case p.Grow != 0 && p.By != 0:
			v.flaw(at+".grow", "leave one of them out", "by says already how much is added")
		case p.Grow != 0 && !(p.Grow >= 0.01 && p.Grow <= 1e6):
			v.flaw(at+".grow", "0.15 is 15 % more with every step", "want at least 0.01, not %v", p.Grow)
		case to < rate:
			v.flaw(at+".to", "", "the last step, %v, is below the first, %v", to, rate)
		case p.Grow > 0 && len(p.Rates()) > maxSteps:
			v.flaw(at+".grow", "", "more than %d steps", maxSteps)
		case p.Grow == 0 && (to-rate)/by > maxSteps:
			v.flaw(at+".by", "", "more than %d steps", maxSteps)
		}
	}
}

// played is how long the measured phases last, warm-up and all steps.
func (s *Scenario) played() (d model.Duration) {
	for i := range s.Phases {
		if p := &s.Phases[i]; p.Measured() {
			d += p.Whole()
		}
	}
	return d
}

// first is the first of them; nil: there is none.
func (s *Scenario) first() *Phase {
	for i := range s.Phases {
		if p := &s.Phases[i]; p.Measured() {
			return p
		}
	}
	return nil
}

// end is when the last of them ends, since the measurement began.
func (s *Scenario) end() model.Duration {
	p := s.first()
	if p == nil {
		return 0
	}
	return s.played() - max(0, min(p.Warmup, p.Length()))
}

func (v *checker) moment(field string, at, end model.Duration, within string) {
	if at < 0 || end > 0 && at >= end {
		v.flaw(field, fmt.Sprintf("%s lasts %s", within, end), "%s is beyond the end", at)
	}
}

func (v *checker) faults() {
	for i := range v.Faults {
		v.fault(fmt.Sprintf("faults[%d]", i), &v.Faults[i], v.end(), "what is measured")
	}
}

// fault checks one whose times count from the beginning of what lasts until end.
func (v *checker) fault(at string, f *Fault, end model.Duration, within string) {
	v.moment(at+".at", f.At, end, within)
	v.between(at+".for", f.For, 1e8, maxTime)
	if f.For > 0 && end > 0 && f.At < end && f.At+f.For > end {
		v.flaw(at+".for", "leave it out for until the end", "it ends %s after %s", f.At+f.For-end, within)
	}
	if said := f.said(); len(said) == 0 {
		v.absent(at, "write one of stop, hang, cut, fail, wrong, server, run", "says nothing to go wrong")
		return
	} else if len(said) > 1 {
		v.flaw(at, "one entry for each", "both %s", strings.Join(said, " and "))
		return
	}
	v.pick(at+".stop", f.Stop)
	v.pick(at+".hang", f.Hang)
	v.pick(at+".cut", f.Cut)
	v.pick(at+".wrong", f.Wrong)
	if f.Fail != nil {
		v.failing(at+".fail", f.Fail)
	}
	if f.Server != "" {
		v.oneOf(at+".server", "way to treat a server", f.Server, []string{"restart", "kill", "stop"})
	}
	if f.For == 0 && f.Server == "stop" {
		v.absent(at, "write for: 10s", "a server that stays stopped")
	}
	if f.For > 0 && (f.Cut != nil || f.Run != "" || f.Server == "restart" || f.Server == "kill") {
		v.flaw(at+".for", "leave it out", "%s is over when it is done", f.said()[0])
	}
}

func (v *checker) failing(at string, f *FailCheck) {
	if k := v.failed(f); k != nil && k.Proxy != nil {
		v.failingThings(at, f, v.Things(k))
	} else {
		v.pick(at, &f.Pick)
	}
	if f.Status != "" {
		if s, ok := model.ParseStatus(f.Status); !ok {
			v.oneOf(at+".status", "status", f.Status, []string{"warning", "critical", "unknown"})
		} else if s == model.OK {
			v.flaw(at+".status", "one of warning, critical, unknown", "OK is no failure")
		}
	}
	if f.Check == "" {
		v.absent(at+".check", "write the name of a check", "missing")
		return
	}
	if v.nodesOf(&f.Pick) == 0 {
		return // said already
	}
	var names []string
	for i := range v.Agents {
		if c := &v.Agents[i]; f.Of(c) {
			for _, k := range v.Held(c) {
				if k.Count >= 0 && k.Count <= model.DefaultStatesPerNode {
					names = append(names, k.Names()...)
				}
			}
		}
	}
	if !slices.Contains(names, f.Check) {
		v.oneOf(at+".check", "check", f.Check, brief(names))
	}
}

// brief is a list that fits a message.
func brief(names []string) []string {
	if len(names) > 8 {
		return append(slices.Clone(names[:7]), names[len(names)-1])
	}
	return names
}

func (v *checker) intent() {
	for i := range v.Intent {
		c, at := &v.Intent[i], fmt.Sprintf("intent[%d]", i)
		v.moment(at+".at", c.At, v.end(), "what is measured")
		v.between(at+".every", c.Every, minInterval, maxTime)
		if c.Create == 0 && c.Change == 0 && c.Delete == 0 {
			v.absent(at, "write create: 5, change: 5 or delete: 5", "changes nothing")
		}
		for _, n := range [...]struct {
			field string
			n     int
		}{{"create", c.Create}, {"change", c.Change}, {"delete", c.Delete}} {
			v.whole(at+"."+n.field, n.n, 0, 1000)
		}
		if c.Kind == "" {
			v.absent(at+".kind", "write kind: check or kind: group", "missing")
		} else {
			v.oneOf(at+".kind", "kind to change", c.Kind, []string{"check", "group"})
		}
		v.whose(at, c.Class, c.Group)
	}
}

func (v *checker) operators() {
	o := v.Operators
	v.whole("operators.lists", o.Lists, 0, maxWatches)
	v.whole("operators.watches", o.Watches, 0, maxWatches)
	if o.Pause != "" && o.Lists == 0 {
		v.absent("operators.pages", "write lists: 5", "nobody lists")
	}
	for _, r := range [...]struct {
		field string
		rate  Rate
	}{{"pages", o.Pause}, {"applies", o.Applies}, {"silences", o.Silences}, {"runs", o.Runs}, {"facts", o.Facts}} {
		if strings.Contains(string(r.rate), "%") {
			v.flaw("operators."+r.field, "write 10/min", "%s: a share of what?", r.rate)
		}
	}
}
