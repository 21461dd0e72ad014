package scenario

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/model"
)

const (
	minInterval = model.Duration(time.Second)
	maxTime     = model.Duration(366 * 24 * time.Hour)
	maxSteps    = 1000
	maxFaster   = 100 // times as fast
)

// phases checks the timetable.
func (v *checker) phases() {
	measured := 0
	for i := range v.Phases {
		p, at := &v.Phases[i], fmt.Sprintf("phases[%d]", i)
		switch set := p.kinds(); {
		case len(set) == 0:
			v.lacks(true, at, "write one of ramp, steady, step, fault, drain with its length: steady: 10m", "the phase has no kind")
		case len(set) > 1:
			v.flaw(at, "one line for each: they follow each other", "both %s", strings.Join(set, " and "))
		case p.Length() > 0:
			if p.Measured() && p.Fault == 0 {
				measured++
			}
			v.phase(at, i)
		}
	}
	v.lacks(len(v.Phases) == 0, "phases", "write phases: [{ramp: 10s}, {steady: 10m}, {drain: 30s}]", "missing")
	v.lacks(len(v.Phases) > 0 && measured == 0, "phases", "write steady: 10m", "none of them is measured")
}

// phase checks the fields of phase i.
func (v *checker) phase(at string, i int) {
	p, kind := &v.Phases[i], v.Phases[i].Kind()
	steps := func(p Phase) bool { return p.Step > 0 }
	foreign := map[string]bool{}
	for f, value := range reflect.ValueOf(p).Elem().Fields() {
		name, kinds := document.JSONName(f), strings.Fields(f.Tag.Get("of"))
		foreign[name] = len(kinds) > 0 && !value.IsZero() && !slices.Contains(kinds, kind)
		v.when(foreign[name], at+"."+name, "", "%s belongs to %s, not to %s", name, strings.Join(kinds, ", "), kind)
	}
	v.when(i > 0 && kind == "ramp", at+".ramp", "put it first", "the agents connect once, at the beginning")
	v.when(i < len(v.Phases)-1 && kind == "drain", at+".drain", "put it last", "nothing is sent any more after it")
	if p.Step > 0 {
		v.steps(at, p)
	}
	v.faster(at, p)
	v.when(p.Of == Saturation && !foreign["of"] && !slices.ContainsFunc(v.Phases[:i], steps), at+".of", "put a phase like {step: 15s, rate: 0.5, grow: 0.15} before it", "no steps before it find the saturation")
	v.when(p.Settle > p.Length() || p.Settle < 0, at+".settle", "", "want at most the length of the phase, %s, not %s", p.Length(), p.Settle)
	v.when(p.Settle > 0 && (i < 2 || !v.Phases[i-1].Measured() || !v.Phases[i-2].Measured()), at+".settle", "put two steady phases before it: one as usual, then one at another rate", "there are no two phases before it to compare with")
	v.when(p.Warmup < 0 || p.Warmup > 0 && p.Warmup >= p.Length(), at+".warmup", "", "want less than the length of the phase, %s, not %s", p.Length(), p.Warmup)
	v.when(len(p.Faults) > 0 && !foreign["faults"] && slices.ContainsFunc(v.Phases[:i], steps), at+".faults", "put the phase before the steps", "steps end when one breaks: the beginning of this phase is unknown")
	v.lacks(kind == "fault" && !v.strikes(i), at+".faults", "write faults: [{at: 10s, for: 60s, stop: {count: 10}}]", "the phase has no faults")
	for j := range p.Faults {
		v.fault(fmt.Sprintf("%s.faults[%d]", at, j), &p.Faults[j], p.Length()-p.Warmup, "the phase")
	}
	v.limits(at+".objectives", p.Objectives, true)
	if v.Turns() {
		const server, keep = "the server says when checks with roundRobin run, as their interval says: no phase makes that faster", "leave it out"
		v.when(p.Step > 0, at+".step", "write steady, and more or fewer proxies", server)
		v.when(p.Step == 0 && (p.Of != "" || p.Rate != 0 && p.Rate != 1 || p.Faster[Results] != 0), at+".rate", keep, server)
	}
}

// steps checks the rates of steps.
func (v *checker) steps(at string, p *Phase) {
	rate, by, to := p.steps()
	v.when(to < rate, at+".to", "", "the last step, %v, is below the first, %v", to, rate)
	v.when(p.Grow != 0 && p.By != 0, at+".grow", "leave one of them out", "both by and grow")
	v.when(p.Grow >= 0.01 && len(p.Rates()) > maxSteps, at+".grow", "", "more than %d steps", maxSteps)
	v.when(p.Grow == 0 && (to-rate)/by > maxSteps, at+".by", "", "more than %d steps", maxSteps)
}

// faster checks the pipelines that a phase speeds up.
func (v *checker) faster(at string, p *Phase) {
	for _, name := range slices.Sorted(maps.Keys(p.Faster)) {
		field, times := at+".faster."+name, p.Faster[name]
		if !(times > 1 && times <= maxFaster) {
			v.flaw(field, "4 is four times as fast", "want more than 1, at most %d, not %v", maxFaster, times)
			continue
		}
		switch name {
		case Results:
			v.when(p.Rate != 0, field, "keep one of them", "both rate and results")
		case People:
			v.when(!v.Operators.timed(), field, "write operators: {lists: 4}, or applies, silences, runs or facts", "no user has a timetable")
		case Intent:
			v.when(!slices.ContainsFunc(v.Scenario.Intent, func(c Change) bool { return c.Every > 0 }), field, "write intent: [{at: 5s, every: 10s, change: 3, kind: check}]", "no change has every")
		case Alerts:
			v.when(times != math.Trunc(times), field, "", "want a whole number, not %v", times)
			found := false
			for _, k := range v.Placed() {
				found = found || k.Alert != "" && k.Changes > 0
				v.when(k.Alert != "" && k.Changes*times > 1, field, "make changes of the check less",
					"check %s changes with %v of its results: %v times as many are more than all", k.Name, k.Changes, times)
			}
			v.when(!found, field, "write alert: handler and changes: 0.01 at a check", "there are no alerts")
		}
	}
}

// fault checks a fault, whose times count from the beginning of a span that lasts until end.
func (v *checker) fault(at string, f *Fault, end model.Duration, span string) {
	v.moment(at+".at", f.At, end, span)
	v.when(f.For > 0 && end > 0 && f.At < end && f.At+f.For > end, at+".for", "leave it out for until the end", "it ends %s after the end of %s", f.At+f.For-end, span)
	set := f.strikes()
	if len(set) != 1 {
		var kinds []string
		for _, x := range set {
			kinds = append(kinds, x.kind)
		}
		v.lacks(len(set) == 0, at, "write one of stop, hang, cut, fail, wrong, server", "the fault has no kind")
		v.when(len(set) > 1, at, "one entry for each", "both %s", strings.Join(kinds, " and "))
		return
	}
	if x := set[0]; f.Fail != nil {
		v.failCheck(at+".fail", f.Fail)
	} else if x.pick != nil {
		v.pick(at+"."+x.kind, x.pick, v.nodesOf(x.pick))
	}
	v.lacks(f.For == 0 && f.Server == "stop", at, "write for: 10s", "the server would stay stopped")
	atOnce := f.Cut != nil || f.Server == "restart" || f.Server == "kill"
	v.when(f.For > 0 && atOnce, at+".for", "leave it out", "%s is over when it is done", set[0].kind)
}

// moment checks a time within a span that lasts until end.
func (v *checker) moment(field string, at, end model.Duration, span string) {
	v.when(at < 0 || end > 0 && at >= end, field, fmt.Sprintf("%s lasts %s", span, end), "%s is beyond the end", at)
}

// pick checks a choice among so many.
func (v *checker) pick(at string, p *Pick, most int) {
	v.when(p.Class != "" && p.Group != "", at, "keep one of them", "both class and group")
	v.when(p.Count < 0 || p.Count > most && most > 0, at+".count", "", "want 1 to %d, not %d", most, p.Count)
	v.when(p.Count != 0 && p.Share != 0, at, "keep one of them", "both count and share")
	if p.Within == "" {
		return
	}
	labels := map[string]bool{"class": true, "rack": true, "site": true}
	for i := range v.Agents {
		if c := &v.Agents[i]; p.Of(c) {
			for name := range c.Labels {
				labels[name] = true
			}
		}
	}
	v.oneOf(at+".within", "a label", p.Within, slices.Sorted(maps.Keys(labels)))
}

// failCheck checks a fault that lets checks fail.
func (v *checker) failCheck(at string, f *FailCheck) {
	if k := v.failed(f); k != nil && k.Proxy != nil {
		v.when(f.Within != "", at+".within", "leave it out", "the check is about proxy nodes: count or share alone choose them")
		p := f.Pick
		p.Within = ""
		v.pick(at, &p, v.Things(k))
	} else {
		v.pick(at, &f.Pick, v.nodesOf(&f.Pick))
	}
	status, known := model.ParseStatus(f.Status)
	v.when(known && status == model.OK, at+".status", "one of warning, critical, unknown", "OK is no failure")
	if f.Check == "" || v.nodesOf(&f.Pick) == 0 {
		return
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
		v.oneOf(at+".check", "a check", f.Check, shortList(names))
	}
}

// directiveInterval returns the interval of the directives; zero: there are none.
func (s *Scenario) directiveInterval() (d model.Duration) {
	for i := range s.Agents {
		for _, p := range s.Agents[i].Policies {
			d = max(d, p.Interval)
		}
	}
	return d
}

// intent checks the changes of intent.
func (v *checker) intent() {
	for i := range v.Intent {
		c, at := &v.Intent[i], fmt.Sprintf("intent[%d]", i)
		v.moment(at+".at", c.At, v.end(), "the measurement")
		v.lacks(c.Create == 0 && c.Change == 0 && c.Delete == 0, at, "write create: 5, change: 5 or delete: 5", "the change is empty")
		v.when(c.Class != "" && c.Group != "", at, "keep one of them", "both class and group")
		v.when(c.Kind == "directive" && (v.ComponentRate() == 0 || c.Change != 1 || c.Create+c.Delete > 0),
			at+".kind", "write change: 1 in a scenario with policies", "a directive of the policies is changed, alone")
		if last := v.end() - 2*v.directiveInterval(); c.Kind == "directive" && v.end() > 0 {
			v.when(c.At > last && c.At < v.end(), at+".at", fmt.Sprintf("write at most %s, or longer phases", max(0, last)), "a directive is not changed in the last two of its intervals")
		}
	}
}
