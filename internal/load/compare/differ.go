package compare

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/load/report"
)

// property is what should be the same in all runs, and what it means if it is not.
type property struct {
	of    func(*report.Report) string // empty: the report does not say
	means string                      // a sentence; %s is what it was on each side
}

// properties are those of the machine, then those of what was played.
func properties() []property {
	env := func(f func(*report.Environment) string) func(*report.Report) string {
		return func(r *report.Report) string {
			if r.Environment == nil {
				return ""
			}
			return f(r.Environment)
		}
	}
	return []property{
		{func(r *report.Report) string { return r.Machine.CPU }, "The processors differ (%s): times, CPU and rates say nothing about the program."},
		{func(r *report.Report) string { return positive(float64(r.Machine.Cores)) }, "The number of cores differs (%s): times, CPU and rates say nothing about the program."},
		{memory, "The memory of the machines differs (%s): the collector and the page cache have other room."},
		{env(func(e *report.Environment) string { return e.Virtual }), "The kind of machine differs (%s): virtual ones share their cores and disks with others."},
		{func(r *report.Report) string { return r.Machine.Kernel }, "The kernels differ (%s): system calls, sockets and fsync cost other times."},
		{func(r *report.Report) string { return r.Machine.Go }, "The versions of Go differ (%s): the compiler and the collector may explain CPU, allocations and memory."},
		{env(func(e *report.Environment) string { return e.FileSystem }), "The file systems of the data folders differ (%s): fsync and bytes on disk depend on them."},
		{env(func(e *report.Environment) string { return e.Device }), "The disks of the data folders differ (%s): latency waits for their fsync."},
		{system, "What was loaded differs (%s): only figures from outside mean the same."},
		{func(r *report.Report) string {
			if r.Scenario == nil {
				return ""
			}
			return cmp.Or(r.Scenario.Label(), "whole")
		}, "The scale differs (%s): only what is counted per agent or per result can be compared, with care."},
		{func(r *report.Report) string { return strings.Join(others(r), ", ") }, "What has to be said with the figures differs (%s)."},
		{func(r *report.Report) string {
			if r.Stopped != nil {
				return r.Stopped.String()
			}
			return "played to the end"
		}, "Not all runs were played to the end (%s): figures are of what was."},
		{func(r *report.Report) string { return strconv.FormatUint(r.Plan.Seed, 10) }, "The seeds differ (%s): other agents, other moments, other outputs."},
		{func(r *report.Report) string { return positive(r.Plan.Duration) }, "The measured times differ (%s seconds): rare things weigh differently, and memory had other time to grow."},
		{loader, "The load was made by different builds (%s): what the loader costs is no measure to compare the server with."},
		{func(r *report.Report) string { return strconv.Itoa(max(1, len(r.Loaders))) }, "The load was made by other numbers of processes (%s): the loader's own figures differ by that."},
		{flags, "The servers were started with different settings (%s): the settings may be what differs."},
	}
}

// differences are what makes a comparison doubtful, in sentences.
func differences(base, other Set) (list []string) {
	for _, p := range properties() {
		if what := apart(base, other, p.of); what != "" {
			list = append(list, fmt.Sprintf(p.means, what))
		}
	}
	list = append(list, played(base, other)...)
	list = append(list, plans(base, other)...)
	list = append(list, limits(base, other)...)
	list = append(list, builds(base)...)
	list = append(list, builds(other)...)
	return append(append(list, conditions(base, other)...), left(base, other)...)
}

// plans says where the same scenario with the same seed came to another plan.
func plans(base, other Set) []string {
	asked := func(r *report.Report) string {
		scale := ""
		if r.Scenario != nil {
			scale = r.Scenario.Label()
		}
		return fmt.Sprint(r.Plan.Seed, r.Plan.Duration, scale)
	}
	what := apart(base, other, func(r *report.Report) string { return r.Plan.Digest })
	if what == "" || len(played(base, other)) > 0 || apart(base, other, asked) != "" {
		return nil
	}
	return []string{fmt.Sprintf("The plans differ (%s), though scenario and seed do not: versions of the loader play it otherwise, with other agents at other moments.", what)}
}

// apart says what both sides have, where not all runs that say it say the same.
func apart(base, other Set, of func(*report.Report) string) string {
	x, y := unique(base.Runs, of), unique(other.Runs, of)
	if len(x) == 0 || len(y) == 0 || len(x) == 1 && slices.Equal(x, y) {
		return ""
	}
	side := func(name string, values []string) string { return name + ": " + strings.Join(values, ", ") }
	return side(base.Name, x) + "; " + side(other.Name, y)
}

// unique are the different answers of runs that have one, in the order of the runs.
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

// memory in whole GiB: some of it is the kernel's own, by a few pages more or less.
func memory(r *report.Report) string {
	if r.Machine.Memory == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f GiB", float64(r.Machine.Memory)/(1<<30))
}

func system(r *report.Report) string {
	if r.Targeted != nil {
		return strings.TrimSpace(r.Targeted.Name + " " + r.Targeted.Version)
	}
	return "muster"
}

// played says in which parts the scenarios differ, or what short runs were told.
func played(base, other Set) []string {
	var names []string
	all := map[*report.Report]map[string]string{}
	for _, r := range append(slices.Clone(base.Runs), other.Runs...) {
		all[r] = parts(r)
		for name := range all[r] {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	names = slices.DeleteFunc(names, func(name string) bool {
		of := func(r *report.Report) string { return cmp.Or(all[r][name], "not there") }
		return apart(base, other, of) == ""
	})
	if len(names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("The scenarios differ in %s (%s %s; %s %s): more, less or other things were asked of the server.", strings.Join(names, ", "),
		base.Name, strings.Join(unique(base.Runs, digest), ", "), other.Name, strings.Join(unique(other.Runs, digest), ", "))}
}

// parts are what was played, but its scale, seed and length, which have sentences of their
// own, and words and objectives, which change nothing.
func parts(r *report.Report) map[string]string {
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
	var raw map[string]json.RawMessage
	_ = json.Unmarshal(data, &raw) // its own
	all := make(map[string]string, len(raw))
	for name, value := range raw {
		all[name] = string(value)
	}
	return all
}

// digest is short for all that was played.
func digest(r *report.Report) string {
	data, _ := json.Marshal(parts(r))
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:4])
}

// others are labels beside the scale.
func others(r *report.Report) (list []string) {
	for _, l := range r.Label {
		if r.Scenario == nil || l != r.Scenario.Label() {
			list = append(list, l)
		}
	}
	if len(list) == 0 {
		return []string{"nothing"}
	}
	return list
}

// commit is short for a build.
func commit(hash string, dirty bool) string {
	hash = hash[:min(len(hash), 10)]
	if dirty && hash != "" {
		hash += "+changes"
	}
	return hash
}

func loader(r *report.Report) string { return commit(cmp.Or(r.Commit, r.Version), r.Dirty) }

// build is the server's, which may be another program than the loader.
func build(r *report.Report) string {
	if r.Environment != nil {
		if c := r.Environment.Server["commit"]; c != "" {
			hash, changes := strings.CutSuffix(c, " with changes")
			return commit(hash, changes)
		}
	}
	if r.Targeted != nil {
		return r.Targeted.Version
	}
	return loader(r)
}

func flags(r *report.Report) string {
	if r.Environment == nil || r.Environment.Server["program"] == "" {
		return ""
	}
	return cmp.Or(r.Environment.Server["flags"], "none")
}

// limits are those of the machine, by name.
func limits(base, other Set) (list []string) {
	names := map[string]bool{}
	for _, r := range append(slices.Clone(base.Runs), other.Runs...) {
		if r.Environment != nil {
			for name := range r.Environment.Limits {
				names[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		what := apart(base, other, func(r *report.Report) string {
			if r.Environment == nil {
				return ""
			}
			return r.Environment.Limits[name]
		})
		if what != "" {
			list = append(list, fmt.Sprintf("A limit of the machine differs, %s (%s): one side may have met it, and the other not.", name, what))
		}
	}
	return list
}

// builds says what is wrong with what a side is made of.
func builds(s Set) (list []string) {
	if all := unique(s.Runs, build); len(all) > 1 {
		list = append(list, fmt.Sprintf("The runs of %s are of several builds (%s): their median is of no program that there is.", s.Name, strings.Join(all, ", ")))
	}
	for _, b := range unique(s.Runs, build) {
		if hash, dirty := strings.CutSuffix(b, "+changes"); dirty {
			list = append(list, fmt.Sprintf("%s was built with changes that are not in %s: nobody can build it again.", s.Name, hash))
		}
	}
	return list
}
