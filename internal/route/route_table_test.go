package route

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

var evening = time.Date(2026, 11, 21, 22, 30, 0, 0, time.UTC)

// newTestTable compiles test resources into a new table of routes, silences and windows.
func newTestTable(t *testing.T, resources map[string]model.Spec) *Table {
	t.Helper()
	table := NewTable()
	for ref, spec := range resources {
		ns, name := model.SplitRef("default", ref)
		if err := table.Apply([]Declaration{{Name: Name{ns, name}, Zone: "UTC", Spec: spec}}); err != nil {
			t.Fatalf("%s: %v", ref, err)
		}
	}
	return table
}

// diskProblem returns a critical problem of the check disk on the node web1.
func diskProblem() *Problem {
	return &Problem{Node: Name{"default", "web1"}, Groups: []Name{{"default", "web"}, {"shared", "all"}}, Labels: map[string]string{"env": "staging", "rack": "7"},
		Source: Source{Name: Name{"default", "disk"}}, Status: model.Critical, Severity: model.High}
}

// oneStep returns the steps of a route with a single step, which notifies the handlers at once.
func oneStep(handlers ...string) []model.RouteStep { return []model.RouteStep{{To: handlers}} }

// TestRoutesOfAProblem looks up the routes of a problem, and expects the first rule with a route to decide. The
// route that the check names comes first, then all matching routes, then the default routes.
func TestRoutesOfAProblem(t *testing.T) {
	web := &model.RouteSpec{Match: &model.Selector{Targets: &model.Targets{Groups: []string{"web"}}}, Steps: oneStep("mail")}
	disks := &model.RouteSpec{Match: &model.Selector{Checks: []string{"disk"}}, Steps: oneStep("mail")}
	db := &model.RouteSpec{Match: &model.Selector{Targets: &model.Targets{Groups: []string{"db"}}}, Steps: oneStep("mail")}
	plain := &model.RouteSpec{Steps: oneStep("mail")}
	for _, test := range []struct {
		name      string
		resources map[string]model.Spec
		ref       string
		want      string
	}{
		{"nobody", nil, "", ""},
		{"the one that the check names", map[string]model.Spec{"on-call": plain, "web": web}, "on-call", "default/on-call"},
		{"one of shared", map[string]model.Spec{"shared/on-call": plain}, "shared/on-call", "shared/on-call"},
		{"the one that it names is gone: as if it named none", map[string]model.Spec{"web": web}, "on-call", "default/web"},
		{"every one that matches", map[string]model.Spec{"web": web, "disks": disks, "db": db, "default": plain}, "", "default/disks default/web"},
		{"a route without match takes nothing by itself", map[string]model.Spec{"on-call": plain}, "", ""},
		{"default", map[string]model.Spec{"db": db, "default": plain, "shared/default": plain}, "", "default/default"},
		{"default of shared", map[string]model.Spec{"db": db, "shared/default": plain}, "", "shared/default"},
		{"another namespace's do not take it", map[string]model.Spec{"team/web": disks}, "", ""},
	} {
		var got []string
		for _, r := range newTestTable(t, test.resources).Routes(diskProblem(), test.ref) {
			got = append(got, r.Name.String())
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, want %s", test.name, got, test.want)
		}
	}
}

// TestTagsAreLabels selects and groups a problem by its tags, which hide labels of the node. Conditions read both.
func TestTagsAreLabels(t *testing.T) {
	p := diskProblem()
	p.Tags = map[string]string{"scope": "capacity", "rack": "9"}
	for selector, want := range map[*model.Selector]bool{
		{Labels: map[string]string{"scope": "capacity", "env": "staging"}}:              true,
		{Labels: map[string]string{"rack": "7"}}:                                        false,
		{Labels: map[string]string{"rack": "9"}}:                                        true,
		{Where: `labels.scope == "capacity" && labels.rack == "9"`}:                     true,
		{Where: `node.labels.rack == "7" && !has(node.labels.scope) && labels.x == ""`}: true,
	} {
		if table := newTestTable(t, map[string]model.Spec{"one": &model.RouteSpec{Match: selector, Steps: oneStep("mail")}}); (len(table.Matching(p)) == 1) != want {
			t.Errorf("%+v: matches %v, want %v", selector, !want, want)
		}
	}
	r, err := newRoute(Name{"default", "one"}, "UTC", &model.RouteSpec{GroupBy: []string{"label:rack", "label:env"}, Steps: oneStep("mail")})
	if group := r.Group(p); err != nil || group != "label:rack=9\x00label:env=staging" {
		t.Errorf("group %q, %v", group, err)
	}
}

// TestHoldsOfAProblem expects the table to return every silence, maintenance window and mute that delays
// messages about a problem.
func TestHoldsOfAProblem(t *testing.T) {
	nights := model.RouteMute{Selector: model.Selector{Targets: &model.Targets{Where: `node.labels.env == "staging"`}}, During: "22:00-07:00 Europe/Paris"}
	all := []model.WindowSpan{{During: "22:00-23:00"}}
	table := newTestTable(t, map[string]model.Spec{
		"now":      &model.SilenceSpec{Selector: model.Selector{Checks: []string{"disk"}}, Until: model.Time{Time: evening.Add(time.Hour)}, Reason: "the disk is being replaced", Creator: "ann"},
		"later":    &model.SilenceSpec{Begin: model.Time{Time: evening.Add(time.Minute)}, Reason: "later"},
		"over":     &model.SilenceSpec{Until: model.Time{Time: evening}, Reason: "over"},
		"others":   &model.SilenceSpec{Selector: model.Selector{Targets: &model.Targets{Nodes: []string{"web2"}}}, Reason: "another node"},
		"upkeep":   &model.WindowSpec{Spans: all, Maintenance: &model.Selector{Labels: map[string]string{"rack": "7"}}, Reason: "new switch"},
		"calendar": &model.WindowSpec{Spans: all},
		"on-call":  &model.RouteSpec{Steps: oneStep("mail"), Mute: []model.RouteMute{nights, {Window: "calendar"}, {Window: "gone"}, {During: "sat"}}},
		"day":      &model.RouteSpec{Steps: oneStep("mail"), Mute: []model.RouteMute{{During: "01:00-02:00"}}},
	})
	for name, want := range map[string]string{
		"on-call": "silenced default/now 23:30, maintenance default/upkeep 23:00, muted default/on-call 06:00, muted default/on-call 23:00, muted default/on-call 00:00",
		"day":     "silenced default/now 23:30, maintenance default/upkeep 23:00",
	} {
		route, ok := table.Route(Name{"default", name})
		if !ok {
			t.Fatalf("no route %s", name)
		}
		var got []string
		for _, h := range table.Holds(diskProblem(), route, evening) {
			got = append(got, fmt.Sprintf("%s %s %s", h.Kind, h.By, h.Until.UTC().Format("15:04")))
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s: %s\nwant %s", name, text, want)
		}
	}
	_ = table.Apply([]Declaration{{Kind: "Silence", Name: Name{"default", "now"}}})
	_ = table.Apply([]Declaration{{Kind: "Window", Name: Name{"default", "upkeep"}}})
	if got := table.Holds(diskProblem(), nil, evening); len(got) != 0 {
		t.Errorf("after both were removed: %+v", got)
	}
}

// TestSelectorReadsGroupsOfTheCheck expects a silence with source.groups to hold problems of checks that target the
// group.
func TestSelectorReadsGroupsOfTheCheck(t *testing.T) {
	table := newTestTable(t, map[string]model.Spec{"it": &model.SilenceSpec{Selector: model.Selector{Where: `"web" in source.groups`}, Reason: "x"}})
	for _, c := range []struct {
		groups func() []string
		holds  bool
	}{{nil, false}, {func() []string { return nil }, false}, {func() []string { return []string{"db", "web"} }, true}, {func() []string { return []string{"shared/web"} }, false}} {
		m := diskProblem()
		m.sourceGroups = c.groups
		if got := len(table.Holds(m, nil, evening)) == 1; got != c.holds {
			t.Errorf("holds: %t, want %t", got, c.holds)
		}
	}
}

// TestSelectorNamesTriggers selects triggers by their names as shown in tables, and expects a match. A name
// with slashes must match, too.
func TestSelectorNamesTriggers(t *testing.T) {
	m := diskProblem()
	m.Source = Source{Kind: model.SourceTrigger, Name: Name{model.SharedNamespaceName, "linux"}, Instance: "50% / used: all"}
	for check, want := range map[string]bool{"linux:50% / used: all": true, "shared/linux:50% / used: all": true, "linux": false, "linux:50%": false, "default/linux:50% / used: all": false, "used: all": false} {
		table := newTestTable(t, map[string]model.Spec{"it": &model.SilenceSpec{Selector: model.Selector{Checks: []string{check}}, Reason: "x"}})
		if got := len(table.Holds(m, nil, evening)) == 1; got != want {
			t.Errorf("%s: silenced %t, want %t", check, got, want)
		}
	}
}

// TestGroupByFields groups problems into messages by the fields of a route, and expects the right groups.
func TestGroupByFields(t *testing.T) {
	for by, want := range map[string]string{"": "default/disk", "node": "default/web1", "severity": "high", "label:rack": "label:rack=7", "namespace": "default"} {
		spec := &model.RouteSpec{Steps: oneStep("mail")}
		if by != "" {
			spec.GroupBy = []string{by}
		}
		r, err := newRoute(Name{"default", "r"}, "UTC", spec)
		testenv.NoError(t, err)
		if got := r.Group(diskProblem()); got != want {
			t.Errorf("by %q: %q, want %q", by, got, want)
		}
	}
}

// namespaceHandlers is a fake Namespaces with one namespace, default, and the test's handlers.
type namespaceHandlers []string

// NamespaceName returns default for namespace 1.
func (r namespaceHandlers) NamespaceName(id model.NamespaceID) (string, bool) {
	return "default", id == 1
}

// NamespaceHandlers returns the default handlers that the test has set.
func (r namespaceHandlers) NamespaceHandlers(string) []string { return r }

// TestChooseKeepsTheOrderOfItsRules chooses routes for a problem by several rules, and expects the first
// applicable rule to decide. A check with pipelines must not be notified twice.
func TestChooseKeepsTheOrderOfItsRules(t *testing.T) {
	table := NewTable()
	set := func(name string, match *model.Selector) {
		testenv.NoError(t, table.Apply([]Declaration{{Name: Name{"default", name}, Zone: "UTC", Spec: &model.RouteSpec{Match: match, Steps: []model.RouteStep{{To: []string{"pager"}}}}}}))
	}
	set("named", nil)
	set("disks", &model.Selector{Checks: []string{"disk"}})
	disk, swap := &Problem{Node: Name{"default", "web01"}, Source: Source{Name: Name{"default", "disk"}}}, &Problem{Node: Name{"default", "web01"}, Source: Source{Name: Name{"default", "swap"}}}
	definition := func(change func(*model.CheckDefinition)) *model.CheckDefinition {
		c := &model.CheckDefinition{Definition: model.Definition{Namespace: 1}}
		change(c)
		return c
	}
	piped := definition(func(c *model.CheckDefinition) { c.Pipelines = []string{"sensu"} })
	for _, c := range []struct {
		what       string
		of         *Problem
		definition *model.CheckDefinition
		namespaces namespaceHandlers
		want       Choice
		first      string // handler or route
	}{
		{"handlers of the check", disk, definition(func(c *model.CheckDefinition) { c.Handlers, c.Route = []string{"mail"}, "named" }), nil, ByHandlers, "default/mail"},
		{"its route", disk, definition(func(c *model.CheckDefinition) { c.Route = "named" }), nil, ByRoute, "default/named"},
		{"its route, which is gone", disk, definition(func(c *model.CheckDefinition) { c.Route = "gone" }), nil, ByMatch, "default/disks"},
		{"what matches", disk, nil, namespaceHandlers{"chat"}, ByMatch, "default/disks"},
		{"its namespace", swap, nil, namespaceHandlers{"shared/chat"}, ByNamespace, "shared/chat"},
		{"nobody", swap, nil, nil, NoRecipient, ""},
		{"pipelines and what matches", disk, piped, namespaceHandlers{"chat"}, ByMatch, "default/disks"},
		{"pipelines alone", swap, piped, namespaceHandlers{"chat"}, ByPipelines, ""},
	} {
		routes, by := Choose(table, c.namespaces, c.of, c.definition, "default")
		first := ""
		if len(routes) > 0 {
			if first = routes[0].Name.String(); routes[0].Name == (Name{}) {
				first = routes[0].Steps[0].To[0].String()
			}
		}
		if by != c.want || first != c.first {
			t.Errorf("%s: %d by %q, want %d by %q", c.what, by, first, c.want, c.first)
		}
	}
	set("default", nil)
	if routes, by := Choose(table, namespaceHandlers{"chat"}, swap, nil, "default"); by != ByDefault || routes[0].Name.Name != "default" {
		t.Errorf("default: %d, %v", by, routes)
	}
	if routes, by := Choose(table, namespaceHandlers{"chat"}, swap, piped, "default"); by != ByPipelines || len(routes) != 0 {
		t.Errorf("pipelines and default: %d, %v", by, routes)
	}
}
