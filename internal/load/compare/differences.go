package compare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/load/report"
)

// properties returns the properties of a run that should be equal in all runs, named as in run.json. Empty values are
// unknown.
func properties(r *report.Report) map[string]string {
	m := r.Machine
	m.Load = ""
	all := map[string]string{
		"plan.seed": strconv.FormatUint(r.Plan.Seed, 10), "plan.seconds": positive(r.Plan.Duration), "loaders": strconv.Itoa(max(1, len(r.Loaders))), "loader build": loaderBuild(r), "target": system(r),
		"stopped": "no", "label": cmp.Or(strings.Join(r.Label, ", "), "none"),
	}
	if r.Stopped != nil {
		all["stopped"] = r.Stopped.String()
	}
	flatten(all, "machine", m)
	all["machine.memory"] = "" // the kernel keeps some pages more or less
	if m.Memory > 0 {
		all["machine.memory"] = fmt.Sprintf("%.0f GiB", float64(m.Memory)/(1<<30))
	}
	if e := r.Environment; e != nil {
		here := *e
		here.Fsync, here.Server, here.Packages = report.Latency{}, nil, nil
		flatten(all, "environment", here)
		if e.Server["program"] != "" {
			all["environment.server.flags"] = cmp.Or(e.Server["flags"], "none")
		}
	}
	return all
}

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

// scenarioParts returns the fields of the scenario. Scale is a label, the seed is a property, words and objectives change
// nothing.
func scenarioParts(r *report.Report) map[string]string {
	parts := map[string]json.RawMessage{}
	if r.Scenario != nil {
		s := *r.Scenario
		s.Seed, s.Scale = 0, 0
		_ = json.Unmarshal(s.Played(), &parts) // of Marshal
	} else {
		p := r.Plan
		p.Seed, p.Duration, p.MaxLag, p.Digest = 0, 0, 0, ""
		data, _ := json.Marshal(p)
		_ = json.Unmarshal(data, &parts) // of Marshal
	}
	all := map[string]string{}
	for name, part := range parts {
		all[name] = string(part)
	}
	return all
}

// unequal returns the names of properties that differ between the runs of two sets, sorted. absent is the value of a
// property that a run does not have, or empty if unknown.
func unequal(base, other Set, absent string, of func(*report.Report) map[string]string) (names []string) {
	all := map[string]bool{}
	for _, r := range slices.Concat(base.Runs, other.Runs) {
		for name := range of(r) {
			all[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if valuesThatDiffer(base, other, func(r *report.Report) string { return cmp.Or(of(r)[name], absent) }) != "" {
			names = append(names, name)
		}
	}
	return names
}

// differences returns reasons to doubt the comparison.
func differences(base, other Set) (list []string) {
	differ := func(name string, of func(*report.Report) string) {
		list = append(list, fmt.Sprintf("%s differs (%s)", name, valuesThatDiffer(base, other, of)))
	}
	for _, name := range unequal(base, other, "", properties) {
		differ(name, func(r *report.Report) string { return properties(r)[name] })
	}
	digest := func(r *report.Report) string { return r.Plan.Digest }
	if parts := unequal(base, other, "absent", scenarioParts); len(parts) > 0 {
		list = append(list, "the scenarios differ in "+strings.Join(parts, ", "))
	} else if len(list) == 0 && valuesThatDiffer(base, other, digest) != "" {
		differ("the plan of the same scenario and seed", digest)
	}
	for _, s := range []Set{base, other} {
		builds := unique(s.Runs, build)
		if len(builds) > 1 {
			list = append(list, fmt.Sprintf("the runs of %s are of several builds (%s)", s.Name, strings.Join(builds, ", ")))
		}
		for _, b := range builds {
			if strings.HasSuffix(b, "+changes") {
				list = append(list, fmt.Sprintf("%s was built with changes that no commit has (%s)", s.Name, b))
			}
		}
	}
	return append(list, conditions(base, other)...)
}

// conditions compares measurements of the machine before and during the runs, and the order of the runs.
func conditions(base, other Set) (list []string) {
	cores := 0.0
	for _, r := range slices.Concat(base.Runs, other.Runs) {
		cores = max(cores, float64(r.Machine.Cores))
	}
	add := func(what, unit string, of func(*report.Report) float64, far func(least, most float64) bool) {
		x, y := medianOf(base, of), medianOf(other, of)
		if far(min(x, y), max(x, y)) {
			list = append(list, fmt.Sprintf("%s differs or is high (%s: %.2f; %s: %.2f %s)", what, base.Name, x, other.Name, y, unit))
		}
	}
	add("an fsync before the runs", "ms", func(r *report.Report) float64 { return cmp.Or(r.Environment, &report.Environment{}).Fsync.P50 },
		func(least, most float64) bool { return least > 0 && most > 1.5*least })
	add("the load of the machine before the runs", "", func(r *report.Report) float64 {
		first, _, _ := strings.Cut(r.Machine.Load, " ")
		load, _ := strconv.ParseFloat(first, 64) // 0: unknown
		return load
	}, func(least, most float64) bool { return cores > 0 && most-least > cores/2 })
	add("the use of the machine by others during the runs", "cores", func(r *report.Report) float64 { return r.Others },
		func(_, most float64) bool { return cores > 0 && most > 0.05*cores })
	byTime := func(a, b *report.Report) int { return a.Began.Compare(b.Began) }
	for _, s := range [][2]Set{{base, other}, {other, base}} {
		a, b := s[0].Runs, s[1].Runs
		if len(a) > 0 && len(b) > 0 && len(a)+len(b) > 2 && slices.MaxFunc(a, byTime).Began.Before(slices.MinFunc(b, byTime).Began) {
			list = append(list, fmt.Sprintf("all runs of %s came before those of %s: --interleave alternates", s[0].Name, s[1].Name))
		}
	}
	return list
}

// medianOf returns the median of a value over the runs.
func medianOf(s Set, of func(*report.Report) float64) float64 {
	if len(s.Runs) == 0 {
		return 0
	}
	var values []float64
	for _, r := range s.Runs {
		values = append(values, of(r))
	}
	return Median(values)
}

// valuesThatDiffer returns the values of both sides if they differ, or an empty text.
func valuesThatDiffer(base, other Set, of func(*report.Report) string) string {
	x, y := unique(base.Runs, of), unique(other.Runs, of)
	if len(x) == 0 || len(y) == 0 || len(x) == 1 && slices.Equal(x, y) {
		return ""
	}
	return base.Name + ": " + strings.Join(x, ", ") + "; " + other.Name + ": " + strings.Join(y, ", ")
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

// positive formats a value, or returns an empty text for 0.
func positive(v float64) string {
	if v <= 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// system returns name and version of the system under test.
func system(r *report.Report) string {
	if r.Targeted != nil {
		return strings.TrimSpace(r.Targeted.Name + " " + r.Targeted.Version)
	}
	return "muster"
}

// shortCommit abbreviates a commit.
func shortCommit(hash string, dirty bool) string {
	hash = hash[:min(len(hash), 10)]
	if dirty && hash != "" {
		hash += "+changes"
	}
	return hash
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
