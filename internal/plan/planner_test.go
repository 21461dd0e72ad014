package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestTargetsSelectTheirNodes checks which nodes the targets of a check select by group, name, condition and
// exception.
func TestTargetsSelectTheirNodes(t *testing.T) {
	h := newTestPlanner(t)
	h.node("web01", map[string]string{"env": "prod"}, "web")
	h.node("web02", map[string]string{"env": "staging"}, "web")
	h.node("db01", map[string]string{"env": "prod"})
	h.apply("Namespace", "", "other", nil, &model.NamespaceSpec{})
	h.apply("Node", "other", "web01", nil, &model.NodeSpec{})
	h.apply("Group", "default", "db", nil, &model.GroupSpec{Nodes: []string{"db01"}})
	h.apply("Group", "default", "prod", nil, &model.GroupSpec{Where: `node.labels.env == "prod"`})
	h.apply("Group", "default", "all", nil, &model.GroupSpec{Groups: []string{"web", "db"}})

	for name, targets := range map[string]*model.Targets{
		"by-group":    {Groups: []string{"web"}},
		"by-nesting":  {Groups: []string{"all"}},
		"by-name":     {Nodes: []string{"db01", "nobody"}},
		"by-where":    {Where: `node.labels.env == "prod"`},
		"by-groups":   {Where: `"web" in node.groups && !("prod" in node.groups)`},
		"less-except": {Groups: []string{"all"}, Except: &model.Targets{Groups: []string{"prod"}}},
		"nowhere":     nil,
	} {
		h.apply("Check", "default", name, nil, commandCheck("true", targets))
	}
	h.apply("Check", "shared", "everywhere", nil, commandCheck("true", &model.Targets{Nodes: []string{"web01"}}))

	for node, want := range map[string][]string{
		"web01": {"by-group", "by-nesting", "by-where", "everywhere"},
		"web02": {"by-group", "by-groups", "by-nesting", "less-except"},
		"db01":  {"by-name", "by-nesting", "by-where"},
	} {
		if got := h.checkNames(node); !slices.Equal(got, want) {
			t.Errorf("%s holds %v, want %v", node, got, want)
		}
	}
	id, _ := h.p.directory.NodeByName("other", "web01")
	if a := h.p.directory.AssignmentOf(id); len(a.Definitions) != 1 || a.Definitions[0].Name != "everywhere" {
		t.Errorf("other/web01 holds %v", a.Definitions)
	}

	except, _ := h.p.directory.CheckByName("default", "less-except")
	if why, _ := h.p.Inspector().ExplainCheck(h.id("web01"), except); why.Lands || !strings.Contains(flattenExplanation(why), "except: it is in group prod") {
		t.Errorf("why not: %s", flattenExplanation(why))
	}
	if got := h.p.directory.NodeGroups(h.id("db01")); !sameStrings(got, []string{"all", "db", "prod"}) {
		t.Errorf("groups of db01: %v", got)
	}
	if got := h.p.directory.SourceGroups(model.CheckSource(except)); !slices.Equal(got, []string{"all"}) {
		t.Errorf("groups of less-except: %v", got)
	}
	if got := h.p.directory.SourceGroups(model.CheckSource(model.KeepaliveCheck)); got != nil {
		t.Errorf("groups of keepalive: %v", got)
	}
}

// sameStrings reports whether two lists contain the same strings in any order.
func sameStrings(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// TestDefinitionDefaultsAndIdentity compiles a check, and expects default values and an unchanged version after
// an edit of its labels. An edit of the check's labels leaves the compiled check unchanged.
func TestDefinitionDefaultsAndIdentity(t *testing.T) {
	h := newTestPlanner(t)
	node := h.node("web01", nil)
	spec := commandCheck("true", &model.Targets{Nodes: []string{"web01"}})
	spec.Severity = map[string]string{"critical": "disaster"}
	h.apply("Check", "default", "c", nil, spec)
	first := h.p.directory.AssignmentOf(node)
	c := first.Definitions[0].AsCheck()
	if c.Timeout.Seconds() != 60 || c.MaxOutput != 64<<10 || c.FailAfter != 1 || c.RecoverAfter != 1 ||
		c.Severities != [4]model.Severity{0, model.SeverityWarning, model.Disaster, model.Average} || c.Namespace != 1 || c.ID == 0 {
		t.Errorf("defaults: %+v", c)
	}
	if first.Hash != wire.AssignmentHash(first.Definitions, first.Properties, nil) {
		t.Error("the hash is not that of the content")
	}

	h.apply("Check", "default", "c", map[string]string{"team": "a"}, spec) // labels: no new definition
	if second := h.p.directory.AssignmentOf(node); second.Generation != first.Generation || len(h.changed) != 0 {
		t.Errorf("a label of the check made a new generation: %v", second.Generation)
	}
	edited := *spec
	edited.Command = &model.Command{Shell: "false"}
	h.apply("Check", "default", "c", nil, &edited)
	third := h.p.directory.AssignmentOf(node)
	if third.Definitions[0].ID == c.ID || !first.Generation.Less(third.Generation) || !slices.Equal(h.changed, []model.NodeID{node}) {
		t.Errorf("an edit: definition %d → %d, %v", c.ID, third.Definitions[0].ID, third.Generation)
	}
	h.apply("Check", "default", "c", nil, spec) // back: the same definition again
	if back := h.p.directory.AssignmentOf(node); back.Definitions[0].AsCheck() != c || back.Hash != first.Hash {
		t.Error("going back made another definition")
	}
	if h.p.directory.Definition(third.Definitions[0].ID) == nil {
		t.Error("an old definition was forgotten")
	}
	ids := []model.DefinitionID{c.ID, third.Definitions[0].ID}
	h.start() // a restart
	for _, id := range ids {
		if h.p.directory.Definition(id) == nil {
			t.Errorf("definition %d is unknown after a restart", id)
		}
	}
	if after := h.p.directory.AssignmentOf(node); after.Hash != first.Hash || after.Generation.Less(first.Generation) {
		t.Error("the assignment differs after a restart")
	}
}

// TestNarrowestScopeSetsTheProperty declares a property for all, a group and a node, and expects the node's own value.
// From narrow to wide the scopes are node, group, namespace and global.
func TestNarrowestScopeSetsTheProperty(t *testing.T) {
	h := newTestPlanner(t)
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	h.apply("Property", "shared", "disk", nil, &model.PropertySpec{Scope: "global", Value: raw(`{"warn": 20, "crit": 10}`)})
	h.apply("Property", "default", "disk", nil, &model.PropertySpec{Value: raw(`{"warn":15}`)})
	h.apply("Group", "default", "web", nil, &model.GroupSpec{
		Nodes: []string{"web01", "both"}, Properties: map[string]json.RawMessage{"port": raw("80"), "disk": raw(`{"crit":5}`)},
	})
	h.apply("Group", "default", "db", nil, &model.GroupSpec{
		Nodes: []string{"both"}, Properties: map[string]json.RawMessage{"port": raw("5432")},
	})
	h.apply("Node", "default", "web01", nil, &model.NodeSpec{Properties: map[string]json.RawMessage{"unused": raw("1")}})
	h.apply("Node", "default", "both", nil, &model.NodeSpec{})
	h.apply("Node", "default", "plain", nil, &model.NodeSpec{})
	h.apply("Check", "default", "c", nil, commandCheck("check {{ .props.disk.warn }} {{ .props.port | default \"1\" }}",
		&model.Targets{Where: "true"}))

	want := func(node string, want ...wire.Property) {
		t.Helper()
		if got := h.p.directory.AssignmentOf(h.id(node)).Properties; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", node, got, want)
		}
	}
	clashing := wire.Property{Name: "port", Error: "port has different values from group db and group web"}
	want("web01", wire.Property{Name: "disk", Value: raw(`{"crit":5,"warn":15}`)}, wire.Property{Name: "port", Value: raw("80")})
	want("both", wire.Property{Name: "disk", Value: raw(`{"crit":5,"warn":15}`)}, clashing)
	want("plain", wire.Property{Name: "disk", Value: raw(`{"crit":10,"warn":15}`)})

	h.apply("Property", "default", "port-of-both", nil, &model.PropertySpec{Property: "port", Scope: "node:both", Value: raw("443")})
	want("both", wire.Property{Name: "disk", Value: raw(`{"crit":5,"warn":15}`)}, wire.Property{Name: "port", Value: raw("443")})
	if !slices.Equal(h.changed, []model.NodeID{h.id("both")}) {
		t.Errorf("changed %v", h.changed)
	}
	h.apply("Property", "default", "unread", nil, &model.PropertySpec{Value: raw("1")})
	if len(h.changed) != 0 {
		t.Errorf("a property that nobody reads changed %v", h.changed)
	}
	h.apply("Property", "default", "disk", nil, nil)
	want("plain", wire.Property{Name: "disk", Value: raw(`{"crit":10,"warn":20}`)})
}

// TestRemovalsAreListed removes checks and nodes, and expects RemovalsSince to list each removal
func TestRemovalsAreListed(t *testing.T) {
	h := newTestPlanner(t)
	a, b := h.node("a", map[string]string{"env": "prod"}), h.node("b", nil)
	c := commandCheck("true", &model.Targets{Nodes: []string{"a", "b"}})
	h.apply("Check", "default", "c", nil, c)
	h.apply("Check", "default", "d", nil, c)
	cID, _ := h.p.directory.CheckByName("default", "c")
	dID, _ := h.p.directory.CheckByName("default", "d")
	kept := h.p.Revision()
	uid := h.p.directory.AssignmentOf(b).UID

	h.apply("Check", "default", "c", nil, commandCheck("true", &model.Targets{Nodes: []string{"b"}}))
	h.apply("Check", "default", "d", nil, nil)
	h.apply("Node", "default", "b", nil, nil)
	want := []Removal{
		{Node: a, Mark: wire.ForgetRecord{Check: cID}},
		{Mark: wire.ForgetRecord{Check: dID, Deleted: true}},
		{Node: b, UID: uid, Mark: wire.ForgetRecord{Deleted: true}},
	}
	if !reflect.DeepEqual(h.forgotten, want) {
		t.Errorf("forgotten %+v, want %+v", h.forgotten, want)
	}
	if h.p.directory.AssignmentOf(b) != nil {
		t.Error("a deleted node has an assignment")
	}

	// The same after a crash that swallowed the marks.
	h.forgotten = nil
	h.start()
	before := h.p.directory.AssignmentOf(a)
	got, err := h.p.RemovalsSince(context.Background(), kept)
	if err != nil {
		t.Fatal(err)
	}
	byNode := func(x, y Removal) int {
		return int(x.Node)*10000 + int(x.Mark.Check) - int(y.Node)*10000 - int(y.Mark.Check)
	}
	slices.SortFunc(got, byNode)
	slices.SortFunc(want, byNode)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("since: %+v, want %+v", got, want)
	}
	if after := h.p.directory.AssignmentOf(a); !reflect.DeepEqual(after, before) {
		t.Error("looking back changed an assignment")
	}
}

// TestPreviewChangesNothing previews writes, and expects unchanged assignments and nodes.
func TestPreviewChangesNothing(t *testing.T) {
	h := newTestPlanner(t)
	for i := range 10 {
		h.node(fmt.Sprintf("n%d", i), map[string]string{"i": fmt.Sprint(i)}, "all")
	}
	h.apply("Check", "default", "c", nil, commandCheck("true", &model.Targets{Groups: []string{"all"}}))
	before := h.snapshot()
	write := func(kind, name string, spec model.Spec) intent.Write {
		w := intent.Write{Key: intent.Key{Kind: kind, Namespace: "default", Name: name}}
		if spec != nil {
			w.Body = encodeSpec(t, kind, "default", name, nil, spec)
		}
		return w
	}
	out, err := h.p.Preview(context.Background(), []intent.Write{
		write("Check", "new", commandCheck("true", &model.Targets{Where: `int(node.labels.i) < 3`})),
		write("Check", "c", nil),
		write("Group", "some", &model.GroupSpec{Nodes: []string{"n1", "n2"}}),
		write("Node", "n9", nil),
		write("Node", "fresh", &model.NodeSpec{Groups: []string{"all"}}),
	}, true)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []int
	for _, l := range out.Placements {
		nodes = append(nodes, l.Nodes)
	}
	// The fresh node has no label i: an error is no match.
	if !slices.Equal(nodes, []int{3, 10, 2, 1, 1}) || out.Affected != 10 || len(out.Timings) == 0 {
		t.Errorf("landings %v, %+v", nodes, out)
	}
	units := []intent.UnitImpact{
		{Key: intent.Key{Kind: "Check", Namespace: "default", Name: "c"}, Loses: 10, Nodes: []string{"n0", "n1", "n2", "n3", "n4"}},
		{Key: intent.Key{Kind: "Check", Namespace: "default", Name: "new"}, Gets: 3, Nodes: []string{"n0", "n1", "n2"}},
	}
	if !reflect.DeepEqual(out.Units, units) {
		t.Errorf("units %+v", out.Units)
	}
	if after := h.snapshot(); !reflect.DeepEqual(before, after) {
		t.Error("a preview changed the fleet")
	}
	if _, err := h.p.Preview(context.Background(), []intent.Write{write("Check", "bad", commandCheck("true", &model.Targets{Where: "1"}))}, false); model.ClassOf(err) != model.Invalid {
		t.Errorf("a wrong condition: %v", err)
	}
}

// TestStoreFailureChangesNothing makes the store of compiled checks fail, and expects unchanged assignments.
func TestStoreFailureChangesNothing(t *testing.T) {
	h := newTestPlanner(t)
	node := h.node("a", nil)
	p := h.p
	before := p.directory.AssignmentOf(node)
	h.p = nil
	h.apply("Check", "default", "c", nil, commandCheck("true", &model.Targets{Nodes: []string{"a"}}))
	h.p = p
	h.fail = errors.New("disk full")
	if err := p.CatchUp(context.Background()); err == nil {
		t.Fatal("no error")
	}
	if after := p.directory.AssignmentOf(node); !reflect.DeepEqual(before, after) {
		t.Error("a failed pass changed the fleet")
	}
	if err := p.CatchUp(context.Background()); err != nil || len(p.directory.AssignmentOf(node).Definitions) != 1 {
		t.Errorf("the second try: %v", err)
	}
}

// TestSelectorsMatchLabels selects nodes by labels, and expects the right nodes.
func TestSelectorsMatchLabels(t *testing.T) {
	h := newTestPlanner(t)
	h.node("a", map[string]string{"env": "prod", "os": "linux"})
	h.node("b", map[string]string{"env": "staging", "owner": "x"})
	h.node("c", nil)
	for text, want := range map[string]string{
		"": "a b c", "env=prod": "a", "env==prod,os=linux": "a", "env!=prod": "b c", "env in (prod, staging)": "a b",
		"env notin (prod)": "b c", "owner": "b", "!owner": "a c", "env,!owner": "a", "env=nope": "",
	} {
		s, err := directory.ParseSelector(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var names []string
		for _, id := range h.p.directory.NodesMatching("default", s) {
			_, name, _ := h.p.directory.NodeName(id)
			names = append(names, name)
			if !s.Matches(h.p.directory.NodeLabels(id)) {
				t.Errorf("%q: index and labels of %s disagree", text, name)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q selects %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"=x", "a=b=c", "a in", "a in (b", "a b", ",", "!"} {
		if _, err := directory.ParseSelector(text); err == nil {
			t.Errorf("%q: accepted", text)
		}
	}
}

// TestGroupCyclesAreRefused expects Preview to refuse a group that contains itself through other groups.
func TestGroupCyclesAreRefused(t *testing.T) {
	h := newTestPlanner(t)
	h.apply("Group", "default", "a", nil, &model.GroupSpec{Groups: []string{"b"}})
	h.apply("Group", "default", "b", nil, &model.GroupSpec{Groups: []string{"c"}})
	for _, name := range []string{"a", "b", "c", "d"} {
		key := intent.Key{Kind: "Group", Namespace: "default", Name: name}
		w := intent.Write{Key: key, Body: encodeSpec(t, "Group", "default", name, nil, &model.GroupSpec{Groups: []string{"a", "x"}})}
		_, err := h.p.Preview(t.Context(), []intent.Write{w}, false)
		if name == "d" {
			if err != nil {
				t.Errorf("no cycle: %v", err)
			}
		} else if model.ClassOf(err) != model.Invalid || !strings.Contains(err.Error(), "contains itself") {
			t.Errorf("a in %s: %v", name, err)
		}
	}
	// Written past the service, it must not hang or crash.
	h.node("n", nil, "a")
	h.apply("Group", "default", "c", nil, &model.GroupSpec{Groups: []string{"a"}})
	h.apply("Check", "default", "check", nil, commandCheck("true", &model.Targets{Groups: []string{"b"}}))
	h.node("n", nil, "b")
	h.apply("Group", "default", "c", nil, nil)
	if got := h.checkNames("n"); len(got) != 1 {
		t.Errorf("holds %v", got)
	}
}

// snapshot returns everything that the planner has published for readers, as a map for comparisons
func (h *testPlanner) snapshot() map[string]any {
	seen := map[string]any{}
	for _, id := range h.p.directory.Nodes("") {
		if a := h.p.directory.AssignmentOf(id); a != nil { // not of a proxy node
			seen[fmt.Sprint("node ", id)] = *a
		}
		seen[fmt.Sprint("groups ", id)] = slices.Sorted(slices.Values(h.p.directory.NodeGroups(id)))
		seen[fmt.Sprint("checks ", id)] = h.p.directory.NodeUnits(id)
		seen[fmt.Sprint("overridden ", id)] = directory.Overridden(h.p.directory, id)
	}
	for id, u := range h.p.fleet.units {
		if r := u.def.Rollout; r != nil {
			seen[fmt.Sprint("rollout ", id)] = []any{r.Rollout, r.Old.ID, r.New.ID}
		}
	}
	for _, row := range h.rows {
		switch row.Kind {
		case "Group":
			seen["group "+row.Namespace+"/"+row.Name] = h.p.directory.GroupMembers(row.Namespace, row.Name)
		case "Check", "Directive", "Waiver":
			seen[row.Kind+" "+row.Namespace+"/"+row.Name] = h.p.directory.UnitNodes(model.CheckID(row.ID))
		}
	}
	return seen
}

// TestRenamedNodeKeepsItsAssignment renames a node, and expects the same id, assignment and event states. The same
// holds after a crash during the rename.
func TestRenamedNodeKeepsItsAssignment(t *testing.T) {
	h := newTestPlanner(t)
	id := h.node("old", nil, "web")
	h.apply("Check", "default", "c", nil, commandCheck("true", &model.Targets{Groups: []string{"web"}}))
	h.apply("Check", "default", "d", nil, commandCheck("true", &model.Targets{Nodes: []string{"old"}}))
	before, counts := h.p.directory.AssignmentOf(id), h.p.fleet.counts
	d, _ := h.p.directory.CheckByName("default", "d")
	kept := h.p.Revision()
	h.forgotten = nil
	to := intent.Write{
		Key: intent.Key{Kind: "Node", Namespace: "default", Name: "new"}, From: "old",
		Body: encodeSpec(t, "Node", "default", "new", nil, &model.NodeSpec{Groups: []string{"web"}}),
	}
	named := intent.Write{
		Key:  intent.Key{Kind: "Check", Namespace: "default", Name: "d"},
		Body: encodeSpec(t, "Check", "default", "d", nil, commandCheck("true", &model.Targets{Nodes: []string{"new"}})),
	}
	if out, err := h.p.Preview(t.Context(), []intent.Write{to, named}, false); err != nil || out.Affected != 0 {
		t.Fatalf("preview: %d nodes, %v", out.Affected, err)
	}
	h.write(to, named)
	if now, ok := h.p.directory.NodeByName("default", "new"); !ok || now != id {
		t.Errorf("new is node %d, %v", now, ok)
	}
	if _, ok := h.p.directory.NodeByName("default", "old"); ok {
		t.Error("the old name still means something")
	}
	if after := h.p.directory.AssignmentOf(id); !reflect.DeepEqual(after, before) || len(h.forgotten) != 0 || len(h.changed) != 0 {
		t.Errorf("assignment %+v, forgotten %v, changed %v", after, h.forgotten, h.changed)
	}
	if now := h.p.fleet.counts; now.Built-counts.Built != 1 || now.Changed != counts.Changed {
		t.Errorf("counts %+v, before %+v", now, counts)
	}
	h.start()
	if marks, err := h.p.RemovalsSince(t.Context(), kept); err != nil || len(marks) != 0 {
		t.Errorf("forgotten after a restart: %+v, %v", marks, err)
	}
	// Without the rewritten check it is another matter: that one is lost.
	h.forgotten = nil
	h.write(intent.Write{Key: intent.Key{Kind: "Node", Namespace: "default", Name: "third"}, From: "new",
		Body: encodeSpec(t, "Node", "default", "third", nil, &model.NodeSpec{Groups: []string{"web"}})})
	want := []Removal{{Node: id, Mark: wire.ForgetRecord{Check: d}}}
	if !reflect.DeepEqual(h.forgotten, want) {
		t.Errorf("forgotten %+v, want %+v", h.forgotten, want)
	}
	h.start()
	if marks, err := h.p.RemovalsSince(t.Context(), kept); err != nil || !reflect.DeepEqual(marks, want) {
		t.Errorf("forgotten after a restart: %+v, %v", marks, err)
	}
}
