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
			if l := h.p.Landing(key); l.Hear != want || l.Checks != 0 {
				t.Errorf("%s: %+v, want %d", what, l, want)
			}
		}
	}
	uses("nobody", 0, 0)
	h.put("Node", "default", "web01", nil, &model.NodeSpec{Keepalive: &model.Keepalive{Handlers: []string{"default/cmdb", "other"}}})
	uses("a keepalive", 1, 0)
	h.put("Node", "default", "web02", nil, &model.NodeSpec{Lifecycle: &model.Lifecycle{Ephemeral: true, Handlers: []string{"cmdb"}}})
	uses("an end", 2, 0)
	h.put("Node", "default", "web03", nil, &model.NodeSpec{AgentHears: &model.Hears{Handlers: []string{"cmdb"}}})
	uses("an agent of Sensu", 3, 1)
	h.put("Node", "default", "web04", nil, &model.NodeSpec{Keepalive: &model.Keepalive{Pipelines: []string{"sensu-cmdb"}}})
	uses("a pipeline", 3, 2)
	h.put("Node", "default", "web01", nil, &model.NodeSpec{})
	uses("one less", 2, 2)
}
