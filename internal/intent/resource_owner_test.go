package intent_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
)

// withOwner sets the owner of a test resource, and returns the changed resource.
func withOwner(r model.Resource, owner string) model.Resource {
	r.Metadata.Owner = owner
	return r
}

// handler returns a Handler resource with a given name, for tests.
func handler(name string) model.Resource {
	return model.Resource{Kind: "Handler", Metadata: model.Metadata{Name: name}, Spec: &model.HandlerSpec{Command: &model.Command{Shell: "true"}}}
}

// namespace returns a Namespace resource with a given name, for tests.
func namespace(name string) model.Resource {
	return model.Resource{Kind: "Namespace", Metadata: model.Metadata{Name: name}, Spec: &model.NamespaceSpec{}}
}

// inNamespace returns the test resource r, moved into the given namespace.
func inNamespace(namespace string, r model.Resource) model.Resource {
	r.Metadata.Namespace = namespace
	return r
}

// owner returns the owner of a stored resource.
func (w *testService) owner(t *testing.T, kind, name string) string {
	t.Helper()
	r, err := w.Get(t.Context(), intent.Key{Kind: kind, Namespace: model.DefaultNamespaceName, Name: name})
	testenv.NoError(t, err)
	return r.Metadata.Owner
}

// TestResourcesOfAnotherOwnerAreRefused applies another owner's resources, and expects a refusal. With --take-over the
// apply changes their owner.
func TestResourcesOfAnotherOwnerAreRefused(t *testing.T) {
	a, b := intent.ApplyOptions{Owner: "team-a"}, intent.ApplyOptions{Owner: "team-b"}
	take := intent.ApplyOptions{Owner: "team-b", TakeOver: true}
	hand := intent.ApplyOptions{}
	for _, c := range []struct {
		name    string
		before  string // owner of check/x before the apply
		apply   model.Resource
		options intent.ApplyOptions
		class   model.Class // of the refusal; 0: none
		want    string      // part of the warning or the refusal; empty: no warning
		after   string
	}{
		{"is signed", "team-a", check("x", "h"), a, 0, "", "team-a"},
		{"names its owner", "team-a", withOwner(check("x", "h"), "team-a"), a, 0, "", "team-a"},
		{"names another than it is applied for", "team-a", withOwner(check("x", "h"), "team-b"), a, model.Invalid, "check/x has owner: team-b", "team-a"},
		{"of nobody is taken", "", check("x"), a, 0, "the resource had no owner; its owner is now team-a", "team-a"},
		{"of another is refused", "team-a", check("x"), b, model.Guarded, "check/x belongs to team-a", "team-a"},
		{"of another, taken over", "team-a", check("x"), take, 0, "taken over from team-a", "team-b"},
		{"by hand", "team-a", check("x", "h"), hand, 0, "belongs to team-a, whose next apply undoes", "team-a"},
		{"by hand, with an owner of nobody's", "", withOwner(check("x"), "team-a"), hand, 0, "the resource had no owner; its owner is now", "team-a"},
		{"by hand, for another", "team-a", withOwner(check("x"), "team-b"), hand, model.Guarded, "check/x belongs to team-a", "team-a"},
		{"by hand and unchanged", "team-a", check("x"), hand, 0, "", "team-a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, ctx := newTestService(t), t.Context()
			testenv.Value(w.Apply(ctx, ada, []model.Resource{handler("h"), withOwner(check("x"), c.before)}, hand))(t)
			dry := c.options
			dry.DryRun = true
			planned, err := w.Apply(ctx, ada, []model.Resource{c.apply}, dry)
			if c.class == model.Guarded && (err != nil || model.ClassOf(planned.Refused) != c.class || !strings.Contains(planned.Refused.Error(), c.want)) {
				t.Errorf("the plan says %v, %v", planned.Refused, err)
			}
			done, err := w.Apply(ctx, ada, []model.Resource{c.apply}, c.options)
			if c.class != 0 {
				if model.ClassOf(err) != c.class || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
			} else if err != nil {
				t.Fatal(err)
			} else if said := strings.Join(done.Outcomes[0].Warnings, "; "); c.want == "" && said != "" || !strings.Contains(said, c.want) {
				t.Errorf("warnings %q, want %q", said, c.want)
			}
			if owner := w.owner(t, "Check", "x"); owner != c.after {
				t.Errorf("belongs to %q, want %q", owner, c.after)
			}
		})
	}
}

// An apply without an owner removes the owner of a resource, and returns a warning. It must state the expected
// revision.
func TestApplyWithoutOwnerReleasesOwner(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	testenv.Value(w.Apply(ctx, ada, []model.Resource{check("x")}, intent.ApplyOptions{Owner: "team-a"}))(t)
	key := intent.Key{Kind: "Check", Namespace: model.DefaultNamespaceName, Name: "x"}
	r, err := w.Get(ctx, key)
	testenv.NoError(t, err)
	done, err := w.Apply(ctx, ada, []model.Resource{check("x")}, intent.ApplyOptions{Expect: map[intent.Key]int64{key: r.Status.Revision}})
	if err != nil || w.owner(t, "Check", "x") != "" || !strings.Contains(done.Outcomes[0].Warnings[0], "former owner was team-a") {
		t.Fatalf("%+v, %v", done, err)
	}
	testenv.Value(w.Apply(ctx, ada, []model.Resource{check("x")}, intent.ApplyOptions{Owner: "team-a"}))(t)
	gone, err := w.Delete(ctx, ada, []intent.Key{key}, intent.ApplyOptions{})
	if err != nil || !strings.Contains(gone.Outcomes[0].Warnings[0], "belongs to team-a, whose next apply creates it again") {
		t.Fatalf("%+v, %v", gone, err)
	}
	audit, err := w.Audit(ctx, intent.ChangeQuery{Limit: 2}, false)
	if err != nil || audit[0].Actor.Owner != "" || audit[1].Actor.Owner != "team-a" {
		t.Fatalf("%+v, %v", audit, err)
	}
}

// TestPruneDeletesUndeclaredResources applies with --prune, and expects the deletion of undeclared resources.
// Resources of other owners stay.
func TestPruneDeletesUndeclaredResources(t *testing.T) {
	ofA := intent.ApplyOptions{Owner: "team-a", Prune: true}
	empty := ofA
	empty.AllowEmpty = true
	for _, c := range []struct {
		name    string
		others  []model.Resource // with the owners that they declare
		before  []model.Resource // resources of team-a on record
		apply   []model.Resource
		options intent.ApplyOptions
		class   model.Class
		want    string // part of the refusal or of a warning
		left    string // resources after the apply
	}{
		{name: "an undeclared resource is deleted", before: []model.Resource{check("x"), check("y"), group("g")}, apply: []model.Resource{check("x")},
			options: ofA, left: "check/x"},
		{name: "resources of other owners stay", others: []model.Resource{withOwner(check("b"), "team-b"), check("nobody"), withOwner(check("like"), "team-a2")},
			before: []model.Resource{check("y")}, apply: []model.Resource{check("x")}, options: ofA, left: "check/b check/like check/nobody check/x"},
		{name: "without --prune nothing is deleted", before: []model.Resource{check("y")}, apply: []model.Resource{check("x")},
			options: intent.ApplyOptions{Owner: "team-a"}, left: "check/x check/y"},
		{name: "an empty input is refused", before: []model.Resource{check("y")}, options: ofA, class: model.Invalid, want: "--allow-empty", left: "check/y"},
		{name: "--allow-empty deletes all resources of the owner", before: []model.Resource{check("y")}, options: empty},
		{name: "--prune without --owner is refused", before: []model.Resource{check("y")}, apply: []model.Resource{check("x")}, options: intent.ApplyOptions{Prune: true},
			class: model.Invalid, want: "--owner", left: "check/y"},
		{name: "a namespace is pruned with all its resources", before: []model.Resource{namespace("shop"), inNamespace("shop", check("y"))}, apply: []model.Resource{check("x")},
			options: ofA, left: "check/x"},
		{name: "a namespace with resources of other owners stays", others: []model.Resource{namespace("shop"), inNamespace("shop", withOwner(check("b"), "team-b"))},
			before: []model.Resource{namespace("shop"), inNamespace("shop", check("y"))}, apply: []model.Resource{check("x")}, options: ofA,
			want: "not empty: it has check/shop/b", left: "check/shop/b check/x group/shop/all namespace/shop"},
		{name: "a namespace with declared resources stays", before: []model.Resource{namespace("shop")}, apply: []model.Resource{inNamespace("shop", check("x"))}, options: ofA,
			want: "it has check/shop/x", left: "check/shop/x group/shop/all namespace/shop"},
		{name: "built-in resources stay", before: []model.Resource{namespace("default"), group("all")}, apply: []model.Resource{check("x")}, options: ofA,
			want: "built in", left: "check/x group/all namespace/default"},
		{name: "pruning a handler that another owner references is refused", others: []model.Resource{handler("pager"), withOwner(check("b", "pager"), "team-b")},
			before: []model.Resource{handler("pager")}, apply: []model.Resource{check("x")}, options: ofA,
			class: model.Conflict, want: "handler/pager is no longer declared, but check/b (of team-b) still refers to it in spec.alert.handlers", left: "check/b handler/pager"},
		{name: "a handler that an applied resource references is refused", before: []model.Resource{handler("pager"), check("x", "pager")},
			apply: []model.Resource{check("x", "pager")}, options: ofA, class: model.Invalid, want: `handler "pager" does not exist`, left: "check/x handler/pager"},
		{name: "a handler is pruned with its last reference", before: []model.Resource{handler("pager"), check("x", "pager")},
			apply: []model.Resource{check("x")}, options: ofA, left: "check/x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, ctx := newTestService(t), t.Context()
			for _, set := range []struct {
				resources []model.Resource
				options   intent.ApplyOptions
			}{{c.others, intent.ApplyOptions{}}, {c.before, intent.ApplyOptions{Owner: "team-a"}}} {
				if len(set.resources) == 0 {
					continue
				}
				testenv.Value(w.Apply(ctx, ada, set.resources, set.options))(t)
			}
			done, err := w.Apply(ctx, ada, c.apply, c.options)
			if c.class != 0 {
				if model.ClassOf(err) != c.class || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			var said []string
			for _, o := range done.Outcomes {
				said = append(said, o.Warnings...)
			}
			if c.class == 0 && !strings.Contains(strings.Join(said, "\n"), c.want) {
				t.Errorf("warnings %q, want %q", said, c.want)
			}
			var left []string
			for _, kind := range kind.All().Kinds() {
				rows, err := w.Store().List(ctx, intent.ListQuery{Kind: kind.Name})
				testenv.NoError(t, err)
				for _, row := range rows {
					left = append(left, row.Key.String())
				}
			}
			for _, name := range []string{"namespace/default", "namespace/shared", "group/all", "group/shared/all"} {
				if !strings.Contains(c.left, name) {
					left = slices.DeleteFunc(left, func(l string) bool { return l == name })
				}
			}
			slices.Sort(left)
			if got := strings.Join(left, " "); got != c.left {
				t.Errorf("left is %s, want %s", got, c.left)
			}
		})
	}
}

// A prune keeps the node of a joined machine, even if a file once declared the node.
func TestPruneKeepsJoinedMachines(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	member, err := w.Register(ctx, "k1", pki.JoinToken{}, pki.EnrolRequest{Name: "web01"})
	testenv.NoError(t, err)
	node := func(name string) model.Resource {
		return model.Resource{Kind: "Node", Metadata: model.Metadata{Name: name, Labels: map[string]string{"env": "prod"}}, Spec: &model.NodeSpec{}}
	}
	ofA := intent.ApplyOptions{Owner: "team-a", Prune: true}
	testenv.Value(w.Apply(ctx, ada, []model.Resource{node(member.Name), node("waits"), check("x")}, ofA))(t)
	done, err := w.Apply(ctx, ada, []model.Resource{check("x")}, ofA)
	testenv.NoError(t, err)
	for _, o := range done.Outcomes {
		switch o.Key.Name {
		case "web01":
			if o.Op != intent.OpUnchanged || !strings.Contains(o.Warnings[0], "its machine has joined") {
				t.Errorf("%+v", o)
			}
		case "waits":
			if o.Op != intent.OpDeleted {
				t.Errorf("%+v", o)
			}
		}
	}
	if _, err := w.Get(ctx, intent.Key{Kind: "Node", Namespace: "default", Name: "web01"}); err != nil {
		t.Error(err)
	}
}

// An apply with --prune is refused if more nodes change than the limit allows. The error lists the resources that the
// apply would delete.
func TestPruneThatChangesManyNodesNeedsConfirmation(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	testenv.Value(w.Apply(ctx, ada, []model.Resource{check("x"), check("y")}, intent.ApplyOptions{Owner: "team-a"}))(t)
	w.affected = 51
	_, err := w.Apply(ctx, ada, []model.Resource{check("x")}, intent.ApplyOptions{Owner: "team-a", Prune: true})
	if model.ClassOf(err) != model.Guarded || !strings.Contains(err.Error(), "51 nodes") || !strings.Contains(err.Error(), "it would delete 1 resource that team-a no longer declares: check/y") {
		t.Fatalf("got %v", err)
	}
	if w.owner(t, "Check", "y") != "team-a" {
		t.Error("it is gone all the same")
	}
	testenv.Value(w.Apply(ctx, ada, []model.Resource{check("x")}, intent.ApplyOptions{Owner: "team-a", Prune: true, Yes: true}))(t)
}

// TestConcurrentAppliesConflict applies a folder twice concurrently, and expects the second apply to fail with
// a conflict. The second apply fails with a conflict and changes nothing.
func TestConcurrentAppliesConflict(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	slow := check("x")
	slow.Spec.(*model.CheckSpec).Disabled = true
	ofA := intent.ApplyOptions{Owner: "team-a", Prune: true}
	testenv.Value(w.Apply(ctx, ada, []model.Resource{check("x"), check("y")}, ofA))(t)
	w.beforeApplyWrites = func() { // the first apply has read its rows and has not written yet
		w.beforeApplyWrites = nil
		if _, err := w.Apply(ctx, ada, []model.Resource{check("x", "h"), handler("h"), check("y")}, ofA); err != nil {
			t.Error(err)
		}
	}
	_, err := w.Apply(ctx, ada, []model.Resource{slow}, ofA)
	if model.ClassOf(err) != model.Conflict || !strings.Contains(err.Error(), "check/x has changed since") || !strings.Contains(err.Error(), "one CI pipeline per folder") {
		t.Fatalf("got %v", err)
	}
	if w.owner(t, "Check", "y") != "team-a" {
		t.Error("half of it was kept")
	}
}

// TestPreviewIsRepeatedAfterOtherCommits changes resources between an apply's preview and commit, and expects the apply to
// preview again. Only a fleet with review needs the second preview.
func TestPreviewIsRepeatedAfterOtherCommits(t *testing.T) {
	for hasReview, previews := range map[bool]int{false: 2, true: 3} {
		w := newTestService(t)
		w.hasReview = hasReview
		w.beforeApplyWrites = func() {
			w.beforeApplyWrites = nil
			testenv.Value(w.Apply(t.Context(), ada, []model.Resource{check("y")}, intent.ApplyOptions{}))(t)
		}
		testenv.Value(w.Apply(t.Context(), ada, []model.Resource{check("x")}, intent.ApplyOptions{}))(t)
		if w.previews != previews {
			t.Errorf("review %v: %d previews, want %d", hasReview, w.previews, previews)
		}
	}
}

// previewImpact replaces the planner's preview in a test, and returns the test's own number of affected nodes.
// It calls w.between after an apply has read its rows and before it writes.
func (w *testService) previewImpact(_ context.Context, writes []intent.Write, _ bool) (intent.Impact, error) {
	w.previews++
	if w.beforeApplyWrites != nil {
		w.beforeApplyWrites()
	}
	return intent.Impact{Placements: make([]intent.Placement, len(writes)), Affected: w.affected, HasReview: w.hasReview}, nil
}
