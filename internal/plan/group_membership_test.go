package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// members returns the names of the nodes in a group
func (h *testPlanner) members(group string) (names []string) {
	for _, id := range h.p.directory.GroupMembers("default", group) {
		_, name, _ := h.p.directory.NodeName(id)
		names = append(names, name)
	}
	return names
}

// TestAgentsJoinOnlyPermittedGroups lets agents ask to join groups, and expects only permitted agents to become
// members. The group or the node must permit the request. No agent joins a trusted group.
func TestAgentsJoinOnlyPermittedGroups(t *testing.T) {
	h := newTestPlanner(t)
	h.apply("Node", "default", "n1", nil, &model.NodeSpec{AgentGroups: []string{"canary", "web", "root"}, MayJoin: []string{"web", "root"}})
	h.apply("Node", "default", "n2", nil, &model.NodeSpec{AgentGroups: []string{"canary", "web"}})
	steps := []struct {
		group string
		spec  *model.GroupSpec
		want  []string
	}{
		{"web", nil, []string{"n1"}}, // declared nowhere: who may, is
		{"web", &model.GroupSpec{}, []string{"n1"}},
		{"web", &model.GroupSpec{SelfJoin: true}, []string{"n1", "n2"}},
		{"web", &model.GroupSpec{Trusted: true, Nodes: []string{"n2"}}, []string{"n2"}},
		{"web", &model.GroupSpec{}, []string{"n1"}},
		{"canary", &model.GroupSpec{}, nil},
		{"canary", &model.GroupSpec{SelfJoin: true}, []string{"n1", "n2"}},
		{"around", &model.GroupSpec{Groups: []string{"canary"}}, []string{"n1", "n2"}},
		{"around", &model.GroupSpec{Groups: []string{"canary"}, Trusted: true}, nil},
		{"root", &model.GroupSpec{Trusted: true}, nil},
	}
	for i, s := range steps {
		if s.spec != nil {
			h.apply("Group", "default", s.group, nil, s.spec)
		}
		if got := h.members(s.group); !slices.Equal(got, s.want) {
			t.Errorf("step %d, %s %+v: %v, want %v", i, s.group, s.spec, got, s.want)
		}
	}
	want := map[string]bool{"canary": true, "root": false, "web": true}
	got := h.p.Inspector().JoinRequests(h.id("n1"))
	for _, r := range got {
		if accepted, known := want[r.Group]; !known || accepted != r.Accepted || r.Reason == "" {
			t.Errorf("join request of n1: %+v", r)
		}
	}
	if len(got) != len(want) {
		t.Errorf("join requests of n1: %v", got)
	}
	h.apply("Node", "default", "n1", nil, &model.NodeSpec{})
	if got := h.members("web"); len(got) != 0 || len(h.p.Inspector().JoinRequests(h.id("n1"))) != 0 {
		t.Errorf("it says no more, and is in %v", got)
	}
}

// TestTrustedConditionsReadOperatorLabels expects conditions of trusted groups to read only labels that
// operators have set. They never read the agent's labels of the same name.
func TestTrustedConditionsReadOperatorLabels(t *testing.T) {
	h := newTestPlanner(t)
	const expr = `node.labels.role == "db"`
	h.apply("Group", "default", "trusted", nil, &model.GroupSpec{Where: expr, Trusted: true})
	h.apply("Group", "default", "open", nil, &model.GroupSpec{Where: expr})
	h.apply("Node", "default", "said", nil, &model.NodeSpec{AgentLabels: map[string]string{"role": "db"}})
	h.apply("Node", "default", "measured", nil, &model.NodeSpec{Facts: map[string]string{"role": "db"}})
	h.apply("Node", "default", "declared", map[string]string{"role": "db"}, &model.NodeSpec{AgentLabels: map[string]string{"role": "web"}})
	if got := h.members("trusted"); !slices.Equal(got, []string{"declared"}) {
		t.Errorf("trusted: %v", got)
	}
	if got := h.members("open"); !slices.Equal(got, []string{"said", "measured", "declared"}) {
		t.Errorf("open: %v", got)
	}
}

// TestChangedFactsEvaluateConditionsOnce changes facts of many nodes, and expects one evaluation per condition and
// node. It expects no other work.
func TestChangedFactsEvaluateConditionsOnce(t *testing.T) {
	const nodes, batch = 2000, 250
	h := newTestFleet(t, nodes)
	h.apply("Group", "default", "new-kernel", nil, &model.GroupSpec{Where: `node.facts.kernel == "6.13"`})
	h.apply("Group", "default", "canary", nil, &model.GroupSpec{SelfJoin: true})
	h.apply("Check", "default", "reboot", nil, commandCheck("reboot", &model.Targets{Groups: []string{"new-kernel"}}))
	conditions := uint64(2) // prod, new-kernel
	before := h.p.Counts()
	changed := map[model.NodeID]bool{}
	for first := 0; first < nodes; first += batch {
		var writes []intent.Write
		for i := first; i < first+batch; i++ {
			name := fmt.Sprintf("node%05d", i)
			key := intent.Key{Kind: "Node", Namespace: "default", Name: name}
			spec := &model.NodeSpec{Groups: []string{"all", fmt.Sprint("rack", i/10)}, AgentGroups: []string{"canary"},
				Facts: map[string]string{"os": "linux", "arch": "amd64", "hostname": name, "kernel": "6.13"}}
			writes = append(writes, intent.Write{Key: key, Expect: -1,
				Body: encodeSpec(t, "Node", "default", name, map[string]string{"env": []string{"prod", "staging"}[i%2], "site": fmt.Sprint("s", i%20)}, spec)})
		}
		h.write(writes...)
		for _, id := range h.changed {
			changed[id] = true
		}
	}
	after := h.p.Counts()
	got := Counts{
		Passes: after.Passes - before.Passes, Nodes: after.Nodes - before.Nodes, Groups: after.Groups - before.Groups, Units: after.Units - before.Units,
		Conditions: after.Conditions - before.Conditions, Built: after.Built - before.Built, Changed: after.Changed - before.Changed,
	}
	want := Counts{Passes: nodes / batch, Nodes: nodes, Conditions: nodes * conditions, Built: nodes, Changed: nodes}
	if got != want {
		t.Errorf("work\n  %+v, want\n  %+v", got, want)
	}
	if len(changed) != nodes || len(h.members("new-kernel")) != nodes || len(h.members("canary")) != nodes {
		t.Errorf("%d nodes hear of it, %d have the new kernel, %d joined", len(changed), len(h.members("new-kernel")), len(h.members("canary")))
	}
}

// TestPreviewWarnsOfTokensInTrustedGroups adds machines with a join token to a trusted group in a preview, and
// expects warnings. The machines joined by a token. One warning comes per node and group.
func TestPreviewWarnsOfTokensInTrustedGroups(t *testing.T) {
	h := newTestPlanner(t)
	token := &model.JoinGrant{Token: "4f1c"}
	node := func(given *model.JoinGrant, groups ...string) *model.NodeSpec {
		return &model.NodeSpec{JoinGrant: given, Groups: groups}
	}
	for i := range 7 {
		h.apply("Node", "default", fmt.Sprint("n", i), map[string]string{"rack": "a"}, node(token))
	}
	h.apply("Node", "default", "accepted", map[string]string{"rack": "a"}, node(&model.JoinGrant{Groups: []string{"x"}}))
	h.apply("Node", "default", "declared", map[string]string{"rack": "a"}, node(nil))
	h.apply("Node", "default", "inside", map[string]string{"role": "pay"}, node(token))
	pay := &model.GroupSpec{Trusted: true, Where: `node.labels.role == "pay"`}
	h.apply("Group", "default", "pay", nil, pay)
	h.apply("Group", "default", "around", nil, &model.GroupSpec{Trusted: true, Groups: []string{"pay"}})
	h.apply("Group", "default", "plain", nil, &model.GroupSpec{Where: `node.labels.rack == "a"`})

	write := func(kind, name string, labels map[string]string, spec model.Spec) intent.Write {
		return intent.Write{Key: intent.Key{Kind: kind, Namespace: "default", Name: name}, Body: encodeSpec(t, kind, "default", name, labels, spec)}
	}
	role := map[string]string{"role": "pay"}
	wider := &model.GroupSpec{Trusted: true, Where: `node.labels.role == "pay" || node.labels.rack == "a"`}
	for name, c := range map[string]struct {
		writes []intent.Write
		want   []string // what each write's warnings hold, all of them; empty: none
	}{
		"a label":                {[]intent.Write{write("Node", "n0", role, node(token))}, []string{"trusted group around|trusted group pay, and its machine joined with join token 4f1c"}},
		"a group said":           {[]intent.Write{write("Node", "n0", nil, node(token, "pay"))}, []string{"trusted group around|trusted group pay"}},
		"inside already":         {[]intent.Write{write("Node", "inside", role, &model.NodeSpec{JoinGrant: token, Groups: []string{"web"}})}, []string{""}},
		"accepted by a person":   {[]intent.Write{write("Node", "accepted", role, node(&model.JoinGrant{Groups: []string{"x"}}))}, []string{""}},
		"waits for its machine":  {[]intent.Write{write("Node", "declared", role, node(nil)), write("Node", "new", role, node(nil))}, []string{"", ""}},
		"a condition":            {[]intent.Write{write("Group", "pay", nil, wider)}, []string{"it gets 7 nodes whose machines joined by a token and chose their names: default/n0, default/n1, default/n2, default/n3, default/n4, …"}},
		"trust for a group":      {[]intent.Write{write("Group", "plain", nil, &model.GroupSpec{Trusted: true, Nodes: []string{"n1", "accepted"}})}, []string{"it gets a node whose machine joined by a token and chose its name: default/n1"}},
		"a group without trust":  {[]intent.Write{write("Group", "plain", nil, &model.GroupSpec{Nodes: []string{"n1"}})}, []string{""}},
		"both, each at its node": {[]intent.Write{write("Group", "pay", nil, &model.GroupSpec{Trusted: true, Where: `node.labels.role != ""`}), write("Node", "n0", role, node(token))}, []string{"", "trusted group around|trusted group pay"}},
	} {
		out, err := h.p.Preview(t.Context(), c.writes, false)
		if err != nil {
			t.Fatal(name, err)
		}
		for i, want := range c.want {
			got := out.Placements[i].Warnings
			parts := strings.Split(want, "|")
			if want == "" {
				parts = nil
			}
			if len(got) != len(parts) {
				t.Errorf("%s: %q", name, got)
				continue
			}
			for j, part := range parts {
				if !strings.Contains(got[j], part) {
					t.Errorf("%s: %q, want %q", name, got[j], part)
				}
			}
		}
	}
}

// TestPreviewWarnsOfAKeyInTwoTemplates previews a Template with another Template's item key, and expects a warning.
// The warning appears only if both apply to a node.
func TestPreviewWarnsOfAKeyInTwoTemplates(t *testing.T) {
	h := newTestPlanner(t)
	h.node("web01", map[string]string{"role": "web"})
	h.node("db01", map[string]string{"role": "db"})
	template := func(role string, keys ...string) *model.TemplateSpec {
		spec := &model.TemplateSpec{Targets: &model.Targets{Where: `node.labels.role == "` + role + `"`}}
		for _, key := range keys {
			spec.Items = append(spec.Items, model.Item{Key: key})
		}
		return spec
	}
	h.apply("Template", "default", "linux", nil, template("web", "agent.ping", "system.uptime"))
	for role, want := range map[string]string{"web": "1 node would collect 1 key also from template default/linux, such as agent.ping", "db": ""} {
		out, err := h.p.Preview(t.Context(), []intent.Write{{Key: intent.Key{Kind: "Template", Namespace: "default", Name: "other"},
			Body: encodeSpec(t, "Template", "default", "other", nil, template(role, "agent.ping", "system.cpu.load"))}}, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(out.Placements[0].Warnings, "; "); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("role %s: %q, want %q", role, got, want)
		}
	}
}

// TestHandlerUsesIncludeNodes expects the use count of a handler or pipeline to include all nodes that name
// either. These nodes name it for their keepalive or their removal.
func TestHandlerUsesIncludeNodes(t *testing.T) {
	h := newTestPlanner(t)
	for _, name := range []string{"web01", "web02", "web03", "web04"} {
		h.node(name, nil)
	}
	h.apply("Handler", "default", "cmdb", nil, &model.HandlerSpec{})
	h.apply("Pipeline", "default", "sensu-cmdb", nil, &model.PipelineSpec{})
	uses := func(what string, handler, pipeline int) {
		t.Helper()
		for key, want := range map[intent.Key]int{
			{Kind: "Handler", Namespace: "default", Name: "cmdb"}:        handler,
			{Kind: "Pipeline", Namespace: "default", Name: "sensu-cmdb"}: pipeline,
		} {
			if l := h.p.Inspector().Placement(key); l.NotifiedNodes != want || l.Checks != 0 {
				t.Errorf("%s: %+v, want %d", what, l, want)
			}
		}
	}
	uses("nobody", 0, 0)
	h.apply("Node", "default", "web01", nil, &model.NodeSpec{Keepalive: &model.Keepalive{Handlers: []string{"default/cmdb", "other"}}})
	uses("a keepalive", 1, 0)
	h.apply("Node", "default", "web02", nil, &model.NodeSpec{Lifecycle: &model.Lifecycle{Ephemeral: true, Handlers: []string{"cmdb"}}})
	uses("an end", 2, 0)
	h.apply("Node", "default", "web03", nil, &model.NodeSpec{AgentReceivers: &model.KeepaliveReceivers{Handlers: []string{"cmdb"}}})
	uses("an agent of Sensu", 3, 1)
	h.apply("Node", "default", "web04", nil, &model.NodeSpec{Keepalive: &model.Keepalive{Pipelines: []string{"sensu-cmdb"}}})
	uses("a pipeline", 3, 2)
	h.apply("Node", "default", "web01", nil, &model.NodeSpec{})
	uses("one less", 2, 2)
}

// TestHandlerUsesIncludeResources expects the use count of a handler to include routes, pipelines and Sensu
// agents naming the handler. Users in the same apply also count.
func TestHandlerUsesIncludeResources(t *testing.T) {
	h := newTestPlanner(t)
	uses := func(what, handler string, want intent.Placement) {
		t.Helper()
		if l := h.p.Inspector().Placement(intent.Key{Kind: "Handler", Namespace: "default", Name: handler}); l.Routes != want.Routes || l.Pipelines != want.Pipelines || l.NotifiedNodes != want.NotifiedNodes || l.Checks != 0 {
			t.Errorf("%s: %+v, want %+v", what, l, want)
		}
	}
	h.apply("Handler", "default", "pager", nil, &model.HandlerSpec{})
	h.apply("Handler", "default", "keepalive", nil, &model.HandlerSpec{})
	uses("nobody", "pager", intent.Placement{})
	h.apply("Route", "default", "night", nil, &model.RouteSpec{Steps: []model.RouteStep{{To: []string{"other"}}, {To: []string{"default/pager", "pager"}}, {To: []string{"pager"}}}})
	h.apply("Route", "shared", "pager", nil, &model.RouteSpec{Steps: []model.RouteStep{{To: []string{"pager"}}}}) // of its own namespace
	uses("a route", "pager", intent.Placement{Routes: 1})
	h.apply("Pipeline", "default", "sensu-pager", nil, &model.PipelineSpec{Workflows: []model.Workflow{{Name: "a", Handler: "pager"}, {Name: "b", Handler: "pager"}}})
	uses("a pipeline", "pager", intent.Placement{Routes: 1, Pipelines: 1})
	h.apply("Route", "default", "night", nil, nil)
	uses("no route any more", "pager", intent.Placement{Pipelines: 1})
	h.apply("Pipeline", "default", "sensu-pager", nil, nil)
	uses("nor a pipeline", "pager", intent.Placement{})

	h.node("ours", nil)
	uses("an agent of ours", "keepalive", intent.Placement{})
	stranger := &intent.ExternalAgent{System: "sensu", Namespace: "default", Name: "web01"}
	h.apply("Node", "default", "web01", nil, &model.NodeSpec{UID: stranger.UID().String()})
	uses("an agent of Sensu that names nobody", "keepalive", intent.Placement{NotifiedNodes: 1})
	h.apply("Node", "default", "web01", nil, &model.NodeSpec{UID: stranger.UID().String(), AgentReceivers: &model.KeepaliveReceivers{Handlers: []string{"pager"}}})
	uses("it names another", "keepalive", intent.Placement{})
	uses("it names another", "pager", intent.Placement{NotifiedNodes: 1})
}

// TestSecretAndAssetUsesAreCounted expects the use count of a secret or asset to include resources that run on the
// server. The users are handlers, mutators and filters.
func TestSecretAndAssetUsesAreCounted(t *testing.T) {
	h := newTestPlanner(t)
	h.apply("Secret", "default", "key", nil, &model.SecretSpec{})
	h.apply("Asset", "default", "tool", nil, &model.AssetSpec{})
	h.apply("Handler", "default", "one", nil, &model.HandlerSpec{Assets: []string{"tool"}, Secrets: []model.CommandSecret{{Env: "A", Secret: "key"}, {Env: "B", Secret: "default/key"}}})
	h.apply("Handler", "default", "other", nil, &model.HandlerSpec{Assets: []string{"shared/tool"}, PagerDuty: &model.PagerDuty{RoutingKey: model.Secret{SecretName: "key"}}})
	h.apply("Mutator", "default", "one", nil, &model.MutatorSpec{Assets: []string{"tool"}, Secrets: []model.CommandSecret{{Env: "A", Secret: "key"}}})
	h.apply("Filter", "default", "one", nil, &model.FilterSpec{Assets: []string{"tool"}})
	for kind, want := range map[string]intent.Placement{"Secret": {Handlers: 2, Mutators: 1}, "Asset": {Handlers: 1, Mutators: 1, Filters: 1}} {
		name := map[string]string{"Secret": "key", "Asset": "tool"}[kind]
		if l := h.p.Inspector().Placement(intent.Key{Kind: kind, Namespace: "default", Name: name}); l.Handlers != want.Handlers || l.Mutators != want.Mutators || l.Filters != want.Filters {
			t.Errorf("%s: %+v, want %+v", kind, l, want)
		}
	}
}

// TestKeepaliveNotifiesHandlersOfNode expects a missed keepalive of a node to notify the node's own handlers. A node without
// handlers uses the existing handlers that its agent names.
func TestKeepaliveNotifiesHandlersOfNode(t *testing.T) {
	h := newTestPlanner(t)
	h.node("web01", nil)
	web01 := h.id("web01")
	is := func(what string, handlers, pipelines []string) {
		t.Helper()
		c := h.p.directory.Keepalive(web01)
		if c.Unit != model.KeepaliveCheck || c.Namespace == 0 || !slices.Equal(c.Handlers, handlers) || !slices.Equal(c.Pipelines, pipelines) {
			t.Errorf("%s: %+v", what, c)
		}
	}
	is("nobody", nil, nil)
	said := &model.KeepaliveReceivers{Handlers: []string{"slack", "cmdb", "gone"}, Pipelines: []string{"alerts", "gone"}}
	h.apply("Node", "default", "web01", nil, &model.NodeSpec{AgentReceivers: said})
	is("none of them is there", nil, nil)
	h.apply("Handler", "default", "slack", nil, &model.HandlerSpec{})
	h.apply("Handler", "default", "cmdb", nil, &model.HandlerSpec{})
	h.apply("Pipeline", "default", "sensu-cmdb", nil, &model.PipelineSpec{})
	is("a handler, and one that reads events", []string{"slack"}, []string{"sensu-cmdb"})
	h.apply("Pipeline", "default", "alerts", nil, &model.PipelineSpec{})
	is("pipelines", []string{"slack"}, []string{"alerts", "sensu-cmdb"})
	h.apply("Node", "default", "web01", nil, &model.NodeSpec{AgentReceivers: said, Keepalive: &model.Keepalive{Pipelines: []string{"shared/all"}}})
	is("declared", nil, []string{"shared/all"})
	h.apply("Node", "default", "web01", nil, &model.NodeSpec{AgentReceivers: said})
	h.apply("Pipeline", "default", "alerts", nil, nil)
	is("one is gone", []string{"slack"}, []string{"sensu-cmdb"})
	if c := h.p.directory.Keepalive(9999); c == nil || len(c.Handlers)+len(c.Pipelines) > 0 {
		t.Errorf("a node that is gone: %+v", c)
	}
}

// TestSensuAgentsHaveADefaultKeepalive declares no handlers for Sensu agents, and expects their keepalives to use the
// handler named keepalive. Other nodes do not use it.
func TestSensuAgentsHaveADefaultKeepalive(t *testing.T) {
	h := newTestPlanner(t)
	h.node("ours", nil)
	stranger := &intent.ExternalAgent{System: "sensu", Namespace: "default", Name: "web01"}
	comes := func(spec *model.NodeSpec) {
		t.Helper()
		spec.UID = stranger.UID().String()
		h.apply("Node", "default", "web01", nil, spec)
	}
	comes(&model.NodeSpec{})
	is := func(what, node string, handlers, pipelines []string) {
		t.Helper()
		if c := h.p.directory.Keepalive(h.id(node)); !slices.Equal(c.Handlers, handlers) || !slices.Equal(c.Pipelines, pipelines) {
			t.Errorf("%s: %+v", what, c)
		}
	}
	is("there is none", "web01", nil, nil)
	h.apply("Handler", "default", "keepalive", nil, &model.HandlerSpec{})
	is("by the default", "web01", []string{"keepalive"}, nil)
	is("an agent of ours", "ours", nil, nil)
	h.apply("Pipeline", "default", "sensu-keepalive", nil, &model.PipelineSpec{})
	is("one that reads events", "web01", nil, []string{"sensu-keepalive"})
	h.apply("Pipeline", "default", "alerts", nil, &model.PipelineSpec{})
	comes(&model.NodeSpec{AgentReceivers: &model.KeepaliveReceivers{Pipelines: []string{"alerts"}}})
	is("its pipelines, and the default", "web01", nil, []string{"alerts", "sensu-keepalive"})
	comes(&model.NodeSpec{AgentReceivers: &model.KeepaliveReceivers{Handlers: []string{"gone"}}})
	is("it names another", "web01", nil, nil)
	comes(&model.NodeSpec{Keepalive: &model.Keepalive{Pipelines: []string{"alerts"}}})
	is("declared", "web01", nil, []string{"alerts"})
}

// TestTriggerEditReportsChangedReceivers edits a trigger's handlers or route, and expects a report of changed
// receivers. An edit of the runbook reports no such change.
func TestTriggerEditReportsChangedReceivers(t *testing.T) {
	h := newTestPlanner(t)
	announced := false
	h.p.directory.Subscribe(func(c directory.Change) { announced = c.Receivers })
	apply := func(edit func(*model.Trigger)) bool {
		t.Helper()
		trigger := model.Trigger{Name: "load is high", Expression: "last(//system.cpu.load)>5"}
		edit(&trigger)
		announced = false
		h.apply("Template", "default", "linux", nil, &model.TemplateSpec{Items: []model.Item{{Key: "system.cpu.load"}}, Triggers: []model.Trigger{trigger}})
		return announced
	}
	apply(func(*model.Trigger) {})
	if apply(func(t *model.Trigger) { t.Runbook = "https://wiki.example.org/load" }) {
		t.Error("another runbook announces other receivers")
	}
	if !apply(func(t *model.Trigger) { t.Alert = &model.Alert{Route: "night"} }) {
		t.Error("another route announces no other receivers")
	}
	if !apply(func(t *model.Trigger) { t.Alert = &model.Alert{Handlers: []string{"night"}} }) {
		t.Error("another handler announces no other receivers")
	}
}
