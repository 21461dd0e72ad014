package plan

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

func (h *house) proxy(name, address string) model.NodeID {
	h.put("Node", "default", name, map[string]string{"kind": "switch"}, &model.NodeSpec{Proxy: true, Properties: map[string]json.RawMessage{"address": json.RawMessage(`"` + address + `"`)}})
	return h.id(name)
}

func ping() *model.CheckSpec {
	c := shell("ping {{ .props.address }}", &model.Targets{Groups: []string{"pollers"}})
	c.Proxy = &model.Targets{Where: `node.labels.kind == "switch"`}
	return c
}

// A proxy check lands on machines, which run it, and on proxy nodes, which it is about: the
// assignments of the former name the latter with their properties, and nobody else's.
func TestProxyChecks(t *testing.T) {
	h := newHouse(t)
	h.put("Group", "default", "pollers", nil, &model.GroupSpec{})
	a, b := h.node("a", map[string]string{"kind": "switch"}, "pollers"), h.node("b", nil, "pollers")
	other := h.node("other", nil)
	s1, s2 := h.proxy("s1", "192.0.2.1"), h.proxy("s2", "192.0.2.2")
	h.put("Check", "default", "ping", nil, ping())
	h.put("Check", "default", "disk", nil, shell("true", &model.Targets{Where: "true"}))
	check, _ := h.p.directory.CheckByName("default", "ping")

	want := wire.ProxyChecks{Nodes: []wire.ProxyNode{
		{Node: s1, Name: "s1", Properties: []wire.Property{{Name: "address", Value: []byte(`"192.0.2.1"`)}}},
		{Node: s2, Name: "s2", Properties: []wire.Property{{Name: "address", Value: []byte(`"192.0.2.2"`)}}},
	}}
	for _, runner := range []model.NodeID{a, b} {
		got := h.p.directory.For(runner)
		i := slices.IndexFunc(got.Chunks, func(c *model.Chunk) bool { return c.Unit == check })
		want.Sets = []wire.ProxySet{{Chunks: []model.ChunkID{got.Chunks[i].ID}, Nodes: []model.NodeID{s1, s2}}}
		if !got.Chunks[i].AsCheck().Proxy || got.Proxied == nil || !got.Proxied.Equal(&want) || len(got.Properties) != 0 {
			t.Errorf("node %d holds %+v, properties %v", runner, got.Proxied, got.Properties)
		}
		if got.Hash != wire.AssignmentHash(got.Chunks, got.Properties, &got.Proxied.ProxyChecks) {
			t.Error("the hash does not cover whom the checks speak of")
		}
		if p, ok := got.ProxyNode(check, s2); !ok || p.ID != s2 || p.Namespace != 1 || p.UID != h.p.directory.NodeUID(s2) {
			t.Errorf("speaks for s2: %+v %v", p, ok)
		}
		if _, ok := got.ProxyNode(check, other); ok {
			t.Error("speaks for a machine")
		}
	}
	if got := h.p.directory.For(other); got.Proxied != nil || h.p.directory.For(s1) != nil {
		t.Error("who runs no proxy check is told of one, or a proxy node has an assignment")
	}
	if got := h.p.directory.NodeUnits(s1); !slices.Equal(got, []model.CheckID{check}) {
		t.Errorf("about s1: %v", got)
	}
	if l := h.p.Inspector().Placement(intent.Key{Kind: "Check", Namespace: "default", Name: "ping"}); l.Nodes != 2 || l.About != 2 {
		t.Errorf("lands %+v", l)
	}
	if faults, _ := h.p.Inspector().Faults(""); len(faults) != 0 {
		t.Errorf("faults: %+v", faults)
	}

	// What is new of the proxy nodes reaches those who run checks about them, and only those.
	changed := h.p.fleet.counts.Changed
	gen := h.p.directory.For(other).Generation
	s3 := h.proxy("s3", "192.0.2.3")
	h.proxy("s1", "192.0.2.11")
	if got := h.p.directory.For(a); len(got.Proxied.Nodes) != 3 || string(got.Proxied.Nodes[0].Properties[0].Value) != `"192.0.2.11"` {
		t.Errorf("a is told of %+v", got.Proxied.Nodes)
	}
	if h.p.directory.For(other).Generation != gen || h.p.fleet.counts.Changed-changed != 4 {
		t.Errorf("%d assignments changed", h.p.fleet.counts.Changed-changed)
	}

	// Of what lands no more the events go: those of the proxy nodes, and of machines that had
	// their own before.
	h.forgotten = nil
	kept := h.p.Revision()
	h.put("Node", "default", "s3", nil, &model.NodeSpec{Proxy: true})
	h.put("Check", "default", "disk", nil, func() *model.CheckSpec { c := ping(); return c }())
	disk, _ := h.p.directory.CheckByName("default", "disk")
	forgotten := []Removal{{Node: s3, Mark: wire.ForgetMark{Check: check}}}
	for _, n := range []model.NodeID{a, b, other} {
		forgotten = append(forgotten, Removal{Node: n, Mark: wire.ForgetMark{Check: disk}})
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
	before := h.p.directory.For(a)
	if since, err := h.p.RemovalsSince(context.Background(), kept); err != nil || !same(since) {
		t.Errorf("since: %+v %v", since, err)
	}
	if !reflect.DeepEqual(h.p.directory.For(a), before) {
		t.Error("looking back changed an assignment")
	}
}
