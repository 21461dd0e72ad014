package plan

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestPassiveChecksAreFoundByName looks up passive checks (with results from outside) by name, and expects the
// right source for each. The results of a passive check come from outside.
func TestPassiveChecksAreFoundByName(t *testing.T) {
	h := newTestPlanner(t)
	h.apply("Check", "default", "declared", nil, &model.CheckSpec{Passive: true})
	h.apply("Check", "default", "made", map[string]string{model.SourceLabel: model.SourceSensu}, &model.CheckSpec{Passive: true, Disabled: true})
	h.apply("Check", "default", "run", map[string]string{model.SourceLabel: model.SourceSensu}, commandCheck("true", &model.Targets{Groups: []string{"all"}}))
	for name, want := range map[string]directory.PassiveCheck{"declared": {}, "made": {Disabled: true, Source: "sensu-agent"}, "run": {Source: "sensu-agent"}} {
		got, ok := h.p.directory.PassiveCheck("default", name)
		if passive := name != "run"; !ok || passive != (got.Definition != nil) || got.Disabled != want.Disabled || got.Source != want.Source {
			t.Errorf("%s: %v %+v", name, ok, got)
		}
	}
	if _, ok := h.p.directory.PassiveCheck("other", "made"); ok {
		t.Error("found elsewhere")
	}
	for source, want := range map[string]int{"": 2, model.SourceSensu: 1, model.SourceAlerts: 0} {
		if got := h.p.directory.PassiveChecks("default", source); len(got) != want {
			t.Errorf("made for %q: %v", source, got)
		}
	}
	if got := h.p.directory.PassiveChecks("other", ""); len(got) != 0 {
		t.Errorf("elsewhere: %v", got)
	}
}

// TestHooksByNameReachTheNodes declares a Hook that a check names, and expects the hook's command in assignments. The
// nodes run the check. An edit of the Hook also reaches the nodes.
func TestHooksByNameReachTheNodes(t *testing.T) {
	h := newTestPlanner(t)
	h.node("web01", nil, "web")
	h.apply("Hook", "default", "look", nil, &model.HookSpec{Command: &model.Command{Shell: "ps"}, Stdin: true})
	spec := commandCheck("true", &model.Targets{Groups: []string{"web"}})
	spec.Hooks = []model.Hook{{Hook: "look", When: []string{"critical"}}, {Name: "own", When: []string{"ok"}, Command: &model.Command{Shell: "uptime"}}}
	spec.Pipelines = []string{"alerts"}
	h.apply("Check", "default", "cpu", nil, spec)
	held := func(command string, stdin bool) {
		t.Helper()
		definitions := h.p.directory.AssignmentOf(h.id("web01")).Definitions
		if len(definitions) != 1 || len(definitions[0].AsCheck().Hooks) != 2 || len(definitions[0].AsCheck().Pipelines) != 1 {
			t.Fatalf("%+v", definitions)
		}
		if got := definitions[0].AsCheck().Hooks[0]; got.Name != "look" || got.Command.Shell != command || got.Stdin != stdin || got.Hook != "" || got.When[0] != "critical" {
			t.Errorf("%+v", got)
		}
		if got := definitions[0].AsCheck().Hooks[1]; got.Name != "own" || got.Command.Shell != "uptime" {
			t.Errorf("%+v", got)
		}
	}
	held("ps", true)
	h.apply("Property", "default", "flags", nil, &model.PropertySpec{Value: []byte(`"-ef"`)})
	h.apply("Hook", "default", "look", nil, &model.HookSpec{Command: &model.Command{Shell: "ps {{ .props.flags }}"}})
	held("ps {{ .props.flags }}", false)
	if got := h.p.directory.AssignmentOf(h.id("web01")).Properties; len(got) != 1 || got[0].Name != "flags" {
		t.Errorf("%+v", got)
	}
}

// TestDependenciesComeFromChecksAndUpstreams expects the dependencies of a problem, from its check and from upstream
// nodes, in order. Upstream nodes come first, the farthest before the others, then the checks of dependsOn.
func TestDependenciesComeFromChecksAndUpstreams(t *testing.T) {
	h := newTestPlanner(t)
	ping := commandCheck("true", nil)
	ping.Interval, ping.Timeout, ping.Alert = model.Duration(10*time.Second), model.Duration(5*time.Second), &model.Alert{FailAfter: 2}
	h.apply("Check", "shared", "ping", nil, ping)
	http, db := commandCheck("true", nil), commandCheck("true", nil)
	http.DependsOn, db.DependsOn = []string{"db", "gone"}, []string{"shared/ping", "http", "keepalive"} // apply refuses the cycle; it must end all the same
	h.apply("Check", "default", "db", nil, db)
	h.apply("Check", "default", "http", nil, http)
	h.apply("Node", "shared", "core", nil, &model.NodeSpec{Proxy: true})
	h.apply("Node", "default", "sw7", nil, &model.NodeSpec{Upstream: &model.Upstream{Node: "shared/core", Check: "shared/ping"}})
	h.apply("Node", "default", "web01", nil, &model.NodeSpec{Upstream: &model.Upstream{Node: "sw7"}})
	says := func(node, check string) (list []string) {
		id, _ := h.p.directory.CheckByName("default", check)
		of, _ := h.p.directory.NodeByName("default", node)
		for _, m := range h.p.directory.Dependencies(of, model.CheckSource(id)) {
			word := "depends "
			if m.OnUpstream {
				word = "behind "
			}
			list = append(list, word+m.Name.String()+" "+m.Settle.String())
		}
		return list
	}
	for _, c := range []struct {
		node, check string
		want        []string
	}{
		{"sw7", "keepalive", []string{"behind shared/core/ping 25s"}},
		{"web01", "keepalive", []string{"behind shared/core/ping 25s", "behind default/sw7/keepalive 2m0s"}},
		{"web01", "http", []string{"behind shared/core/ping 25s", "behind default/sw7/keepalive 2m0s", "depends default/web01/db 2m0s", "depends default/web01/ping 25s", "depends default/web01/keepalive 2m0s"}},
	} {
		got := says(c.node, c.check)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s/%s: %q, want %q", c.node, c.check, got, c.want)
		}
	}
	h.apply("Node", "default", "sw7", nil, &model.NodeSpec{})
	if got := says("web01", "keepalive"); !slices.Equal(got, []string{"behind default/sw7/keepalive 2m0s"}) {
		t.Errorf("after a change: %q", got)
	}
}

// TestRoundRobinChecksHaveMembers declares a round-robin check, and expects the planner's directory (table for
// readers) to list the check's nodes. It expects the proxy nodes of the check, too.
func TestRoundRobinChecksHaveMembers(t *testing.T) {
	h := newTestPlanner(t)
	h.apply("Group", "default", "pollers", nil, &model.GroupSpec{})
	a, b := h.node("a", nil, "pollers"), h.node("b", nil, "pollers")
	h.node("other", nil)
	s1, s2 := h.proxyNode("s1", "192.0.2.1"), h.proxyNode("s2", "192.0.2.2")
	about := pingCheck()
	about.RoundRobin = true
	h.apply("Check", "default", "ping", nil, about)
	plain := commandCheck("true", &model.Targets{Groups: []string{"pollers"}})
	h.apply("Check", "default", "all", nil, plain)
	alone := *plain
	alone.RoundRobin = true
	h.apply("Check", "default", "one", nil, &alone)

	list := h.p.directory.RoundRobins()
	if len(list) != 2 || list[0].Definition.Name != "ping" || list[1].Definition.Name != "one" {
		t.Fatalf("robins: %+v", list)
	}
	for i, want := range [][]model.NodeID{{s1, s2}, {0}} {
		r := list[i]
		var got []model.NodeID
		for _, s := range r.Subjects {
			got = append(got, s.ID)
		}
		if members := nodeIDs(r.Members); !slices.Equal(members, []model.NodeID{a, b}) || !slices.Equal(got, want) || r.Namespace != "default" {
			t.Errorf("%s: members %v, about %v in %s", r.Definition.Name, members, got, r.Namespace)
		}
	}
	if held := h.p.directory.AssignmentOf(a); !slices.ContainsFunc(held.Definitions, func(c *model.Definition) bool { return c.Name == "one" && c.AsCheck().RoundRobin }) {
		t.Errorf("the agent is not told that it does not run it by itself: %+v", held.Definitions)
	}
	off := alone
	off.Disabled = true
	h.apply("Check", "default", "one", nil, &off)
	about.Targets = nil
	h.apply("Check", "default", "ping", nil, about)
	if list := h.p.directory.RoundRobins(); len(list) != 0 {
		t.Errorf("left: %+v", list)
	}
}

// TestScheduleExceptionsReachTheNodes declares exceptions in the schedule of a check, and expects the exceptions in
// the assignments of nodes. An edit of the Window or of the time zone also reaches the nodes.
func TestScheduleExceptionsReachTheNodes(t *testing.T) {
	h := newTestPlanner(t)
	h.node("web01", nil, "web")
	h.apply("Window", "default", "night", nil, &model.WindowSpec{Spans: []model.WindowSpan{{During: "22:00-07:00"}}})
	spec := commandCheck("true", &model.Targets{Groups: []string{"web"}})
	spec.Schedule = &model.Schedule{Except: []model.ScheduleException{{Window: "night"}, {During: "sat,sun Europe/Paris"}}}
	h.apply("Check", "default", "backup", nil, spec)
	held := func(zone, during string) {
		t.Helper()
		definitions := h.p.directory.AssignmentOf(h.id("web01")).Definitions
		if len(definitions) != 1 || len(definitions[0].AsCheck().Except) != 2 {
			t.Fatalf("%+v", definitions)
		}
		night, weekend := definitions[0].AsCheck().Except[0], definitions[0].AsCheck().Except[1]
		if night.Zone != zone || night.Spans[0].During != during || weekend.Zone != "Europe/Paris" || weekend.Spans[0].During != "sat,sun" {
			t.Errorf("%+v", definitions[0].AsCheck().Except)
		}
	}
	held("", "22:00-07:00")
	h.apply("Window", "default", "night", nil, &model.WindowSpec{Spans: []model.WindowSpan{{During: "23:00-05:00"}}})
	held("", "23:00-05:00")
	h.apply("Namespace", "", "default", nil, &model.NamespaceSpec{TimeZone: "America/New_York"})
	held("America/New_York", "23:00-05:00")
	h.apply("Window", "default", "night", nil, &model.WindowSpec{TimeZone: "UTC", Spans: []model.WindowSpan{{During: "23:00-05:00"}}})
	held("UTC", "23:00-05:00")
}

// TestAssetsReachTheNodes declares an Asset for a check, and expects its archives in assignments. The assignments lack
// the source addresses. An edit of the Asset also reaches the nodes.
func TestAssetsReachTheNodes(t *testing.T) {
	h := newTestPlanner(t)
	sum := func(letter string) string { return strings.Repeat(letter, 128) }
	asset := func(builds ...model.AssetBuild) *model.AssetSpec { return &model.AssetSpec{Builds: builds} }
	h.apply("Namespace", "", "other", nil, &model.NamespaceSpec{})
	h.apply("Asset", "default", "tools", nil, asset(model.AssetBuild{SHA512: sum("a"), OS: "linux", URL: "https://far.example.org/a"}, model.AssetBuild{SHA512: sum("b")}))
	h.apply("Asset", "other", "tools", nil, asset(model.AssetBuild{SHA512: sum("c")}))
	h.apply("Asset", model.SharedNamespaceName, "ruby", nil, asset(model.AssetBuild{SHA512: sum("d")}))
	h.node("web01", nil, "web")
	check := func(name string, assets ...string) {
		t.Helper()
		spec := commandCheck("true", &model.Targets{Groups: []string{"web"}})
		spec.Assets = assets
		h.apply("Check", "default", name, nil, spec)
	}
	check("cpu", model.SharedNamespaceName+"/ruby", "tools")
	check("plain")
	h.apply("Hook", "default", "trace", nil, &model.HookSpec{Command: &model.Command{Shell: "trace"}, Assets: []string{"tools", "shared/ruby"}})
	traced := commandCheck("true", &model.Targets{Groups: []string{"web"}})
	traced.Assets, traced.Hooks = []string{"shared/ruby"}, []model.Hook{{Hook: "trace", When: []string{"critical"}}}
	h.apply("Check", "default", "traced", nil, traced)
	held := func(check string, want ...string) {
		t.Helper()
		for _, definition := range h.p.directory.AssignmentOf(h.id("web01")).Definitions {
			c := definition.AsCheck()
			if c.Name != check {
				continue
			}
			var got []string
			for _, a := range c.Assets {
				one := a.Name
				if a.HooksOnly {
					one += " for hooks"
				}
				for _, b := range a.Builds {
					one += " " + b.OS + ":" + b.SHA512[:1]
					if b.URL != "" {
						t.Errorf("an agent is told of the address %s", b.URL)
					}
				}
				got = append(got, one)
			}
			if strings.Join(got, ", ") != strings.Join(want, ", ") {
				t.Errorf("%s has %q, want %q", check, got, want)
			}
			return
		}
		t.Errorf("web01 has no check %s", check)
	}
	held("cpu", model.SharedNamespaceName+"/ruby :d", "tools linux:a :b")
	held("plain")
	held("traced", "shared/ruby :d", "tools for hooks linux:a :b")
	before := h.p.directory.AssignmentOf(h.id("web01"))
	h.apply("Asset", "other", "tools", nil, asset(model.AssetBuild{SHA512: sum("e")})) // of no concern here
	if after := h.p.directory.AssignmentOf(h.id("web01")); after.Hash != before.Hash {
		t.Errorf("another namespace's asset changes the assignment: %x, was %x", after.Hash, before.Hash)
	}
	h.apply("Asset", "default", "tools", nil, asset(model.AssetBuild{SHA512: sum("f")}))
	held("cpu", model.SharedNamespaceName+"/ruby :d", "tools :f")
	held("traced", "shared/ruby :d", "tools for hooks :f")
	h.apply("Asset", model.SharedNamespaceName, "ruby", nil, asset(model.AssetBuild{SHA512: sum("0")}))
	held("cpu", model.SharedNamespaceName+"/ruby :0", "tools :f")
	check("cpu", "tools")
	held("cpu", "tools :f")
	check("cpu")
	held("cpu")
}

// TestRolloutMovesNodesToTheNewVersion advances a gradual roll-out, and expects changed assignments only on nodes that
// get the new version
func TestRolloutMovesNodesToTheNewVersion(t *testing.T) {
	h := newTestPlanner(t)
	a, b, c := h.node("a", nil, "web", "first"), h.node("b", nil, "web", "second"), h.node("c", nil, "first")
	spec := func(line string) *model.CheckSpec {
		return commandCheck(line+" {{ .props.port | default \"1\" }}", &model.Targets{Groups: []string{"web"}})
	}
	key := intent.Key{Kind: "Check", Namespace: "default", Name: "check"}
	h.apply(key.Kind, key.Namespace, key.Name, nil, spec("old"))
	id, _ := h.p.directory.CheckByName("default", "check")

	compile := func(line string) *unit {
		t.Helper()
		def, err := h.p.decode(key, uint32(id), encodeSpec(t, key.Kind, key.Namespace, key.Name, nil, spec(line)))
		if err != nil {
			t.Fatal(err)
		}
		u, err := h.p.compiler.unit(def.(*declaredResource), func(k intent.Key) any { return h.p.fleet.definitions[k] }, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.p.definitions.assignIDs(t.Context(), []*unit{u}, nil); err != nil {
			t.Fatal(err)
		}
		return u
	}
	apply := func(u *unit) {
		h.changed, h.forgotten = nil, nil
		h.p.compiling.Lock()
		defer h.p.compiling.Unlock()
		edits := newTranslation()
		edits.set(key, u)
		edits.compare(h.p.fleet.definitions)
		h.p.commit(edits, h.p.Revision()+1, nil)
	}
	commandOn := func(node model.NodeID) string {
		return h.p.directory.AssignmentOf(node).Definitions[0].AsCheck().Command.Shell[:3]
	}
	expect := func(stage string, onA, onB string, changed int) {
		t.Helper()
		if commandOn(a) != onA || commandOn(b) != onB || len(h.changed) != changed || len(h.forgotten) != 0 {
			t.Errorf("%s: a has %q, b has %q, %d assignments changed, %d removals", stage, commandOn(a), commandOn(b), len(h.changed), len(h.forgotten))
		}
		if n := len(h.p.directory.AssignmentOf(c).Definitions); n != 0 {
			t.Errorf("%s: a node outside the targets has %d definitions", stage, n)
		}
	}

	old, next := h.p.fleet.units[id].def, compile("new")
	staged := func(names ...string) *unit {
		u := *old
		u.next = &rollout{body: next.body}
		for _, name := range names {
			u.next.groups = insert(u.next.groups, h.p.groups.number(routeName("default", name)))
		}
		return &u
	}
	expect("before", "old", "old", 2)
	apply(staged("first"))
	expect("first stage", "new", "old", 1)
	h.apply("Node", "default", "a", nil, &model.NodeSpec{Groups: []string{"web", "first"}, Facts: map[string]string{"os": "linux"}})
	expect("a fact in between", "new", "old", 0)
	apply(staged("first", "second"))
	expect("second stage", "new", "new", 1)
	apply(staged("second"))
	expect("one node goes back", "old", "new", 1)
	apply(staged("first", "second"))
	expect("and on again", "new", "new", 1)
	apply(next)
	expect("after", "new", "new", 0)
}

// proxyNode declares a switch as a proxy node and returns its id
func (h *testPlanner) proxyNode(name, address string) model.NodeID {
	h.apply("Node", "default", name, map[string]string{"kind": "switch"}, &model.NodeSpec{Proxy: true, Properties: map[string]json.RawMessage{"address": json.RawMessage(`"` + address + `"`)}})
	return h.id(name)
}

// pingCheck returns a check by which machines ping all proxy nodes with the label of a switch. The nodes of
// group pollers run the check.
func pingCheck() *model.CheckSpec {
	c := commandCheck("ping {{ .props.address }}", &model.Targets{Groups: []string{"pollers"}})
	c.Proxy = &model.Targets{Where: `node.labels.kind == "switch"`}
	return c
}

// TestProxyCheckSelectsMachinesAndProxyNodes declares a proxy check, and expects assignments for the machines that run
// the check. The assignment has the properties of the proxy nodes.
func TestProxyCheckSelectsMachinesAndProxyNodes(t *testing.T) {
	h := newTestPlanner(t)
	h.apply("Group", "default", "pollers", nil, &model.GroupSpec{})
	a, b := h.node("a", map[string]string{"kind": "switch"}, "pollers"), h.node("b", nil, "pollers")
	other := h.node("other", nil)
	s1, s2 := h.proxyNode("s1", "192.0.2.1"), h.proxyNode("s2", "192.0.2.2")
	h.apply("Check", "default", "ping", nil, pingCheck())
	h.apply("Check", "default", "disk", nil, commandCheck("true", &model.Targets{Where: "true"}))
	check, _ := h.p.directory.CheckByName("default", "ping")

	want := wire.ProxyChecks{Nodes: []wire.ProxyNode{
		{Node: s1, Name: "s1", Properties: []wire.Property{{Name: "address", Value: []byte(`"192.0.2.1"`)}}},
		{Node: s2, Name: "s2", Properties: []wire.Property{{Name: "address", Value: []byte(`"192.0.2.2"`)}}},
	}}
	for _, runner := range []model.NodeID{a, b} {
		got := h.p.directory.AssignmentOf(runner)
		i := slices.IndexFunc(got.Definitions, func(c *model.Definition) bool { return c.Unit == check })
		want.Sets = []wire.ProxySet{{Definitions: []model.DefinitionID{got.Definitions[i].ID}, Nodes: []model.NodeID{s1, s2}}}
		if !got.Definitions[i].AsCheck().Proxy || got.Proxied == nil || !got.Proxied.Equal(&want) || len(got.Properties) != 0 {
			t.Errorf("node %d holds %+v, properties %v", runner, got.Proxied, got.Properties)
		}
		if got.Hash != wire.AssignmentHash(got.Definitions, got.Properties, &got.Proxied.ProxyChecks) {
			t.Error("the hash does not cover whom the checks speak of")
		}
		if p, ok := got.ProxyNode(check, s2); !ok || p.ID != s2 || p.Namespace != 1 || p.UID != h.p.directory.Node(s2).UID {
			t.Errorf("speaks for s2: %+v %v", p, ok)
		}
		if _, ok := got.ProxyNode(check, other); ok {
			t.Error("speaks for a machine")
		}
	}
	if got := h.p.directory.AssignmentOf(other); got.Proxied != nil || h.p.directory.AssignmentOf(s1) != nil {
		t.Error("who runs no proxy check is told of one, or a proxy node has an assignment")
	}
	if got := h.p.directory.NodeUnits(s1); !slices.Equal(got, []model.CheckID{check}) {
		t.Errorf("about s1: %v", got)
	}
	if l := h.p.Inspector().Placement(intent.Key{Kind: "Check", Namespace: "default", Name: "ping"}); l.Nodes != 2 || l.ProxyNodes != 2 {
		t.Errorf("lands %+v", l)
	}
	if faults, _ := h.p.Inspector().Faults(""); len(faults) != 0 {
		t.Errorf("faults: %+v", faults)
	}

	// What is new of the proxy nodes reaches those who run checks about them, and only those.
	changed := h.p.fleet.counts.Changed
	gen := h.p.directory.AssignmentOf(other).Generation
	s3 := h.proxyNode("s3", "192.0.2.3")
	h.proxyNode("s1", "192.0.2.11")
	if got := h.p.directory.AssignmentOf(a); len(got.Proxied.Nodes) != 3 || string(got.Proxied.Nodes[0].Properties[0].Value) != `"192.0.2.11"` {
		t.Errorf("a is told of %+v", got.Proxied.Nodes)
	}
	if h.p.directory.AssignmentOf(other).Generation != gen || h.p.fleet.counts.Changed-changed != 4 {
		t.Errorf("%d assignments changed", h.p.fleet.counts.Changed-changed)
	}

	// Of what lands no more the events go: those of the proxy nodes, and of machines that had
	// their own before.
	h.forgotten = nil
	kept := h.p.Revision()
	h.apply("Node", "default", "s3", nil, &model.NodeSpec{Proxy: true})
	h.apply("Check", "default", "disk", nil, func() *model.CheckSpec { c := pingCheck(); return c }())
	disk, _ := h.p.directory.CheckByName("default", "disk")
	forgotten := []Removal{{Node: s3, Mark: wire.ForgetRecord{Check: check}}}
	for _, n := range []model.NodeID{a, b, other} {
		forgotten = append(forgotten, Removal{Node: n, Mark: wire.ForgetRecord{Check: disk}})
	}
	same := func(got []Removal) bool {
		distinct := map[Removal]bool{}
		for _, f := range got {
			distinct[f] = true
		}
		for _, f := range forgotten {
			if !distinct[f] {
				return false
			}
			delete(distinct, f)
		}
		return len(distinct) == 0
	}
	if !same(h.forgotten) {
		t.Errorf("forgotten %+v, want %+v", h.forgotten, forgotten)
	}
	before := h.p.directory.AssignmentOf(a)
	if since, err := h.p.RemovalsSince(context.Background(), kept); err != nil || !same(since) {
		t.Errorf("since: %+v %v", since, err)
	}
	if !reflect.DeepEqual(h.p.directory.AssignmentOf(a), before) {
		t.Error("looking back changed an assignment")
	}
}
