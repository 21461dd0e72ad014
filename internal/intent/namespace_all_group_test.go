package intent_test

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// allGroupKey returns the key of the built-in group "all" of a namespace.
func allGroupKey(namespace string) intent.Key {
	return intent.Key{Kind: "Group", Namespace: namespace, Name: "all"}
}

// allGroup returns the group "all" of a namespace. It returns nil if the namespace has no such group.
func (w *testService) allGroup(t *testing.T, namespace string) *model.Resource {
	t.Helper()
	r, err := w.Get(t.Context(), allGroupKey(namespace))
	if model.ClassOf(err) == model.NotFound {
		return nil
	}
	testenv.NoError(t, err)
	return r
}

// TestNamespaceIsCreatedWithGroupAll applies a namespace and expects its built-in group "all".
func TestNamespaceIsCreatedWithGroupAll(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	done, err := w.Apply(ctx, ada, []model.Resource{inNamespace("shop", check("x")), namespace("shop")}, intent.ApplyOptions{})
	if err != nil || len(done.Outcomes) != 3 {
		t.Fatalf("%+v, %v", done, err)
	}
	for _, o := range done.Outcomes {
		if o.Op != intent.OpCreated || o.Revision != done.Revision || len(o.Warnings) > 0 {
			t.Errorf("%+v", o)
		}
	}
	if r := w.allGroup(t, "shop"); r == nil || r.Spec.(*model.GroupSpec).Where != "true" {
		t.Fatalf("%+v", r)
	}
	// A declared group "all" stays as declared, and a deleted one stays away, also after a restart.
	own := inNamespace("own", group("all"))
	own.Spec = &model.GroupSpec{Where: `node.labels.env == "prod"`}
	w.apply(t, namespace("own"), own)
	testenv.Value(w.Delete(ctx, ada, []intent.Key{allGroupKey("shop")}, intent.ApplyOptions{}))(t)
	w.apply(t, namespace("shop"))
	w.open(t)
	if r := w.allGroup(t, "shop"); r != nil {
		t.Errorf("it came back: %+v", r)
	}
	if r := w.allGroup(t, "own"); r == nil || r.Spec.(*model.GroupSpec).Where == "true" {
		t.Errorf("%+v", r)
	}
	if dry, err := w.Apply(ctx, ada, []model.Resource{namespace("dry")}, intent.ApplyOptions{DryRun: true}); err != nil || len(dry.Outcomes) != 2 || w.allGroup(t, "dry") != nil {
		t.Errorf("%+v, %v", dry, err)
	}
	if _, err := w.Apply(ctx, ada, []model.Resource{namespace("twice"), namespace("twice")}, intent.ApplyOptions{}); err == nil || strings.Contains(err.Error(), "group/") {
		t.Errorf("got %v", err)
	}
}

// TestGroupAllIsDeletedWithItsNamespace deletes a namespace, and expects the deletion of its built-in group "all".
func TestGroupAllIsDeletedWithItsNamespace(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	w.apply(t, namespace("shop"), inNamespace("shop", group("g")))
	room := intent.Key{Kind: "Namespace", Name: "shop"}
	if _, err := w.Delete(ctx, ada, []intent.Key{room}, intent.ApplyOptions{}); model.ClassOf(err) != model.Conflict || !strings.Contains(err.Error(), "it has group/shop/g") {
		t.Fatalf("got %v", err)
	}
	done, err := w.Delete(ctx, ada, []intent.Key{room, {Kind: "Group", Namespace: "shop", Name: "g"}}, intent.ApplyOptions{})
	if err != nil || len(done.Outcomes) != 3 || w.allGroup(t, "shop") != nil {
		t.Fatalf("%+v, %v", done, err)
	}
	audit, err := w.Audit(ctx, intent.ChangeQuery{Limit: 3}, false)
	if err != nil || audit[0].Revision != audit[2].Revision {
		t.Fatalf("%+v, %v", audit, err)
	}
}

// An apply with --prune removes the owner of the built-in group "all". So later applies do not report the group again.
func TestPruneReleasesGroupAll(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	ofA := intent.ApplyOptions{Owner: "team-a", Prune: true}
	quiet := func(what string, resources ...model.Resource) {
		t.Helper()
		done, err := w.Apply(ctx, ada, resources, ofA)
		testenv.NoError(t, err)
		for _, o := range done.Outcomes {
			if o.Op != intent.OpUnchanged || len(o.Warnings) > 0 {
				t.Errorf("%s: %+v", what, o)
			}
		}
	}
	testenv.Value(w.Apply(ctx, ada, []model.Resource{namespace("shop")}, ofA))(t)
	if r := w.allGroup(t, "shop"); r == nil || r.Metadata.Owner != "" {
		t.Fatalf("%+v", r)
	}
	quiet("again", namespace("shop"))
	declared := inNamespace("shop", group("all"))
	testenv.Value(w.Apply(ctx, ada, []model.Resource{namespace("shop"), declared}, ofA))(t)
	if r := w.allGroup(t, "shop"); r.Metadata.Owner != "team-a" {
		t.Fatalf("%+v", r)
	}
	quiet("declared", namespace("shop"), inNamespace("shop", group("all")))
	done, err := w.Apply(ctx, ada, []model.Resource{namespace("shop")}, ofA)
	if r := w.allGroup(t, "shop"); err != nil || r == nil || r.Metadata.Owner != "" {
		t.Fatalf("%+v, %+v, %v", r, done, err)
	}
	quiet("no longer declared", namespace("shop"))
	done, err = w.Apply(ctx, ada, []model.Resource{check("x")}, ofA)
	if _, there := w.Get(ctx, intent.Key{Kind: "Namespace", Name: "shop"}); err != nil || model.ClassOf(there) != model.NotFound || w.allGroup(t, "shop") != nil {
		t.Fatalf("%+v, %v, %v", done, err, there)
	}
	// A group of another owner keeps the namespace from being pruned.
	testenv.Value(w.Apply(ctx, ada, []model.Resource{namespace("shop"), check("x")}, ofA))(t)
	testenv.Value(w.Apply(ctx, ada, []model.Resource{inNamespace("shop", group("all", "db"))}, intent.ApplyOptions{Owner: "team-b"}))(t)
	done, err = w.Apply(ctx, ada, []model.Resource{check("x")}, ofA)
	if r := w.allGroup(t, "shop"); err != nil || r == nil || !strings.Contains(strings.Join(done.Outcomes[len(done.Outcomes)-1].Warnings, ""), "it has group/shop/all (of team-b)") {
		t.Fatalf("%+v, %+v, %v", r, done, err)
	}
}
