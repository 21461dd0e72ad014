package intent_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/store/intentdb"
	"github.com/muster-fleet/muster/internal/testenv"
)

var ada = intent.Actor{User: "ada", Address: "127.0.0.1", Message: "test"}

// testService is an intent Service on a temporary SQLite store, for declared resources. It has a planner and a clock
// that the test sets.
type testService struct {
	full func(namespace, limit, reason string)
	*intent.Service
	affected          int
	hasReview         bool // a group has review
	previews          int
	beforeApplyWrites func()
	dsn               string
	commits           atomic.Int64 // transactions tried
	queries           atomic.Int64 // Get, GetAll and List
	now               time.Time

	beforeCommit func() // called before each transaction; nil: nothing

	connected        bool                    // whether nodes have sessions
	hasSession       func(model.NodeID) bool // per node; nil: connected holds for all nodes
	wait             time.Duration           // time until another machine may become an absent node by its name
	trusted          string                  // a trusted group that all nodes are in
	trustError       error                   // reason why the trusted group is unknown
	duringTrustCheck func()                  // called while trust is checked; nil: nothing
	changed          []string                // calls of NodeChanged
}

// newTestService returns an intent service with a new SQLite store.
func newTestService(t *testing.T) *testService {
	w := &testService{dsn: filepath.Join(t.TempDir(), "intent.db"), now: time.Unix(1000, 0)}
	w.open(t)
	return w
}

// open starts a new service on the same database, as after a restart of the server
func (w *testService) open(t *testing.T) {
	t.Helper()
	store, err := intentdb.Open(t.Context(), w.dsn, kind.All(), func() time.Time { return w.now })
	testenv.NoError(t, err)
	t.Cleanup(func() { store.Close() })
	w.Service = intent.NewService(intent.Options{
		Store: countingStore{store, w}, Now: func() time.Time { return w.now }, Limits: model.Limits{Labels: 3},
		Connected: func(id model.NodeID) bool {
			if w.hasSession != nil {
				return w.hasSession(id)
			}
			return w.connected
		},
		NodeChanged: func(was, is intent.NodeInfo) {
			change := is.Name + ":" + was.Key + ">" + is.Key
			if _, ok := w.TombstoneByKey(was.Key); was.Key != is.Key && !ok { // the refusal of the old machine gives its reason
				change += " without tombstone"
			}
			w.changed = append(w.changed, change)
		},
		Full: func(namespace, limit, reason string) {
			if w.full != nil {
				w.full(namespace, limit, reason)
			}
		},
		Impact: w.previewImpact,
		Absent: func(intent.NodeInfo) time.Duration { return w.wait },
		Trusted: func(context.Context, model.NodeID) (string, error) {
			if w.duringTrustCheck != nil {
				w.duringTrustCheck()
			}
			return w.trusted, w.trustError
		},
	})
	testenv.NoError(t, w.Load(t.Context()))
}

// apply applies resources as the user ada, and ends the test on an error.
func (w *testService) apply(t *testing.T, resources ...model.Resource) intent.ApplyResult {
	t.Helper()
	return testenv.Value(w.Apply(t.Context(), ada, resources, intent.ApplyOptions{}))(t)
}

// check returns a Check with some handlers, for tests
func check(name string, handlers ...string) model.Resource {
	return model.Resource{Kind: "Check", Metadata: model.Metadata{Name: name}, Spec: &model.CheckSpec{
		Command: &model.Command{Shell: "true"}, Interval: model.Duration(time.Minute), Targets: &model.Targets{Groups: []string{"all"}},
		Alert: &model.Alert{Handlers: handlers},
	}}
}

// group returns a Group with some inner groups, for tests
func group(name string, inner ...string) model.Resource {
	return model.Resource{Kind: "Group", Metadata: model.Metadata{Name: name}, Spec: &model.GroupSpec{Groups: inner}}
}

// TestApplyReportsOutcomeOfEachResource applies new, changed and unchanged resources, and expects the right outcome
// for each
func TestApplyReportsOutcomeOfEachResource(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	if out := w.apply(t, check("a"), check("b")); out.Outcomes[0].Op != intent.OpCreated || out.Outcomes[1].Key.String() != "check/b" {
		t.Fatalf("%+v", out)
	}
	changed := check("b")
	changed.Spec.(*model.CheckSpec).Interval = model.Duration(time.Hour)
	out := w.apply(t, check("a"), changed)
	if out.Outcomes[0].Op != intent.OpUnchanged || out.Outcomes[1].Op != intent.OpUpdated || !strings.Contains(out.Outcomes[1].Diff, "+  interval: 1h") {
		t.Fatalf("%+v\n%s", out, out.Outcomes[1].Diff)
	}
	before, _ := w.Store().Revision(ctx)
	if w.apply(t, check("a"), changed).Revision != 0 {
		t.Fatal("nothing changed, yet a revision was made")
	}
	if after, _ := w.Store().Revision(ctx); after != before {
		t.Fatal("nothing changed, yet the revision moved")
	}
	audit, err := w.Audit(ctx, intent.ChangeQuery{Bodies: true, Limit: 1}, false)
	if err != nil || len(audit) != 1 {
		t.Fatal(audit, err)
	}
	last := audit[0]
	if last.Actor != ada || last.Op != "update" || !strings.Contains(last.Diff, "interval") {
		t.Fatalf("%+v, %v", last, err)
	}
}

// TestApplyIsAtomicAndReportsEveryProblem applies valid and invalid resources together, and expects no stored
// resource. The error must list every fault.
func TestApplyIsAtomicAndReportsEveryProblem(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	lost := check("c")
	lost.Metadata.Namespace = "nowhere"
	_, err := w.Apply(ctx, ada, []model.Resource{check("good"), check("bad", "pager"), check("worse", "shared/mail"), lost, group("x", "w", "y"), group("y", "z"), group("z", "w", "x"), group("w")}, intent.ApplyOptions{})
	if model.ClassOf(err) != model.Invalid {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{`handler "pager" does not exist`, `handler "shared/mail" does not exist`, `namespace "nowhere" does not exist`, "group/x contains itself: x → y → z → x", "group/z contains itself: z → x → y → z"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in %v", want, err)
		}
	}
	if _, err := w.Get(ctx, intent.Key{Kind: "Check", Namespace: "default", Name: "good"}); model.ClassOf(err) != model.NotFound {
		t.Fatal("half an apply was kept")
	}
}

// An apply that changes too many nodes is refused without a confirmation (--yes or --max-affected).
func TestApplyThatChangesManyNodesNeedsConfirmation(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	w.affected = 51
	if _, err := w.Apply(ctx, ada, []model.Resource{check("a")}, intent.ApplyOptions{}); model.ClassOf(err) != model.Guarded || !strings.Contains(err.Error(), "--yes") {
		t.Fatalf("got %v", err)
	}
	if out, err := w.Apply(ctx, ada, []model.Resource{check("a")}, intent.ApplyOptions{DryRun: true}); err != nil || out.Affected != 51 {
		t.Fatal(out, err)
	}
	for _, o := range []intent.ApplyOptions{{Yes: true}, {MaxAffected: 51}} {
		testenv.Value(w.Apply(ctx, ada, []model.Resource{check("a")}, o))(t)
	}
}

// TestStaleRevisionIsRefused applies with an outdated expected revision, and expects an error of class Stale.
func TestStaleRevisionIsRefused(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	key := intent.Key{Kind: "Group", Namespace: "default", Name: "all"}
	r, err := w.Get(ctx, key)
	testenv.NoError(t, err)
	r.Metadata.DisplayName = "everything"
	stale := intent.ApplyOptions{Expect: map[intent.Key]int64{key: r.Status.Revision + 5}}
	if _, err := w.Apply(ctx, ada, []model.Resource{*r}, stale); model.ClassOf(err) != model.Stale {
		t.Fatalf("got %v", err)
	}
	if _, err := w.Delete(ctx, ada, []intent.Key{key}, stale); model.ClassOf(err) != model.Stale {
		t.Fatalf("got %v", err)
	}
	fresh := intent.ApplyOptions{Expect: map[intent.Key]int64{key: r.Status.Revision}}
	testenv.Value(w.Apply(ctx, ada, []model.Resource{*r}, fresh))(t)
}

// TestOperatorCannotChangeReport applies a Node with another uid and other facts, and expects no effect. The values of
// the machine stay.
func TestOperatorCannotChangeReport(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	var uid uuid.UUID
	token := pki.JoinToken{ID: "t", Groups: []string{"web"}, Labels: map[string]string{"env": "prod"}}
	for _, c := range []struct{ key, want string }{{"k2", "web01"}, {"k1", "web01-2"}, {"k2", "web01"}} {
		member, err := w.Register(ctx, c.key, token, pki.EnrolRequest{Name: "WEB01", Facts: map[string]string{"os": "linux"}})
		if err != nil || member.Name != c.want || member.Namespace != "default" {
			t.Fatal(member, err)
		}
		if held, ok := w.LookupKey(c.key); !ok || held.UID != member.UID {
			t.Fatalf("the key of %s is of %+v", c.want, held)
		}
		uid = member.UID
	}
	info, ok := w.LookupNode(uid)
	if !ok || info.Name != "web01" || info.NamespaceID != model.DefaultNamespace || info.ID < 1000 {
		t.Fatalf("%+v", info)
	}
	node := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "web01"}, Spec: &model.NodeSpec{
		UID: uuid.NewString(), Facts: map[string]string{"os": "toaster"}, Keepalive: &model.Keepalive{Timeout: model.Duration(time.Hour)},
	}}
	w.apply(t, node)
	r, err := w.Get(ctx, intent.Key{Kind: "Node", Namespace: "default", Name: "web01"})
	if spec := r.Spec.(*model.NodeSpec); err != nil || spec.UID != uid.String() || spec.Facts["os"] != "linux" {
		t.Fatalf("%+v, %v", r.Spec, err)
	}
	w.open(t) // a restart changes nothing
	if info, ok := w.LookupNode(uid); !ok || info.Timeout != time.Hour {
		t.Fatalf("%+v", info)
	}
	labels := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "web01", Labels: map[string]string{"a": "", "b": "", "c": "", "d": ""}}, Spec: &model.NodeSpec{}}
	if _, err := w.Apply(ctx, ada, []model.Resource{labels}, intent.ApplyOptions{}); model.ClassOf(err) != model.Limited {
		t.Fatalf("got %v, want the limit on labels", err)
	}
}

// TestNonEmptyNamespaceIsNotDeleted deletes a namespace with resources, and expects a refusal. The error names one of
// the resources.
func TestNonEmptyNamespaceIsNotDeleted(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	team := model.Resource{Kind: "Namespace", Metadata: model.Metadata{Name: "team"}, Spec: &model.NamespaceSpec{Limits: &model.Limits{Labels: 9}}}
	inside := group("g")
	inside.Metadata.Namespace = "team"
	w.apply(t, inside, team)
	if w.LimitsFor("team").Labels != 9 || w.LimitsFor("default").Labels != 3 {
		t.Fatal("limits of a namespace win over the server's")
	}
	key := intent.Key{Kind: "Namespace", Name: "team"}
	if _, err := w.Delete(ctx, ada, []intent.Key{key}, intent.ApplyOptions{}); model.ClassOf(err) != model.Conflict {
		t.Fatalf("got %v", err)
	}
	testenv.Value(w.Delete(ctx, ada, []intent.Key{intent.KeyOf(&inside)}, intent.ApplyOptions{}))(t)
	testenv.Value(w.Delete(ctx, ada, []intent.Key{key}, intent.ApplyOptions{}))(t)
}

// TestMissingNodesAreReported applies a resource that lists a node before the node exists, and expects a
// warning. The warning suggests a similar name.
func TestMissingNodesAreReported(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	on := func(namespace string, nodes ...string) model.Resource {
		c := check("c")
		c.Metadata.Namespace = namespace
		c.Spec.(*model.CheckSpec).Targets = &model.Targets{Nodes: nodes, Except: &model.Targets{Nodes: nodes[len(nodes)-1:]}}
		return c
	}
	team := model.Resource{Kind: "Namespace", Metadata: model.Metadata{Name: "team"}, Spec: &model.NamespaceSpec{}}
	declared := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "declared"}, Spec: &model.NodeSpec{}}
	w.apply(t, team, declared)
	for _, n := range []struct{ namespace, name string }{{"default", "web01"}, {"team", "db01"}} {
		testenv.NoError(t, w.CreateNodes(ctx, ada, n.namespace, []intent.BulkNode{{UID: uuid.New(), Name: n.name}}))
	}
	many := []string{"n1", "n2", "n3", "n4", "n5", "n6", "n7", "web01"}
	property := model.Resource{Kind: "Property", Metadata: model.Metadata{Name: "p"}, Spec: &model.PropertySpec{Scope: "node:wbe01", Value: []byte("1")}}
	fleet := model.Resource{Kind: "Group", Metadata: model.Metadata{Name: "fleet"}, Spec: &model.GroupSpec{Nodes: []string{"web1"}}}
	for _, c := range []struct {
		r     model.Resource
		with  []model.Resource
		count int
		want  string
	}{
		{on("default", "web01", "declared"), nil, 0, ""}, {on("default", "nope", "web01"), nil, 1, `node "nope" does not exist (yet)`},
		{on("default", "weeb01", "web01"), nil, 1, `node "weeb01" does not exist (yet); did you mean "web01"?`},
		{on("default", "db01", "web01"), nil, 1, `node "db01" does not exist`}, {on("team", "db01"), nil, 0, ""},
		{on("default", "new", "web01"), []model.Resource{{Kind: "Node", Metadata: model.Metadata{Name: "new"}, Spec: &model.NodeSpec{}}}, 0, ""},
		{on("shared", "db01", "declared", "team/db01", "default/web01"), nil, 0, ""}, {on("shared", "default/db01", "db01"), nil, 1, `node "default/db01" does not exist`},
		{on("shared", "nowhere", "db01"), nil, 1, `node "nowhere" does not exist`},
		{on("default", "web01", "nope"), nil, 1, `node "nope" does not exist`}, {on("default", many...), nil, 6, "and other nodes do not exist"},
		{property, nil, 1, `did you mean "web01"?`}, {fleet, nil, 1, `did you mean "web01"?`},
	} {
		out, err := w.Apply(ctx, ada, append([]model.Resource{c.r}, c.with...), intent.ApplyOptions{DryRun: true})
		testenv.NoError(t, err)
		if got := out.Outcomes[0].Warnings; len(got) != c.count || !strings.Contains(strings.Join(got, "\n"), c.want) {
			t.Errorf("%s: %q, want %d with %q", intent.KeyOf(&c.r), got, c.count, c.want)
		}
	}
}
