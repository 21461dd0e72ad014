package scenario

import (
	"maps"
	"slices"
)

// objectives checks that each is of a figure, in its unit, and that this scenario has it.
func (v *checker) objectives() {
	var names []string
	for _, f := range Figures() {
		names = append(names, f.Name)
	}
	v.limits("objectives", v.Objectives, names)
}

// limits checks objectives that may be of some figures.
func (v *checker) limits(field string, limits map[string]Limit, names []string) {
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		at := field + "." + name
		if name == "loss" {
			if limits[name] != "0" {
				v.flaw(at, "write 0, or leave it out", "any loss fails the run")
			}
			continue
		}
		if !v.oneOf(at, "figure", name, names) {
			continue
		}
		f, _ := FigureOf(name)
		if _, err := limits[name].In(f.Unit); err != nil {
			v.flaw(at, "", "%v", err)
		}
		if hint := v.without(f.Needs); hint != "" {
			v.flaw(at, hint, "nothing in this scenario makes it")
		}
	}
}

// without returns a hint where the scenario lacks the cause of a figure; empty: it has one.
func (v *checker) without(need string) string {
	phase := func(f func(p Phase) bool) bool { return slices.ContainsFunc(v.Phases, f) }
	fault := func(f func(f Fault) bool) bool { return slices.ContainsFunc(v.allFaults(), f) }
	o := v.Operators
	cause, known := map[string]struct {
		there bool
		hint  string
	}{
		"step":     {phase(func(p Phase) bool { return p.Step > 0 }), "write a phase step: 30s"},
		"settle":   {phase(func(p Phase) bool { return p.Settle > 0 }), "write settle: 30s in a steady phase"},
		"faults":   {fault(func(f Fault) bool { return f.Stop != nil || f.Fail != nil }), "write faults: [{at: 60s, for: 60s, stop: {count: 10}}], or fail"},
		"outage":   {fault(func(f Fault) bool { return f.Cut != nil || f.Server != "" || f.Run != "" }), "write faults: [{at: 60s, cut: {}}], or server"},
		"restart":  {fault(func(f Fault) bool { return f.Server == "restart" || f.Server == "kill" || f.Run != "" }), "write faults: [{at: 60s, server: kill}]"},
		"turns":    {v.Turns(), "write a check with roundRobin: true, and faults: [{at: 60s, for: 60s, hang: {count: 2}}], or stop"},
		"intent":   {len(v.Intent) > 0, "write intent: [{at: 60s, create: 5, kind: check}]"},
		"lists":    {o.Lists > 0, "write operators: {lists: 5}"},
		"applies":  {o.Applies != "", "write operators: {applies: 10/min}"},
		"silences": {o.Silences != "", "write operators: {silences: 10/min}"},
		"runs":     {o.Runs != "", "write operators: {runs: 10/min}"},
		"facts":    {o.Facts != "", "write operators: {facts: 10/min}"},
		"watches":  {o.Watches > 0, "write operators: {watches: 5}"},
		"alerts":   {v.HasAlerts(), "write alert: handler at a check, or alert: route"},
		"stream":   {v.Stream != nil, "write stream: {connections: 100}"},
	}[need]
	if !known || cause.there {
		return ""
	}
	return cause.hint
}
