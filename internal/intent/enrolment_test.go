package intent_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestConcurrentEnrolmentsShareACommit enrols machines while another commit runs, and expects one common commit for
// the machines. Each machine has its own name, token use and audit record. Two requests of one machine make one node,
// a declared node gets its machine, and a machine over the limit is refused.
func TestConcurrentEnrolmentsShareACommit(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	tokens := intent.JoinTokens{Store: w.Store()}
	testenv.NoError(t, tokens.Create(ctx, ada, pki.JoinToken{ID: "few", MaxUses: 2}))
	few, err := tokens.Find(ctx, "few")
	testenv.NoError(t, err)
	declared := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "declared"}, Spec: &model.NodeSpec{}}
	w.apply(t, declared)
	var mu sync.Mutex
	names, ids, refused := map[string]int{}, map[uuid.UUID]int{}, 0
	note := func(name string, uid uuid.UUID, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			refused++
			return
		}
		names[name]++
		ids[uid]++
	}
	var group sync.WaitGroup
	join := func(key, name string, token pki.JoinToken) {
		group.Go(func() {
			member, err := w.join(t, key, name, token)
			note(member.Name, member.UID, err)
		})
	}
	const rest = 50 + 2 + 2 + 3 + 2
	w.commits.Store(0)
	var once sync.Once
	w.beforeCommit = func() {
		once.Do(func() {
			for range 50 {
				join("", "web", pki.JoinToken{}) // machines without a token, all of one name
			}
			join("twice", "db", pki.JoinToken{})
			join("twice", "db", pki.JoinToken{})
			join("d1", "declared", pki.JoinToken{})
			join("d2", "declared", pki.JoinToken{})
			for i := range 3 {
				join(fmt.Sprint("few", i), fmt.Sprint("few", i), few)
			}
			for range 2 {
				group.Go(func() {
					info, err := w.RegisterExternal(ctx, intent.Actor{User: "agent", Address: "192.0.2.1:3"}, &intent.ExternalAgent{System: "sensu", Namespace: "default", Name: "met"})
					note(info.Name, info.UID, err)
				})
			}
			w.awaitJoinRequests(t, rest)
		})
	}
	join("first", "first", pki.JoinToken{})
	group.Wait()
	if len(names) != 50+1+2+2+1+1 || len(ids) != len(names) || refused != 1 || names["db"] != 2 || names["met"] != 2 || names["declared"] != 1 || names["web-50"] != 1 {
		t.Errorf("%d names, %d ids, %d refused: %v", len(names), len(ids), refused, names)
	}
	if few, err = tokens.Find(ctx, "few"); err != nil || few.Uses != 2 {
		t.Errorf("%d uses of a token, %v", few.Uses, err)
	}
	changes, err := w.Store().ChangesBefore(ctx, intent.ChangeQuery{Kind: "Node", Name: "met"})
	if err != nil || len(changes) != 1 || changes[0].Actor.Address != "192.0.2.1:3" {
		t.Errorf("%+v %v", changes, err)
	}
}

// TestFleetEnrolsInFewCommits enrols a thousand new machines at once and expects only a few database commits
func TestFleetEnrolsInFewCommits(t *testing.T) {
	w := newTestService(t)
	const many = 1000
	var group sync.WaitGroup
	var once sync.Once
	w.commits.Store(0)
	w.beforeCommit = func() {
		once.Do(func() {
			for i := range many {
				group.Go(func() {
					if _, err := w.join(t, fmt.Sprint("key ", i), fmt.Sprint("n", i), pki.JoinToken{}); err != nil {
						t.Error(err)
					}
				})
			}
			w.awaitJoinRequests(t, many)
		})
	}
	testenv.Value(w.join(t, "first", "first", pki.JoinToken{}))(t)
	group.Wait()
	if n := w.commits.Load(); n != 3 {
		t.Errorf("%d commits of %d machines", n, many)
	}
}

// awaitJoinRequests waits until n join requests wait for the running commit to end.
func (w *testService) awaitJoinRequests(t *testing.T, n int) {
	t.Helper()
	testenv.Until(t, fmt.Sprint(n, " machines wait"), func() bool { return w.WaitingRequests() >= n })
}

// TestNamespaceNodeLimit joins more machines than a namespace allows, and expects a refusal of the others. Machines
// join singly and together. A machine may still join if its node was declared beforehand.
func TestNamespaceNodeLimit(t *testing.T) {
	var told atomic.Int64
	w, ctx := newTestService(t), t.Context()
	w.full = func(namespace, limit, reason string) {
		if namespace != "room" || limit != "namespace_nodes" || reason != "namespace room has reached its limit of 10 nodes" {
			t.Errorf("told %q, %q, %q", namespace, limit, reason)
		}
		told.Add(1)
	}
	resources := []model.Resource{
		{Kind: "Namespace", Metadata: model.Metadata{Name: "room"}, Spec: &model.NamespaceSpec{Limits: &model.Limits{Nodes: 10}}},
		{Kind: "Node", Metadata: model.Metadata{Name: "declared", Namespace: "room"}, Spec: &model.NodeSpec{}},
	}
	w.apply(t, resources...)
	var came, refused atomic.Int64
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			switch _, err := w.join(t, fmt.Sprint("key", i), fmt.Sprint("web", i), pki.JoinToken{Namespace: "room"}); model.ClassOf(err) {
			case model.Limited:
				refused.Add(1)
			default:
				came.Add(1)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if came.Load() != 10 || refused.Load() != 30 || told.Load() != 30 {
		t.Errorf("%d came, %d were refused, %d times it was told", came.Load(), refused.Load(), told.Load())
	}
	if _, err := w.RegisterExternal(ctx, ada, &intent.ExternalAgent{System: "sensu", Namespace: "room", Name: "another"}); model.ClassOf(err) != model.Limited {
		t.Errorf("an agent of another system: %v", err)
	}
	if _, err := w.join(t, "late", "declared", pki.JoinToken{Namespace: "room"}); err != nil {
		t.Errorf("who was declared: %v", err)
	}
	if _, err := w.join(t, "elsewhere", "web", pki.JoinToken{}); err != nil {
		t.Errorf("another namespace: %v", err)
	}
}

// TestJoinGrantSurvivesApply applies a joined node again, and expects the groups and labels from its join token to
// stay. Groups or labels that the file declares replace them.
func TestJoinGrantSurvivesApply(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	apply := func(name string, given *model.JoinGrant) intent.Op {
		t.Helper()
		r := model.Resource{
			Kind: "Node", Metadata: model.Metadata{Name: name, Labels: map[string]string{"rack": "a7"}},
			Spec: &model.NodeSpec{Groups: []string{"web"}, JoinGrant: given},
		}
		out, err := w.Apply(ctx, ada, []model.Resource{r}, intent.ApplyOptions{})
		testenv.NoError(t, err)
		return out.Outcomes[0].Op
	}
	node := func(name string) (*model.NodeSpec, model.Metadata) {
		t.Helper()
		r, err := w.Get(ctx, nodeKey(name))
		testenv.NoError(t, err)
		return r.Spec.(*model.NodeSpec), r.Metadata
	}
	token := pki.JoinToken{
		ID: "4f1c", Groups: []string{"canary", "web"}, Labels: map[string]string{"rack": "other", "os": "linux"},
		Lifecycle: &model.Lifecycle{Ephemeral: true, ForgetAfter: model.Duration(10 * time.Minute)},
	}
	given := &model.JoinGrant{Token: "4f1c", Groups: token.Groups, Labels: token.Labels, Lifecycle: token.Lifecycle}
	apply("before", nil)
	uids := map[string]uuid.UUID{}
	for _, name := range []string{"before", "after"} {
		member, err := w.join(t, name+" key", name, token)
		if err != nil || member.Name != name {
			t.Fatalf("%+v, %v", member, err)
		}
		uids[name] = member.UID
	}
	if op := apply("after", nil); op != intent.OpUpdated {
		t.Errorf("declared after it joined: %s", op)
	}
	for name, uid := range uids {
		if op := apply(name, nil); op != intent.OpUnchanged {
			t.Errorf("%s: the same file again: %s", name, op)
		}
		if spec, _ := node(name); !reflect.DeepEqual(spec.JoinGrant, given) {
			t.Errorf("%s: %+v", name, spec.JoinGrant)
		}
		spec, meta := node(name)
		if got := spec.AssignedGroups(); !reflect.DeepEqual(got, []string{"web", "canary"}) {
			t.Errorf("%s: groups %v", name, got)
		}
		if got := spec.JoinableGroups(); !reflect.DeepEqual(got, []string{"canary", "web"}) {
			t.Errorf("%s: may join %v", name, got)
		}
		if got := spec.OperatorLabels(meta); !reflect.DeepEqual(got, map[string]string{"rack": "a7", "os": "linux"}) {
			t.Errorf("%s: labels %v", name, got)
		}
		for range 2 {
			if info, ok := w.LookupNode(uid); !ok || info.ForgetAfter != 10*time.Minute {
				t.Errorf("%s: %+v", name, info)
			}
			w.open(t)
		}
	}
	less := &model.JoinGrant{Token: "4f1c", Groups: []string{"web"}}
	for i, step := range []struct{ says, want *model.JoinGrant }{{less, less}, {nil, less}, {&model.JoinGrant{}, nil}, {nil, nil}} {
		apply("before", step.says)
		if spec, _ := node("before"); !reflect.DeepEqual(spec.JoinGrant, step.want) {
			t.Errorf("step %d: %+v", i, spec.JoinGrant)
		}
	}
	if info, _ := w.LookupNode(uids["before"]); info.ForgetAfter != 0 {
		t.Errorf("%+v", info)
	}
	// A machine that an operator accepts gets grants, too.
	member, err := w.Accept(ctx, ada, "k9", pki.JoinToken{Groups: []string{"db"}}, pki.EnrolRequest{Name: "db01"}, true)
	testenv.NoError(t, err)
	if spec, _ := node(member.Name); !reflect.DeepEqual(spec.JoinGrant, &model.JoinGrant{Groups: []string{"db"}}) {
		t.Errorf("accepted: %+v", spec.JoinGrant)
	}
}

// A declared node keeps its declared groups, labels and lifecycle when a machine joins. The same holds without grants
// of a token.
func TestDeclaredNodeKeepsItsDeclaration(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	uid := uuid.New()
	body := `{"apiVersion":"muster/v1","kind":"Node","metadata":{"name":"old","namespace":"default","labels":{"os":"linux"}},` +
		`"spec":{"uid":"` + uid.String() + `","groups":["web"],"mayJoin":["web"],"lifecycle":{"ephemeral":true},"key":"k1"}}`
	testenv.Value(w.Store().Commit(ctx, ada, []intent.Write{{Key: nodeKey("old"), Body: []byte(body)}}))(t)
	w.open(t)
	if info, ok := w.LookupNode(uid); !ok || info.ForgetAfter != time.Hour || info.Key != "k1" {
		t.Errorf("%+v", info)
	}
	r, err := w.Get(ctx, nodeKey("old"))
	testenv.NoError(t, err)
	spec := r.Spec.(*model.NodeSpec)
	if !reflect.DeepEqual(spec.AssignedGroups(), []string{"web"}) || !reflect.DeepEqual(spec.JoinableGroups(), []string{"web"}) || spec.OperatorLabels(r.Metadata)["os"] != "linux" {
		t.Errorf("%+v", spec)
	}
}

// A use of a join token is counted in the commit that uses the token. The commit creates a node or replaces its
// machine. If that commit fails, the use is not counted; of many machines with a token for one use, one joins.
func TestTokenUseIsCountedWithItsNode(t *testing.T) {
	w := newTestService(t)
	first, err := w.join(t, "k0", "web01", pki.JoinToken{})
	testenv.NoError(t, err)
	declared := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "declared"}, Spec: &model.NodeSpec{}}
	w.apply(t, declared)
	tokens := intent.JoinTokens{Store: w.Store()}
	for name, c := range map[string]struct {
		keep  pki.JoinToken
		wants string
	}{
		"new": {pki.JoinToken{MaxUses: 1}, "db"}, "replace": {pki.JoinToken{MaxUses: 1, Node: first.UID}, "db"}, "declared": {pki.JoinToken{MaxUses: 1}, "declared"},
	} {
		keep := c.keep
		keep.ID = name
		testenv.NoError(t, tokens.Create(t.Context(), ada, keep))
		token, err := tokens.Find(t.Context(), name)
		if err != nil || !token.Stored {
			t.Fatalf("%+v %v", token, err)
		}
		uses := func() int {
			now, err := tokens.Find(t.Context(), name)
			testenv.NoError(t, err)
			return now.Uses
		}
		begun := w.commits.Load()
		dead, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.Register(dead, name+" key", token, pki.EnrolRequest{Name: c.wants}); err == nil || uses() != 0 {
			t.Errorf("%s: what was not kept: %v, %d uses", name, err, uses())
		}
		var group sync.WaitGroup
		var joined atomic.Int64
		tried := w.commits.Load()
		for i := range 8 {
			group.Go(func() {
				_, err := w.join(t, fmt.Sprint(name, " key ", i), c.wants, token)
				if err == nil {
					joined.Add(1)
				} else if model.ClassOf(err) != model.Unauthenticated {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		group.Wait()
		if joined.Load() != 1 || uses() != 1 || w.commits.Load()-tried != 1 {
			t.Errorf("%s: %d joined, %d uses, %d commits (%d before)", name, joined.Load(), uses(), w.commits.Load()-tried, tried-begun)
		}
	}
}

// A machine that joins under the name of a declared node gets the declared node. The node keeps its id and its
// declaration. A declared node in a trusted group waits for a person's confirmation.
func TestDeclaredNodeGetsItsMachine(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	declare := func(name string, groups ...string) model.Resource {
		return model.Resource{Kind: "Node", Metadata: model.Metadata{Name: name, Labels: map[string]string{"rack": "a7"}}, Spec: &model.NodeSpec{Groups: groups}}
	}
	vault := model.Resource{Kind: "Group", Metadata: model.Metadata{Name: "vault"}, Spec: &model.GroupSpec{Trusted: true, Nodes: []string{"db01"}}}
	apply := func() {
		t.Helper()
		w.apply(t, declare("web01", "web"), declare("db01"), declare("pay01"), vault)
	}
	apply()
	before, err := w.Get(ctx, nodeKey("web01"))
	testenv.NoError(t, err)
	token := pki.JoinToken{ID: "t", Groups: []string{"canary"}, Labels: map[string]string{"rack": "other", "os": "linux"}}
	member, err := w.join(t, "k1", "web01", token)
	if err != nil || member.Name != "web01" {
		t.Fatalf("%+v, %v", member, err)
	}
	info, ok := w.LookupNode(member.UID)
	if !ok || info.Key != "k1" || uint32(info.ID) != before.Status.ID {
		t.Errorf("%+v", info)
	}
	after, err := w.Get(ctx, nodeKey("web01"))
	testenv.NoError(t, err)
	spec := after.Spec.(*model.NodeSpec)
	if labels := spec.OperatorLabels(after.Metadata); !slices.Equal(spec.AssignedGroups(), []string{"web", "canary"}) || spec.Facts["key"] != "k1" || labels["rack"] != "a7" || labels["os"] != "linux" {
		t.Errorf("%+v, labels %v", spec, labels)
	}
	apply() // the same files again: the node keeps its machine
	if info, ok := w.LookupNode(member.UID); !ok || info.Key != "k1" {
		t.Errorf("after the next apply: %+v", info)
	}
	for _, c := range []struct{ key, name, trusted, want string }{
		{"k1", "web01", "", "web01"}, {"k2", "web01", "", "web01-2"}, {"k3", "db01", "", "db01-2"}, {"k4", "pay01", "payment", "pay01-2"},
	} {
		w.trusted = c.trusted
		if got, err := w.join(t, c.key, c.name, token); err != nil || got.Name != c.want {
			t.Errorf("%s wants %s: %+v, %v", c.key, c.name, got, err)
		}
	}
	if got, err := w.Accept(ctx, ada, "k5", pki.JoinToken{}, pki.EnrolRequest{Name: "pay01"}, true); err != nil || got.Name != "pay01" {
		t.Errorf("accepted by name: %+v, %v", got, err)
	}
	if got, err := w.Accept(ctx, ada, "k6", pki.JoinToken{}, pki.EnrolRequest{Name: "db01"}, true); err != nil || got.Name != "db01" {
		t.Errorf("accepted by name: %+v, %v", got, err)
	}
}

// TestEnrolmentIsRefusedIfTrustIsUnknown expects a refusal while the server cannot determine whether a node is
// trusted. A trusted node belongs to a trusted group.
func TestEnrolmentIsRefusedIfTrustIsUnknown(t *testing.T) {
	w := newTestService(t)
	pay := func(role string) model.Resource {
		return model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "pay01", Labels: map[string]string{"role": role}}, Spec: &model.NodeSpec{}}
	}
	w.apply(t, pay("none"))
	testenv.Value(w.join(t, "k1", "web01", pki.JoinToken{ID: "t"}))(t)
	w.trustError = model.Errorf(model.Unavailable, "the planner is behind")
	for name, token := range map[string]pki.JoinToken{"pay01": {ID: "t"}, "web01": {ID: "r", Replace: true}} {
		if got, err := w.join(t, "k2", name, token); model.ClassOf(err) != model.Unavailable {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	w.trustError = nil
	w.duringTrustCheck = func() { // an operator adds the node to a trusted group during the check
		w.duringTrustCheck = nil
		w.apply(t, pay("payment"))
		w.duringTrustCheck = func() { w.trusted = "payment" }
	}
	if got, err := w.join(t, "k2", "pay01", pki.JoinToken{ID: "t"}); err != nil || got.Name != "pay01-2" {
		t.Errorf("%+v, %v", got, err)
	}
}
