package intent_test

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// What a node is behind and a check depends on must be there, stays while it is named, goes
// with its name, and never leads back.
func TestWhatThingsHangOn(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	node := func(name string, behind *model.Upstream) model.Resource {
		return model.Resource{Kind: "Node", Metadata: model.Metadata{Name: name}, Spec: &model.NodeSpec{Upstream: behind}}
	}
	depends := func(name string, on ...string) model.Resource {
		r := check(name)
		r.Spec.(*model.CheckSpec).DependsOn = on
		return r
	}
	apply := func(list ...model.Resource) error {
		_, err := w.Apply(ctx, ada, list, intent.ApplyOptions{})
		return err
	}
	for _, c := range []struct {
		list []model.Resource
		want string // "": it is taken
	}{
		{[]model.Resource{node("web01", &model.Upstream{Node: "sw7"})}, `node/web01: spec.behind.node: node "sw7" does not exist`},
		{[]model.Resource{node("web01", &model.Upstream{Node: "web01"})}, "node/web01 is behind itself: web01 → web01"},
		{[]model.Resource{node("core", nil), node("web01", &model.Upstream{Node: "core", Check: "ping"})}, `behind.check: check "ping" does not exist`},
		{[]model.Resource{depends("http", "db")}, `check/http: spec.dependsOn[0]: check "db" does not exist`},
		{[]model.Resource{depends("db", "keepalive"), depends("http", "db"), check("ping")}, ""},
		{[]model.Resource{node("core", nil), node("sw7", &model.Upstream{Node: "core", Check: "ping"}), node("web01", &model.Upstream{Node: "sw7"})}, ""},
		{[]model.Resource{node("core", &model.Upstream{Node: "web01"})}, "node/core is behind itself: core → web01 → sw7 → core"},
		{[]model.Resource{depends("db", "http")}, "check/db depends on itself: db → http → db"},
	} {
		if err := apply(c.list...); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	deletes := func(kind string, names ...string) error {
		var keys []intent.Key
		for _, name := range names {
			keys = append(keys, intent.Key{Kind: kind, Namespace: "default", Name: name})
		}
		_, err := w.Delete(ctx, ada, keys, intent.ApplyOptions{})
		return err
	}
	for want, err := range map[string]error{
		"node/web01 refers to node/sw7 in spec.behind.node":  deletes("Node", "sw7"),
		"node/sw7 refers to check/ping in spec.behind.check": deletes("Check", "ping"),
		"check/http refers to check/db in spec.dependsOn[0]": deletes("Check", "db"),
	} {
		if model.ClassOf(err) != model.Conflict || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := w.Rename(ctx, ada, "default", "sw7", "switch7", intent.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	r, err := w.Get(ctx, intent.Key{Kind: "Node", Namespace: "default", Name: "web01"})
	if err != nil || r.Spec.(*model.NodeSpec).Upstream.Node != "switch7" {
		t.Errorf("after its name changed: %+v, %v", r, err)
	}
	if err := deletes("Node", "web01", "switch7"); err != nil {
		t.Error(err)
	}
}
