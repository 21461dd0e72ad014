package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

const (
	sharedLines  = 12                             // of checks of groups that a file has at most: those that send most
	sharedChecks = model.DefaultStatesPerNode / 2 // of them that a class runs at most
)

// shared is a line of checks that target groups, and that several classes run because of it.
type shared struct {
	line   *line
	groups []string // by their names there; scenario.AllGroup: all nodes
	runs   []bool   // which classes
	nodes  int      // of those
}

// rate is what all nodes send of it.
func (x *shared) rate() float64 { return x.line.rate * float64(x.nodes) }

// common finds the checks that target groups which the file has, and that nearly all nodes of
// exactly the classes in those groups run: those stand in it once, and not with each class.
func (s *Shape) common(kinds map[model.CheckID]kind, of []int) map[model.CheckID]*shared {
	runs := s.runs(of)
	lines, checks, most := map[string]*shared{}, map[string][]model.CheckID{}, make([]int, len(s.classes))
	for _, id := range slices.Sorted(maps.Keys(runs)) {
		x := &shared{runs: make([]bool, len(s.classes))}
		room := true
		for i, n := range runs[id] {
			x.runs[i] = 10*n >= 9*s.classes[i].nodes
			room = room && !(x.runs[i] && most[i] >= sharedChecks)
		}
		if x.groups = s.reaching(s.fleet.Checks[id].Groups, x.runs); x.groups == nil || !room {
			continue
		}
		key := spell(map[kind]float64{kinds[id]: 1}) + strings.Join(x.groups, " ")
		if lines[key] == nil {
			lines[key] = x
			x.line = &line{kinds: []kind{kinds[id]}, checks: map[model.CheckID]bool{}}
		}
		lines[key].count(runs[id], s.classes)
		checks[key] = append(checks[key], id)
		for i := range most {
			if x.runs[i] {
				most[i]++
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(lines), func(a, b string) int {
		return cmp.Or(cmp.Compare(lines[b].rate(), lines[a].rate()), cmp.Compare(a, b))
	})
	found := map[model.CheckID]*shared{}
	for _, key := range keys[:min(len(keys), sharedLines)] {
		lines[key].line.settle()
		s.shared = append(s.shared, lines[key])
		for _, id := range checks[key] {
			found[id] = lines[key]
		}
	}
	return found
}

// runs is how many nodes of each class run each check that targets groups.
func (s *Shape) runs(of []int) map[model.CheckID][]int {
	runs := map[model.CheckID][]int{}
	for i := range s.fleet.States {
		x := &s.fleet.States[i]
		if len(s.fleet.Checks[x.Check].Groups) == 0 {
			continue
		}
		if runs[x.Check] == nil {
			runs[x.Check] = make([]int, len(s.classes))
		}
		runs[x.Check][of[x.Node]]++
	}
	return runs
}

// count adds a check that so many nodes of each class run.
func (x *shared) count(runs []int, classes []class) {
	states := 0
	x.nodes = 0
	for i := range classes {
		if x.runs[i] {
			states += runs[i]
			x.nodes += classes[i].nodes
		}
	}
	x.line.count++
	x.line.rate += float64(states) / float64(x.nodes) * x.line.kinds[0].rate()
}

// reaching are those of a check's groups that the file has, where exactly these classes are in
// them, and these are several; nil: it is not so.
func (s *Shape) reaching(groups []string, runs []bool) (list []string) {
	in, several := make([]bool, len(runs)), 0
	for _, g := range groups {
		there := false
		for i := range s.classes {
			if everybody(g) || slices.Contains(s.classes[i].groups, g) {
				in[i], there = true, true
			}
		}
		if everybody(g) {
			list = []string{scenario.AllGroup}
			break
		}
		if there && !slices.Contains(list, g) {
			list = append(list, g)
		}
	}
	for i := range in {
		if in[i] {
			several++
		}
	}
	if several < 2 || !slices.Equal(in, runs) {
		return nil
	}
	return list
}

// everybody says whether a group is that of all nodes of a namespace.
func everybody(group string) bool { return strings.HasSuffix(group, "/"+scenario.AllGroup) }

// groupCheck is a line of the file for several classes.
func (s *Shape) groupCheck(x *shared, names Names) scenario.GroupCheck {
	out := scenario.GroupCheck{Check: s.check(x.line, names.of("check", s.held(x.line)...))}
	for _, g := range x.groups {
		if g != scenario.AllGroup {
			g = names.of("group", g)
		}
		out.Groups = append(out.Groups, g)
	}
	return out
}
