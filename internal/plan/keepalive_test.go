package plan

import (
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// Whom a node names hears of its keepalive; of those whom its agent names, who is there, and
// nobody of them where the node names others.
func TestWhoHearsOfAKeepalive(t *testing.T) {
	h := newHouse(t)
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
	h.put("Node", "default", "web01", nil, &model.NodeSpec{AgentReceivers: said})
	is("none of them is there", nil, nil)
	h.put("Handler", "default", "slack", nil, &model.HandlerSpec{})
	h.put("Handler", "default", "cmdb", nil, &model.HandlerSpec{})
	h.put("Pipeline", "default", "sensu-cmdb", nil, &model.PipelineSpec{})
	is("a handler, and one that reads events", []string{"slack"}, []string{"sensu-cmdb"})
	h.put("Pipeline", "default", "alerts", nil, &model.PipelineSpec{})
	is("pipelines", []string{"slack"}, []string{"alerts", "sensu-cmdb"})
	h.put("Node", "default", "web01", nil, &model.NodeSpec{AgentReceivers: said, Keepalive: &model.Keepalive{Pipelines: []string{"shared/all"}}})
	is("declared", nil, []string{"shared/all"})
	h.put("Node", "default", "web01", nil, &model.NodeSpec{AgentReceivers: said})
	h.put("Pipeline", "default", "alerts", nil, nil)
	is("one is gone", []string{"slack"}, []string{"sensu-cmdb"})
	if c := h.p.directory.Keepalive(9999); c == nil || len(c.Handlers)+len(c.Pipelines) > 0 {
		t.Errorf("a node that is gone: %+v", c)
	}
}

// Where a Sensu agent names no handler, that called keepalive is meant, as with Sensu's backend, if it
// is there; of our own agents' nodes nobody means it.
func TestKeepalivesOfSensuAgentsHaveADefault(t *testing.T) {
	h := newHouse(t)
	h.node("ours", nil)
	stranger := &intent.ExternalAgent{System: "sensu", Namespace: "default", Name: "web01"}
	comes := func(spec *model.NodeSpec) {
		t.Helper()
		spec.UID = stranger.UID().String()
		h.put("Node", "default", "web01", nil, spec)
	}
	comes(&model.NodeSpec{})
	is := func(what, node string, handlers, pipelines []string) {
		t.Helper()
		if c := h.p.directory.Keepalive(h.id(node)); !slices.Equal(c.Handlers, handlers) || !slices.Equal(c.Pipelines, pipelines) {
			t.Errorf("%s: %+v", what, c)
		}
	}
	is("there is none", "web01", nil, nil)
	h.put("Handler", "default", "keepalive", nil, &model.HandlerSpec{})
	is("by the default", "web01", []string{"keepalive"}, nil)
	is("an agent of ours", "ours", nil, nil)
	h.put("Pipeline", "default", "sensu-keepalive", nil, &model.PipelineSpec{})
	is("one that reads events", "web01", nil, []string{"sensu-keepalive"})
	h.put("Pipeline", "default", "alerts", nil, &model.PipelineSpec{})
	comes(&model.NodeSpec{AgentReceivers: &model.KeepaliveReceivers{Pipelines: []string{"alerts"}}})
	is("its pipelines, and the default", "web01", nil, []string{"alerts", "sensu-keepalive"})
	comes(&model.NodeSpec{AgentReceivers: &model.KeepaliveReceivers{Handlers: []string{"gone"}}})
	is("it names another", "web01", nil, nil)
	comes(&model.NodeSpec{Keepalive: &model.Keepalive{Pipelines: []string{"alerts"}}})
	is("declared", "web01", nil, []string{"alerts"})
}
