package route

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// randomElement returns a random element of a list.
func randomElement[T any](t *rapid.T, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, label)
}

// randomProblem returns a random problem, to compare the index of selectors with a plain search.
func randomProblem(t *rapid.T) *Problem {
	ns := randomElement(t, "namespace", "default", "team", "shared")
	m := &Problem{
		Node:   Name{ns, randomElement(t, "node", "a", "b", "c")},
		Source: Source{Name: Name{randomElement(t, "check's namespace", ns, "shared"), randomElement(t, "check", "disk", "load")}},
		Labels: map[string]string{"env": randomElement(t, "env", "prod", "test")},
		Status: randomElement(t, "status", model.Warning, model.Critical, model.Unknown), Severity: randomElement(t, "severity", model.Severity(2), model.Severity(4)),
	}
	if rapid.Bool().Draw(t, "tags") {
		m.Tags = map[string]string{"env": randomElement(t, "tag", "prod", "test"), "site": randomElement(t, "site", "", "b")}
	}
	for _, g := range []Name{{ns, "web"}, {ns, "db"}, {"shared", "all"}} {
		if rapid.Bool().Draw(t, "in group") {
			m.Groups = append(m.Groups, g)
		}
	}
	return m
}

// randomTargets returns random targets (nodes, groups and a condition). If inner is true they belong to an except
// clause, so they have no except clause themselves.
func randomTargets(t *rapid.T, inner bool) *model.Targets {
	x := &model.Targets{}
	for _, n := range []string{"a", "b"} {
		if rapid.Bool().Draw(t, "names node") {
			x.Nodes = append(x.Nodes, n)
		}
	}
	for _, g := range []string{"web", "shared/all"} {
		if rapid.Bool().Draw(t, "names group") {
			x.Groups = append(x.Groups, g)
		}
	}
	x.Where = randomElement(t, "where", "", "", `node.labels.env == "prod"`, `"web" in node.groups`, `"shared/all" in node.groups && "prod" == node.labels["env"]`,
		`node.name == "b" && has(node.labels.env)`, `node.name == "a" || node.labels.env == "test"`, `!(node.labels.env == "prod")`, `node.labels.site == ""`)
	if inner && rapid.Bool().Draw(t, "except") {
		x.Except = randomTargets(t, false)
	}
	return x
}

// randomSelector returns a random selector, to compare the index of selectors with a plain search.
func randomSelector(t *rapid.T) *model.Selector {
	s := &model.Selector{Severity: randomElement(t, "from severity", "", "", "high")}
	if rapid.Bool().Draw(t, "targets") {
		s.Targets = randomTargets(t, true)
	}
	s.Checks = randomElement(t, "checks", nil, []string{"disk"}, []string{"shared/disk", "load"})
	s.Statuses = randomElement(t, "statuses", nil, []string{"critical"})
	s.Labels = randomElement(t, "labels", nil, map[string]string{"env": "prod"}, map[string]string{"env": "test", "site": "b"}, map[string]string{"site": ""})
	return s
}

// TestIndexFindsAllMatchingSelectors changes selectors at random, and compares the index's answers with a plain
// search. A selector is what a route or silence uses to match problems.
func TestIndexFindsAllMatchingSelectors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, all := newIndex[int](), map[Name]*selector{}
		for i := range rapid.IntRange(1, 30).Draw(t, "changes") {
			name := Name{randomElement(t, "owner", "default", "team", "shared"), fmt.Sprint("s", rapid.IntRange(0, 9).Draw(t, "name"))}
			if rapid.IntRange(0, 4).Draw(t, "remove") == 0 {
				x.remove(name)
				delete(all, name)
				continue
			}
			selector := randomSelector(t)
			s, err := compileSelector(name.Namespace, selector)
			testenv.NoError(t, err)
			testenv.NoError(t, x.set(name, selector, i))
			all[name] = s
		}
		m := randomProblem(t)
		var want []Name
		for name, s := range all {
			if s.matches(m) {
				want = append(want, name)
			}
		}
		slices.SortFunc(want, Name.compare)
		var got []Name
		for _, e := range x.find(m) {
			got = append(got, e.name)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("for %+v the index finds %v, a walk finds %v", m, got, want)
		}
		posts := 0
		for _, e := range x.entries {
			posts += len(e.keys)
		}
		for _, at := range x.byKey {
			posts -= len(at)
		}
		if posts != 0 {
			t.Fatalf("%d posts too few in the index", posts)
		}
	})
}

// selectors makes the i-th of many selectors of which one matches the problem of BenchmarkFind.
var selectors = map[string]func(i int) *model.Selector{
	"node": func(i int) *model.Selector {
		return &model.Selector{Targets: &model.Targets{Nodes: []string{fmt.Sprint("node", i)}}, Checks: []string{"disk"}}
	},
	"check": func(i int) *model.Selector {
		return &model.Selector{Targets: &model.Targets{Groups: []string{"all"}}, Checks: []string{fmt.Sprint("check", i)}}
	},
	"group": func(i int) *model.Selector {
		return &model.Selector{Targets: &model.Targets{Groups: []string{fmt.Sprint("group", i)}}, Severity: "high"}
	},
	"label": func(i int) *model.Selector {
		return &model.Selector{Labels: map[string]string{"env": "prod", "team": fmt.Sprint("team", i)}}
	},
	"condition": func(i int) *model.Selector {
		return &model.Selector{Targets: &model.Targets{Where: `node.labels.env == "prod"`}, Checks: []string{fmt.Sprint("check", i)}}
	},
	"condition alone": func(i int) *model.Selector {
		return &model.Selector{Targets: &model.Targets{Where: fmt.Sprintf(`node.labels.team == "team%d" && node.name.startsWith("node")`, i)}}
	},
}

// BenchmarkFind measures the search for matching selectors among up to 100,000 selectors that do not match.
func BenchmarkFind(b *testing.B) {
	m := &Problem{Node: Name{"default", "node77"}, Source: Source{Name: Name{"default", "disk"}}, Labels: map[string]string{"env": "prod", "team": "team77"},
		Groups: []Name{{"default", "all"}, {"shared", "all"}, {"default", "group77"}}, Status: model.Critical, Severity: model.High}
	for _, by := range slices.Sorted(maps.Keys(selectors)) {
		for _, n := range []int{100, 1000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", by, n), func(b *testing.B) {
				x := newIndex[int]()
				for i := range n {
					testenv.NoError(b, x.set(Name{"default", fmt.Sprint("s", i)}, selectors[by](i), i))
				}
				m := *m
				if by == "check" || by == "condition" {
					m.Source.Name.Name = "check77"
				}
				b.ReportAllocs()
				for b.Loop() {
					if len(x.find(&m)) != 1 {
						b.Fatal("not found")
					}
				}
			})
		}
	}
}
