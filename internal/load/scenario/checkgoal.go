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

// without says what to write so that there is what a figure needs; empty: it is there.
func (v *checker) without(need string) string {
	switch need {
	case "step":
		if !slices.ContainsFunc(v.Phases, func(p Phase) bool { return p.Step > 0 }) {
			return "write a phase step: 30s"
		}
	case "settle":
		if !slices.ContainsFunc(v.Phases, func(p Phase) bool { return p.Settle > 0 }) {
			return "write settle: 30s in a steady phase"
		}
	case "faults":
		if !slices.ContainsFunc(v.allFaults(), func(f Fault) bool { return f.Stop != nil || f.Fail != nil }) {
			return "write faults: [{at: 60s, for: 60s, stop: {count: 10}}], or fail"
		}
	case "outage":
		if !slices.ContainsFunc(v.allFaults(), func(f Fault) bool { return f.Cut != nil || f.Server != "" || f.Run != "" }) {
			return "write faults: [{at: 60s, cut: {}}], or server"
		}
	case "restart":
		if !slices.ContainsFunc(v.allFaults(), func(f Fault) bool { return f.Server == "restart" || f.Server == "kill" || f.Run != "" }) {
			return "write faults: [{at: 60s, server: kill}]"
		}
	case "turns":
		if !v.Turns() {
			return "write a check with roundRobin: true, and faults: [{at: 60s, for: 60s, hang: {count: 2}}], or stop"
		}
	case "intent":
		if len(v.Intent) == 0 {
			return "write intent: [{at: 60s, create: 5, kind: check}]"
		}
	case "lists":
		if v.Operators.Lists == 0 {
			return "write operators: {lists: 5}"
		}
	case "applies":
		if v.Operators.Applies == "" {
			return "write operators: {applies: 10/min}"
		}
	case "silences":
		if v.Operators.Silences == "" {
			return "write operators: {silences: 10/min}"
		}
	case "runs":
		if v.Operators.Runs == "" {
			return "write operators: {runs: 10/min}"
		}
	case "facts":
		if v.Operators.Facts == "" {
			return "write operators: {facts: 10/min}"
		}
	case "alerts":
		if !v.HasAlerts() {
			return "write alert: handler at a check, or alert: route"
		}
	case "stream":
		if v.Stream == nil {
			return "write stream: {connections: 100}"
		}
	case "watches":
		if v.Operators.Watches == 0 {
			return "write operators: {watches: 5}"
		}
	}
	return ""
}
