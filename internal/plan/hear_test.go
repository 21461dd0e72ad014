package plan

import (
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// A handler or pipeline that nodes name for their keepalive or their end is used by them.
func TestNodesUseHandlers(t *testing.T) {
	h := newHouse(t)
	for _, name := range []string{"web01", "web02", "web03", "web04"} {
		h.node(name, nil)
	}
	h.put("Handler", "default", "cmdb", nil, &model.HandlerSpec{})
	h.put("Pipeline", "default", "sensu-cmdb", nil, &model.PipelineSpec{})
	uses := func(what string, handler, pipeline int) {
		t.Helper()
		for key, want := range map[intent.Key]int{
			{Kind: "Handler", Namespace: "default", Name: "cmdb"}:        handler,
			{Kind: "Pipeline", Namespace: "default", Name: "sensu-cmdb"}: pipeline,
		} {
			if l := h.p.Inspector().Placement(key); l.Hear != want || l.Checks != 0 {
				t.Errorf("%s: %+v, want %d", what, l, want)
			}
		}
	}
	uses("nobody", 0, 0)
	h.put("Node", "default", "web01", nil, &model.NodeSpec{Keepalive: &model.Keepalive{Handlers: []string{"default/cmdb", "other"}}})
	uses("a keepalive", 1, 0)
	h.put("Node", "default", "web02", nil, &model.NodeSpec{Lifecycle: &model.Lifecycle{Ephemeral: true, Handlers: []string{"cmdb"}}})
	uses("an end", 2, 0)
	h.put("Node", "default", "web03", nil, &model.NodeSpec{AgentReceivers: &model.KeepaliveReceivers{Handlers: []string{"cmdb"}}})
	uses("an agent of Sensu", 3, 1)
	h.put("Node", "default", "web04", nil, &model.NodeSpec{Keepalive: &model.Keepalive{Pipelines: []string{"sensu-cmdb"}}})
	uses("a pipeline", 3, 2)
	h.put("Node", "default", "web01", nil, &model.NodeSpec{})
	uses("one less", 2, 2)
}

// Routes, pipelines and Sensu agents that name no handler use handlers, too, from when they are applied together.
func TestEverybodyUsesHandlers(t *testing.T) {
	h := newHouse(t)
	uses := func(what, handler string, want intent.Placement) {
		t.Helper()
		if l := h.p.Inspector().Placement(intent.Key{Kind: "Handler", Namespace: "default", Name: handler}); l.Routes != want.Routes || l.Flows != want.Flows || l.Hear != want.Hear || l.Checks != 0 {
			t.Errorf("%s: %+v, want %+v", what, l, want)
		}
	}
	h.put("Handler", "default", "pager", nil, &model.HandlerSpec{})
	h.put("Handler", "default", "keepalive", nil, &model.HandlerSpec{})
	uses("nobody", "pager", intent.Placement{})
	h.put("Route", "default", "night", nil, &model.RouteSpec{Steps: []model.RouteStep{{To: []string{"other"}}, {To: []string{"default/pager", "pager"}}, {To: []string{"pager"}}}})
	h.put("Route", "shared", "pager", nil, &model.RouteSpec{Steps: []model.RouteStep{{To: []string{"pager"}}}}) // of its own namespace
	uses("a route", "pager", intent.Placement{Routes: 1})
	h.put("Pipeline", "default", "sensu-pager", nil, &model.PipelineSpec{Workflows: []model.Workflow{{Name: "a", Handler: "pager"}, {Name: "b", Handler: "pager"}}})
	uses("a pipeline", "pager", intent.Placement{Routes: 1, Flows: 1})
	h.put("Route", "default", "night", nil, nil)
	uses("no route any more", "pager", intent.Placement{Flows: 1})
	h.put("Pipeline", "default", "sensu-pager", nil, nil)
	uses("nor a pipeline", "pager", intent.Placement{})

	h.node("ours", nil)
	uses("an agent of ours", "keepalive", intent.Placement{})
	stranger := &intent.ExternalAgent{System: "sensu", Namespace: "default", Name: "web01"}
	h.put("Node", "default", "web01", nil, &model.NodeSpec{UID: stranger.UID().String()})
	uses("an agent of Sensu that names nobody", "keepalive", intent.Placement{Hear: 1})
	h.put("Node", "default", "web01", nil, &model.NodeSpec{UID: stranger.UID().String(), AgentReceivers: &model.KeepaliveReceivers{Handlers: []string{"pager"}}})
	uses("it names another", "keepalive", intent.Placement{})
	uses("it names another", "pager", intent.Placement{Hear: 1})
}

// What commands and expressions on the server need is used by them.
func TestHandlersUseSecretsAndAssets(t *testing.T) {
	h := newHouse(t)
	h.put("Secret", "default", "key", nil, &model.SecretSpec{})
	h.put("Asset", "default", "tool", nil, &model.AssetSpec{})
	h.put("Handler", "default", "one", nil, &model.HandlerSpec{Assets: []string{"tool"}, Secrets: []model.CommandSecret{{Env: "A", Secret: "key"}, {Env: "B", Secret: "default/key"}}})
	h.put("Handler", "default", "other", nil, &model.HandlerSpec{Assets: []string{"shared/tool"}, PagerDuty: &model.PagerDuty{RoutingKey: model.Secret{Named: "key"}}})
	h.put("Mutator", "default", "one", nil, &model.MutatorSpec{Assets: []string{"tool"}, Secrets: []model.CommandSecret{{Env: "A", Secret: "key"}}})
	h.put("Filter", "default", "one", nil, &model.FilterSpec{Assets: []string{"tool"}})
	for kind, want := range map[string]intent.Placement{"Secret": {Handlers: 2, Mutators: 1}, "Asset": {Handlers: 1, Mutators: 1, Filters: 1}} {
		name := map[string]string{"Secret": "key", "Asset": "tool"}[kind]
		if l := h.p.Inspector().Placement(intent.Key{Kind: kind, Namespace: "default", Name: name}); l.Handlers != want.Handlers || l.Mutators != want.Mutators || l.Filters != want.Filters {
			t.Errorf("%s: %+v, want %+v", kind, l, want)
		}
	}
}
