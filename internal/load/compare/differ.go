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

// property should be the same in all runs. Its value is empty where a report does not have it.
type property struct {
	name string
	of   func(*report.Report) string
}

// properties are those of the machine, then those of the program and of the load.
func properties() []property {
	environment := func(f func(*report.Environment) string) func(*report.Report) string {
		return func(r *report.Report) string {
			if r.Environment == nil {
				return ""
			}
			return f(r.Environment)
		}
	}
	return []property{
		{"processor", func(r *report.Report) string { return r.Machine.CPU }},
		{"number of cores", func(r *report.Report) string { return positive(float64(r.Machine.Cores)) }},
		{"memory of the machine", func(r *report.Report) string { // in whole GiB: the kernel keeps some pages more or less
			if r.Machine.Memory == 0 {
				return ""
			}
			return fmt.Sprintf("%.0f GiB", float64(r.Machine.Memory)/(1<<30))
		}},
		{"kind of machine", environment(func(e *report.Environment) string { return e.Virtual })},
		{"kernel", func(r *report.Report) string { return r.Machine.Kernel }},
		{"version of Go", func(r *report.Report) string { return r.Machine.Go }},
		{"file system of the data folder", environment(func(e *report.Environment) string { return e.FileSystem })},
		{"disk of the data folder", environment(func(e *report.Environment) string { return e.Device })},
		{"build of the loader", loaderBuild},
		{"number of loaders", func(r *report.Report) string { return strconv.Itoa(max(1, len(r.Loaders))) }},
		{"settings of the server", environment(func(e *report.Environment) string {
			if e.Server["program"] == "" {
				return ""
			}
			return cmp.Or(e.Server["flags"], "none")
		})},
		{"target", system},
		{"scale", scale},
		{"label", func(r *report.Report) string {
			labels := slices.DeleteFunc(slices.Clone(r.Label), func(l string) bool { return l == scale(r) })
			return cmp.Or(strings.Join(labels, ", "), "none")
		}},
		{"end of the run", func(r *report.Report) string {
			if r.Stopped != nil {
				return r.Stopped.String()
			}
			return "as planned"
		}},
		{"seed", func(r *report.Report) string { return strconv.FormatUint(r.Plan.Seed, 10) }},
		{"measured time, seconds", func(r *report.Report) string { return positive(r.Plan.Duration) }},
	}
}

// differences are reasons to doubt the comparison.
func differences(base, other Set) (list []string) {
	differ := func(p property) bool {
		what := apart(base, other, p.of)
		if what != "" {
			list = append(list, fmt.Sprintf("%s differs (%s)", p.name, what))
		}
		return what != ""
	}
	same := true
	for _, p := range properties() {
		same = !differ(p) && same
	}
	if parts := scenarioParts(base, other); len(parts) > 0 {
		list = append(list, "the scenarios differ in "+strings.Join(parts, ", "))
	} else if same {
		differ(property{"plan of the same scenario and seed", func(r *report.Report) string { return r.Plan.Digest }})
	}
	limits := map[string]bool{}
	for _, r := range slices.Concat(base.Runs, other.Runs) {
		if r.Environment != nil {
			for name := range r.Environment.Limits {
				limits[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		differ(property{"limit of the machine, " + name + ",", func(r *report.Report) string {
			if r.Environment == nil {
				return ""
			}
			return r.Environment.Limits[name]
		}})
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

// conditions are measurements of the machine before and beside the runs, and the order of the runs.
func conditions(base, other Set) (list []string) {
	cores := 0.0
	for _, r := range base.Runs {
		cores = max(cores, float64(r.Machine.Cores))
	}
	for _, m := range []struct {
		what, unit string
		of         func(*report.Report) (float64, bool)
		far        func(least, most float64) bool
	}{
		{"an fsync before the runs", "ms", func(r *report.Report) (float64, bool) {
			return fsync(r), fsync(r) > 0
		}, func(least, most float64) bool { return least > 0 && most > 1.5*least }},
		{"the load of the machine before the runs", "", func(r *report.Report) (float64, bool) {
			first, _, _ := strings.Cut(r.Machine.Load, " ")
			v, err := strconv.ParseFloat(first, 64)
			return v, err == nil
		}, func(least, most float64) bool { return cores > 0 && most-least > cores/2 }},
		{"the use of the machine by others during the runs", "cores", func(r *report.Report) (float64, bool) { return r.Others, true },
			func(_, most float64) bool { return cores > 0 && most > 0.05*cores }},
	} {
		x, y := middle(base, m.of), middle(other, m.of)
		if m.far(min(x, y), max(x, y)) {
			list = append(list, fmt.Sprintf("%s differs or is high (%s: %.2f; %s: %.2f %s)", m.what, base.Name, x, other.Name, y, m.unit))
		}
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

func fsync(r *report.Report) float64 {
	if r.Environment == nil {
		return 0
	}
	return r.Environment.Fsync.P50
}

// middle is the median of the runs that have a value; 0 where none does.
func middle(s Set, of func(*report.Report) (float64, bool)) float64 {
	var values []float64
	for _, r := range s.Runs {
		if v, ok := of(r); ok {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0
	}
	return Median(values)
}

// scenarioParts names the parts in which the scenarios differ. Scale, seed and length are properties of their own; words
// and objectives change nothing.
func scenarioParts(base, other Set) (names []string) {
	parts := map[*report.Report]map[string]json.RawMessage{}
	for _, r := range slices.Concat(base.Runs, other.Runs) {
		var data []byte
		if r.Scenario != nil {
			s := *r.Scenario
			s.Seed, s.Scale = 0, 0
			data = s.Played()
		} else {
			p := r.Plan
			p.Seed, p.Duration, p.MaxLag, p.Digest = 0, 0, 0, ""
			data, _ = json.Marshal(p)
		}
		var all map[string]json.RawMessage
		_ = json.Unmarshal(data, &all) // its own
		parts[r] = all
		for name := range all {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool {
		return apart(base, other, func(r *report.Report) string { return cmp.Or(string(parts[r][name]), "absent") }) == ""
	})
}

// apart returns the values of both sides, where they differ between runs that have one.
func apart(base, other Set, of func(*report.Report) string) string {
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

func positive(v float64) string {
	if v <= 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

func scale(r *report.Report) string {
	if r.Scenario == nil {
		return ""
	}
	return cmp.Or(r.Scenario.Label(), "whole")
}

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

func loaderBuild(r *report.Report) string { return shortCommit(cmp.Or(r.Commit, r.Version), r.Dirty) }

// build is that of the server. The loader may be another program.
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
