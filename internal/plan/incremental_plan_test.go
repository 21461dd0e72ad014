package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/where"
)

// TestIncrementalPlanEqualsFullPlan applies random changes one by one, and expects the same fleet as a planner that
// starts anew. It also compares the fleet with a naive model.
func TestIncrementalPlanEqualsFullPlan(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newTestPlanner(t)
		for range rapid.IntRange(1, 25).Draw(rt, "commits") {
			var writes []intent.Write
			seen := map[intent.Key]bool{}
			for range rapid.IntRange(1, 4).Draw(rt, "writes") {
				if w := h.randomRename(rt, randomWrite(rt)); !seen[w.Key] && !seen[w.Source()] {
					seen[w.Key], seen[w.Source()] = true, true
					if _, known := h.rows[w.Key]; known || w.Body != nil {
						writes = append(writes, w)
					}
				}
			}
			if len(writes) == 0 {
				continue
			}
			if rapid.IntRange(0, 3).Draw(rt, "preview first") == 0 {
				before := h.snapshot()
				if _, err := h.p.Preview(rt.Context(), writes, true); err != nil {
					rt.Fatal(err)
				}
				if !reflect.DeepEqual(before, h.snapshot()) {
					rt.Fatal("a preview changed the fleet")
				}
			}
			h.write(writes...)
		}
		incremental := h.snapshotWithoutGenerations()
		h.start()
		for _, f := range removedSinceStart(rt, h) {
			if h.p.fleet.nodes[f] != nil {
				rt.Errorf("node %d is there, and its events are forgotten", f)
			}
		}
		if full := h.snapshotWithoutGenerations(); !reflect.DeepEqual(incremental, full) {
			for key := range full {
				if !reflect.DeepEqual(incremental[key], full[key]) {
					rt.Errorf("%s:\nincremental %+v\nfull        %+v", key, incremental[key], full[key])
				}
			}
			rt.FailNow()
		}
		h.compareWithNaivePlanner(rt)
		if f := h.p.fleet; len(f.unitSets.byKey) > len(f.nodes)+1 || len(f.groupSets.byKey) > len(f.nodes)+1 {
			rt.Errorf("%d check sets, %d group sets for %d nodes", len(f.unitSets.byKey), len(f.groupSets.byKey), len(f.nodes))
		}
	})
}

// randomRename turns some random changes of a node into renames of an existing node to an unused name. The new
// name is unused.
func (h *testPlanner) randomRename(rt *rapid.T, w intent.Write) intent.Write {
	if w.Kind != "Node" || w.Body == nil || rapid.IntRange(0, 2).Draw(rt, "move") > 0 {
		return w
	}
	if _, taken := h.rows[w.Key]; taken {
		return w
	}
	from := rapid.SampledFrom(someNodes).Draw(rt, "from")
	if _, known := h.rows[intent.Key{Kind: "Node", Namespace: w.Namespace, Name: from}]; known {
		w.From = from
	}
	return w
}

// removedSinceStart returns all nodes removed since the planner's first revision, as RemovalsSince reports.
func removedSinceStart(rt *rapid.T, h *testPlanner) (nodes []model.NodeID) {
	marks, err := h.p.RemovalsSince(rt.Context(), 0)
	if err != nil {
		rt.Fatal(err)
	}
	for _, f := range marks {
		if f.Node != 0 && f.Mark.Deleted {
			nodes = append(nodes, f.Node)
		}
	}
	return nodes
}

// snapshotWithoutGenerations returns everything that the planner has published, except the revision numbers of
// assignments. So the states of two planners can be compared.
func (h *testPlanner) snapshotWithoutGenerations() map[string]any {
	seen := h.snapshot()
	for key, v := range seen {
		if a, ok := v.(directory.Assignment); ok {
			a.Generation.Revision = 0
			seen[key] = a
		}
	}
	return seen
}

var (
	someNodes  = []string{"n0", "n1", "n2", "n3", "n4"}
	someGroups = []string{"g0", "g1", "g2", "g3"}
	someWheres = []string{"", "", `node.labels.a == "1"`, `node.labels.a != "1"`, `node.name == "n2" || has(node.labels.b)`, `int(node.facts.b) > 1`}
	// Of trusted groups: over labels only.
	trustedWheres = []string{"", `node.labels.a == "1"`, `node.labels.a != "1"`, `has(node.labels.b)`}
)

// randomWrite returns a random change of a random resource, such as a check or a node.
func randomWrite(rt *rapid.T) intent.Write {
	pick := func(label string, from []string) string { return rapid.SampledFrom(from).Draw(rt, label) }
	some := func(label string, from []string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(from), 0, 2, rapid.ID[string]).Draw(rt, label)
	}
	kind := pick("kind", []string{"Node", "Node", "Group", "Group", "Check", "Check", "Property"})
	ns := pick("namespace", []string{"default", "shared"})
	name := pick("name", map[string][]string{
		"Node": someNodes, "Group": someGroups, "Check": {"c0", "c1", "c2"}, "Property": {"p0", "p1", "p2"},
	}[kind])
	w := intent.Write{Key: intent.Key{Kind: kind, Namespace: ns, Name: name}, Expect: -1}
	if rapid.IntRange(0, 4).Draw(rt, "delete") == 0 {
		return w
	}
	values := func() map[string]json.RawMessage {
		m := map[string]json.RawMessage{}
		for _, p := range some("properties", []string{"p0", "p1"}) {
			m[p] = json.RawMessage(pick("value", []string{"1", "2", `{"a":1}`, `{"b":{"c":2}}`}))
		}
		return m
	}
	wheres := someWheres
	var labels map[string]string
	var spec model.Spec
	switch kind {
	case "Node":
		pairs := func(of string) map[string]string {
			m := map[string]string{}
			for _, l := range some(of, []string{"a", "b"}) {
				m[l] = pick("label", []string{"1", "2"})
			}
			return m
		}
		labels = pairs("labels")
		var given *model.JoinGrant
		if rapid.Bool().Draw(rt, "joined") {
			given = &model.JoinGrant{Token: "t", Groups: some("given groups", someGroups), Labels: pairs("given labels")}
		}
		spec = &model.NodeSpec{
			JoinGrant: given, Groups: some("own groups", someGroups), Properties: values(), Facts: pairs("facts"), AgentLabels: pairs("agent's labels"),
			AgentGroups: some("claims", someGroups), MayJoin: some("allowed", someGroups),
			Proxy: rapid.IntRange(0, 2).Draw(rt, "proxy") == 0,
		}
	case "Group":
		var inside []string // only later ones: no cycles
		for _, g := range some("groups", someGroups) {
			if g > name {
				inside = append(inside, g)
			}
		}
		g := &model.GroupSpec{Nodes: some("nodes", someNodes), Groups: inside, Where: pick("where", wheres), Properties: values()}
		switch rapid.IntRange(0, 2).Draw(rt, "who may join") {
		case 0:
			g.SelfJoin = true
		case 1:
			g.Trusted, g.Where = true, pick("trusted where", trustedWheres)
		}
		spec = g
	case "Check":
		wheres = append(slices.Clone(wheres), `"g1" in node.groups`)
		target := func() *model.Targets {
			return &model.Targets{Groups: some("groups", someGroups), Nodes: some("nodes", someNodes), Where: pick("where", wheres)}
		}
		t := target()
		if rapid.Bool().Draw(rt, "except") {
			t.Except = target()
		}
		c := commandCheck("check {{ .props."+pick("reads", []string{"p0", "p1"})+" }} "+pick("argument", []string{"x", "y"}), t)
		if rapid.IntRange(0, 2).Draw(rt, "about proxies") == 0 {
			c.Proxy = target()
		}
		c.Disabled = rapid.IntRange(0, 9).Draw(rt, "disabled") == 0
		spec = c
	case "Property":
		scope := pick("scope", []string{"", "global", "namespace", "group:g0", "group:g1", "node:n1"})
		spec = &model.PropertySpec{Property: pick("property", []string{"p0", "p1"}), Scope: scope, Value: json.RawMessage(pick("value", []string{"1", "3", `{"a":2}`}))}
	}
	data, err := json.Marshal(model.Resource{
		APIVersion: model.APIVersion, Kind: kind, Metadata: model.Metadata{Name: name, Namespace: ns, Labels: labels}, Spec: spec,
	})
	if err != nil {
		rt.Fatal(err)
	}
	w.Body = data
	return w
}

// compareWithNaivePlanner compares the planner's state with a simple model that computes everything from
// scratch. The model evaluates every definition for each node and check.
func (h *testPlanner) compareWithNaivePlanner(rt *rapid.T) {
	type resource[S any] struct {
		Metadata model.Metadata
		Spec     S
	}
	groups, checks := map[route.Name]model.GroupSpec{}, map[route.Name]model.CheckSpec{}
	decode := func(row intent.Row, into any) {
		if err := json.Unmarshal(row.Body, into); err != nil {
			rt.Fatal(err)
		}
	}
	for _, row := range h.rows {
		switch row.Kind {
		case "Group":
			var r resource[model.GroupSpec]
			decode(row, &r)
			groups[routeName(row.Namespace, row.Name)] = r.Spec
		case "Check":
			var r resource[model.CheckSpec]
			decode(row, &r)
			checks[routeName(row.Namespace, row.Name)] = r.Spec
		}
	}
	for _, row := range h.rows {
		if row.Kind != "Node" {
			continue
		}
		var n resource[model.NodeSpec]
		decode(row, &n)
		ns := row.Namespace
		listed := func(owner string, names []string) bool {
			return slices.Contains(names, row.Name) && (owner == ns || owner == "shared")
		}
		given := model.JoinGrant{}
		if n.Spec.JoinGrant != nil {
			given = *n.Spec.JoinGrant
		}
		labels, own := map[string]string{}, map[string]string{}
		for _, owner := range []map[string]string{n.Spec.Facts, n.Spec.AgentLabels, given.Labels, n.Metadata.Labels} {
			maps.Copy(labels, owner)
		}
		for _, owner := range []map[string]string{given.Labels, n.Metadata.Labels} {
			maps.Copy(own, owner)
		}
		holds := func(expr string, groups []string, trusted bool) bool {
			if expr == "" {
				return false
			}
			w, err := where.Compile(expr)
			if err != nil {
				rt.Fatal(err)
			}
			seen := where.NewNode()
			if seen.Set(ns, row.Name, where.MakePairs(labels), where.MakePairs(n.Spec.Facts)); trusted {
				seen.Set(ns, row.Name, where.MakePairs(own), nil)
			}
			seen.SetGroups(groups)
			return w.Match(seen)
		}
		var member func(route.Name) bool
		member = func(g route.Name) bool {
			if g.Namespace != ns && g.Namespace != "shared" {
				return false
			}
			if g.Namespace == ns && (slices.Contains(n.Spec.Groups, g.Name) || slices.Contains(given.Groups, g.Name)) {
				return true
			}
			spec, declared := groups[g]
			if g.Namespace == ns && slices.Contains(n.Spec.AgentGroups, g.Name) && !spec.Trusted &&
				(spec.SelfJoin || slices.Contains(n.Spec.MayJoin, g.Name)) {
				return true
			}
			if !declared {
				return false
			}
			if listed(g.Namespace, spec.Nodes) || holds(spec.Where, nil, spec.Trusted) {
				return true
			}
			return slices.ContainsFunc(spec.Groups, func(inside string) bool {
				return (!spec.Trusted || groups[routeName(g.Namespace, inside)].Trusted) && member(routeName(g.Namespace, inside))
			})
		}
		var names []string
		for _, owner := range []string{"default", "shared"} {
			for _, g := range someGroups {
				if member(routeName(owner, g)) {
					if owner == "shared" {
						names = append(names, "shared/"+g)
					} else {
						names = append(names, g)
					}
				}
			}
		}
		if got := h.p.directory.NodeGroups(model.NodeID(row.ID)); !sameStrings(got, names) {
			rt.Errorf("groups of %s/%s: %v, naively %v", ns, row.Name, got, names)
		}
		var on func(string, *model.Targets) bool
		on = func(owner string, t *model.Targets) bool {
			if t == nil || owner != ns && owner != "shared" {
				return false
			}
			in := slices.ContainsFunc(t.Groups, func(g string) bool { return member(routeName(owner, g)) })
			return (in || listed(owner, t.Nodes) || holds(t.Where, names, false)) && !on(owner, t.Except)
		}
		for _, why := range h.p.Inspector().ExplainGroups(model.NodeID(row.ID)) {
			if len(why.Steps) == 0 || !why.Lands {
				rt.Errorf("groups of %s/%s: nothing explains %+v", ns, row.Name, why)
			}
		}
		for c, spec := range checks {
			id, _ := h.p.directory.CheckByName(c.Namespace, c.Name)
			want := on(c.Namespace, spec.Targets) && !spec.Disabled
			if n.Spec.Proxy {
				want = on(c.Namespace, spec.Proxy) && spec.Targets != nil && !spec.Disabled
			}
			if got := h.p.directory.RunsUnit(model.NodeID(row.ID), id); got != want {
				rt.Errorf("%s on %s/%s: %v, naively %v", c, ns, row.Name, got, want)
			}
			if why, _ := h.p.Inspector().ExplainCheck(model.NodeID(row.ID), id); why.Lands != want {
				rt.Errorf("explain %s on %s/%s: %+v, naively %v", c, ns, row.Name, why, want)
			}
		}
	}
}

// newTestFleet returns n nodes in racks of ten with 40 checks on each node.
func newTestFleet(t testing.TB, n int) *testPlanner {
	h := newTestPlanner(t)
	p := h.p
	h.p = nil
	var writes []intent.Write
	put := func(kind, name string, labels map[string]string, spec model.Spec) {
		writes = append(writes, intent.Write{
			Key: intent.Key{Kind: kind, Namespace: "default", Name: name}, Body: encodeSpec(t, kind, "default", name, labels, spec), Expect: -1,
		})
	}
	for i := range n {
		put("Node", fmt.Sprintf("node%05d", i), map[string]string{"env": []string{"prod", "staging"}[i%2], "site": fmt.Sprint("s", i%20)},
			&model.NodeSpec{
				Groups: []string{"all", fmt.Sprint("rack", i/10)},
				Facts:  map[string]string{"os": "linux", "arch": "amd64", "hostname": fmt.Sprintf("node%05d", i), "kernel": "6.12"},
			})
	}
	put("Group", "prod", nil, &model.GroupSpec{Where: `node.labels.env == "prod"`})
	for i := range 40 {
		put("Check", fmt.Sprintf("check%02d", i), nil, commandCheck(fmt.Sprintf("check %d", i), &model.Targets{Groups: []string{"all"}}))
	}
	put("Check", "rack", nil, commandCheck("check rack", &model.Targets{Groups: []string{"rack3"}}))
	h.write(writes...)
	h.p = p
	if err := p.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

// TestWorkDependsOnTheChangeNotTheFleet counts the planner's work for small changes, and expects work
// independent of the size of the fleet.
func TestWorkDependsOnTheChangeNotTheFleet(t *testing.T) {
	h := newTestFleet(t, 2000)
	work := func(change func()) (changed int, c Counts) {
		before := h.p.Counts()
		h.changed = nil
		change()
		after := h.p.Counts()
		return len(h.changed), Counts{
			Passes: after.Passes - before.Passes, Nodes: after.Nodes - before.Nodes, Groups: after.Groups - before.Groups,
			Units: after.Units - before.Units, Conditions: after.Conditions - before.Conditions,
			Built: after.Built - before.Built, Changed: after.Changed - before.Changed,
		}
	}
	// Passes: one for the change and, where a check got a new definition, one for the
	// record of its number, which concerns nobody.
	for _, c := range []struct {
		name    string
		change  func()
		changed int
		counts  Counts
	}{
		{"a check of ten nodes", func() {
			h.apply("Check", "default", "rack", nil, commandCheck("other", &model.Targets{Groups: []string{"rack3"}}))
		}, 10, Counts{Passes: 2, Units: 1, Built: 10, Changed: 10}},
		{"its label", func() {
			h.apply("Check", "default", "rack", map[string]string{"a": "b"}, commandCheck("other", &model.Targets{Groups: []string{"rack3"}}))
		}, 0, Counts{Passes: 1, Units: 1}},
		{"its targets", func() {
			h.apply("Check", "default", "rack", nil, commandCheck("other", &model.Targets{Groups: []string{"rack3", "rack4"}}))
		}, 10, Counts{Passes: 1, Units: 1, Built: 10, Changed: 10}},
		{"a node", func() {
			h.node("node00000", map[string]string{"env": "staging"}, "all", "rack3")
		}, 1, Counts{Passes: 1, Nodes: 1, Conditions: 1, Built: 1, Changed: 1}},
		{"a node's label that nobody targets", func() {
			h.node("node00001", map[string]string{"env": "prod", "note": "x"}, "all", "rack0")
		}, 0, Counts{Passes: 1, Nodes: 1, Conditions: 1, Built: 1}},
		{"a new node", func() { h.node("new", nil, "all") }, 1, Counts{Passes: 1, Nodes: 1, Conditions: 1, Built: 1, Changed: 1}},
		{"a group of two", func() {
			h.apply("Group", "default", "pair", nil, &model.GroupSpec{Nodes: []string{"node00005", "node00006"}})
		}, 0, Counts{Passes: 1, Nodes: 2, Groups: 1, Built: 2}},
		{"a condition", func() {
			h.apply("Check", "default", "cond", nil, commandCheck("cond", &model.Targets{Where: `node.labels.site == "s7"`}))
		}, 100, Counts{Passes: 2, Units: 1, Conditions: 2001, Built: 100, Changed: 100}},
		{"a property nobody reads", func() {
			h.apply("Property", "default", "x", nil, &model.PropertySpec{Value: json.RawMessage("1")})
		}, 0, Counts{Passes: 1}},
	} {
		changed, counts := work(c.change)
		if changed != c.changed || counts != c.counts {
			t.Errorf("%s: %d assignments changed, want %d\n  %+v\n  %+v", c.name, changed, c.changed, counts, c.counts)
		}
	}
}

// TestCostlyConditionsAreRefused previews groups whose conditions take long over all nodes, and expects errors. The planner then
// is as before, and compiles a change that was recorded nevertheless.
func TestCostlyConditionsAreRefused(t *testing.T) {
	h := newTestFleet(t, 1000)
	before, clock := h.snapshot(), time.Unix(0, 0)
	perCall := time.Duration(0)
	h.p.fleet.now = func() time.Time { clock = clock.Add(perCall); return clock }
	group := func(where string) *model.GroupSpec { return &model.GroupSpec{Where: where} }
	for _, c := range []struct {
		took  time.Duration // of one node
		where string
		want  string
	}{
		{time.Millisecond, `node.labels.site == "s3"`, ""}, {3 * time.Millisecond, `node.labels.site == "s3"`, "takes more than 2s over all nodes"},
		{3 * time.Millisecond, `node.labels.env == "prod"`, ""}, // known
	} {
		perCall = c.took
		err := h.preview("Group", "new", group(c.where))
		if (err == nil) != (c.want == "") || err != nil && (model.ClassOf(err) != model.Limited || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s of %s for each node: %v, want %q", c.where, c.took, err, c.want)
		}
	}
	perCall = 3 * time.Millisecond
	if err := h.preview("Check", "new", commandCheck("new", &model.Targets{Where: `"rack3" in node.groups`})); model.ClassOf(err) != model.Limited {
		t.Errorf("a condition over groups: %v", err)
	}
	var writes []intent.Write
	for i := range 40 {
		name := fmt.Sprint("new", i)
		writes = append(writes, intent.Write{Key: intent.Key{Kind: "Group", Namespace: "default", Name: name}, Body: encodeSpec(t, "Group", "default", name, nil, group(fmt.Sprintf("node.labels.site == %q", name)))})
	}
	perCall = time.Millisecond
	if _, err := h.p.Preview(t.Context(), writes, false); model.ClassOf(err) != model.Limited || !strings.Contains(err.Error(), "take more than 30s") {
		t.Errorf("forty conditions of a second each: %v", err)
	}
	if after := h.snapshot(); !reflect.DeepEqual(before, after) {
		t.Error("refused previews have changed the planner")
	}
	perCall = 3 * time.Millisecond
	if _, err := h.p.Inspector().Select("default", &model.Targets{Where: `node.labels.site == "s3"`}); model.ClassOf(err) != model.Limited {
		t.Errorf("a selection for a run: %v", err)
	}
	searches := 0
	h.p.SetInventories(func(ctx context.Context) EntrySearch {
		return func(model.NodeID, *where.EntryTerm) (found, known bool) {
			if _, limited := ctx.Deadline(); limited {
				searches++
			}
			return true, true
		}
	})
	perCall = 0
	if err := h.preview("Group", "inventory", group(`inventory.packages.exists(p, p.name == "openssl")`)); err != nil || searches != 1000 {
		t.Errorf("%d searches of a preview have a time limit, want 1000: %v", searches, err)
	}
	perCall = 3 * time.Millisecond
	h.apply("Group", "default", "new", nil, group(`node.labels.site == "s3"`))
	if n := len(h.members("new")); n != 50 {
		t.Errorf("a recorded group has %d members, want 50", n)
	}
}
