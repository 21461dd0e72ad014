package compare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// settings returns the properties of a run that should be equal in all runs, by their paths in run.json. An absent value is
// unknown.
func settings(r *report.Report) map[string]string {
	all := map[string]string{"loaders": strconv.Itoa(max(1, len(r.Loaders))), "loader build": loaderBuild(r), "target": "muster", "stopped": "no", "label": cmp.Or(strings.Join(r.Label, ", "), "none")}
	if r.Targeted != nil {
		all["target"] = strings.TrimSpace(r.Targeted.Name + " " + r.Targeted.Version)
	}
	if r.Stopped != nil {
		all["stopped"] = r.Stopped.String()
	}
	m := r.Machine
	m.Load, m.Memory = "", (m.Memory+1<<29)>>30<<30 // the kernel keeps some pages more or less
	flatten(all, "machine", m)
	if e := r.Environment; e != nil {
		here := *e
		here.Fsync, here.Server, here.Packages = report.Latency{}, nil, nil
		flatten(all, "environment", here)
		if e.Server["program"] != "" {
			all["environment.server.flags"] = cmp.Or(e.Server["flags"], "none")
		}
	}
	var parts map[string]json.RawMessage
	if r.Scenario != nil {
		s := *r.Scenario
		s.Scale = 0                            // a label
		_ = json.Unmarshal(s.Played(), &parts) // of Marshal
	}
	for f := range reflect.TypeFor[scenario.Scenario]().Fields() {
		name := document.JSONName(f)
		all[ofScenario+name] = cmp.Or(string(parts[name]), "absent")
	}
	return all
}

// ofScenario begins the names of the scenario's fields. Words and objectives change nothing.
const ofScenario = "scenario."

// flatten adds the JSON fields of a value by their paths, without those that are zero.
func flatten(into map[string]string, path string, value any) {
	data, _ := json.Marshal(value) // of strings and numbers alone
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		var text string
		if json.Unmarshal(data, &text) != nil {
			text = string(data)
		}
		into[path] = text
		return
	}
	for name, field := range fields {
		flatten(into, path+"."+name, field)
	}
}

// differences returns reasons to doubt the comparison.
func differences(base, other Set) (list []string) {
	of, names := map[*report.Report]map[string]string{}, map[string]bool{}
	for _, r := range slices.Concat(base.Runs, other.Runs) {
		of[r] = settings(r)
		for name := range of[r] {
			names[name] = true
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		value := func(r *report.Report) string { return of[r][name] }
		x, y := unique(base.Runs, value), unique(other.Runs, value)
		part, inScenario := strings.CutPrefix(name, ofScenario)
		switch {
		case len(x) == 0 || len(y) == 0 || len(x) == 1 && slices.Equal(x, y):
		case inScenario:
			parts = append(parts, part)
		default:
			both := fmt.Sprintf("%s: %s; %s: %s", base.Name, strings.Join(x, ", "), other.Name, strings.Join(y, ", "))
			list = append(list, fmt.Sprintf("%s differs (%s)", name, both))
		}
	}
	if len(parts) > 0 {
		list = append(list, "the scenarios differ in "+strings.Join(parts, ", "))
	}
	return append(list, conditions(base, other)...)
}

// conditions compares measurements of the machine before and during the runs, and the order of the runs.
func conditions(base, other Set) (list []string) {
	of := func(s Set, value func(*report.Report) float64) float64 {
		var values []float64
		for _, r := range s.Runs {
			values = append(values, value(r))
		}
		return summary(values).Center
	}
	fsync := func(r *report.Report) float64 { return cmp.Or(r.Environment, &report.Environment{}).Fsync.P50 }
	if x, y := of(base, fsync), of(other, fsync); min(x, y) > 0 && max(x, y) > 1.5*min(x, y) {
		list = append(list, fmt.Sprintf("an fsync before the runs differs (%s: %.2f; %s: %.2f ms)", base.Name, x, other.Name, y))
	}
	others := func(r *report.Report) float64 { return r.Others / float64(max(1, r.Machine.Cores)) }
	if x, y := of(base, others), of(other, others); max(x, y) > 0.05 {
		list = append(list, fmt.Sprintf("other programs used the machine during the runs (%s: %.0f; %s: %.0f %%)", base.Name, 100*x, other.Name, 100*y))
	}
	byTime := func(a, b *report.Report) int { return a.Began.Compare(b.Began) }
	for _, s := range [][2]Set{{base, other}, {other, base}} {
		a, b := s[0].Runs, s[1].Runs
		if len(a) > 0 && len(b) > 0 && len(a)+len(b) > 2 && slices.MaxFunc(a, byTime).Began.Before(slices.MinFunc(b, byTime).Began) {
			list = append(list, fmt.Sprintf("all runs of %s came before those of %s: --interleave alternates", s[0].Name, s[1].Name))
		}
	}
	return list
}

// unique returns the different values of the runs that have one, in the order of the runs.
func unique(runs []*report.Report, of func(*report.Report) string) (list []string) {
	for _, r := range runs {
		if v := of(r); v != "" && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// loaderBuild returns the version of the loader.
func loaderBuild(r *report.Report) string { return shortCommit(cmp.Or(r.Commit, r.Version), r.Dirty) }

// build returns the version of the server, which may differ from the loader's.
func build(r *report.Report) string {
	if r.Environment != nil && r.Environment.Server["commit"] != "" {
		hash, changes := strings.CutSuffix(r.Environment.Server["commit"], " with changes")
		return shortCommit(hash, changes)
	}
	if r.Targeted != nil {
		return r.Targeted.Version
	}
	return loaderBuild(r)
}

// shortCommit abbreviates a commit.
func shortCommit(hash string, dirty bool) string {
	hash = hash[:min(len(hash), 10)]
	if dirty && hash != "" {
		hash += "+changes"
	}
	return hash
}
