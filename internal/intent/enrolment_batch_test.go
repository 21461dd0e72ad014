package intent_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
)

// Machines that come while one is written are written together, and each is what it would be
// by itself: a name, a use of its token, an entry of its own in the record of changes. Who
// asks twice is one node, who was declared is that node, and who comes too late is refused.
func TestThoseWhoComeAtOnceAreWrittenTogether(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	tokens := intent.JoinTokens{Store: w.Store()}
	if err := tokens.Create(ctx, ada, pki.JoinToken{ID: "few", MaxUses: 2}); err != nil {
		t.Fatal(err)
	}
	few, err := tokens.Find(ctx, "few")
	if err != nil {
		t.Fatal(err)
	}
	declared := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "declared"}, Spec: &model.NodeSpec{}}
	if _, err := w.Apply(ctx, ada, []model.Resource{declared}, intent.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
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
	w.committing = func() {
		once.Do(func() {
			for range 50 {
				join("", "web", pki.JoinToken{}) // strangers that have one name
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
					info, err := w.RegisterExternal(ctx, intent.Actor{User: "agent", Whence: "192.0.2.1:3"}, &intent.ExternalAgent{System: "sensu", Namespace: "default", Name: "met"})
					note(info.Name, info.UID, err)
				})
			}
			w.await(t, rest)
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
	if err != nil || len(changes) != 1 || changes[0].Who.Whence != "192.0.2.1:3" {
		t.Errorf("%+v %v", changes, err)
	}
}

// A thousand new machines cost some commits.
func TestManyNewMachinesCostFewCommits(t *testing.T) {
	w := newWorld(t)
	const many = 1000
	var group sync.WaitGroup
	var once sync.Once
	w.commits.Store(0)
	w.committing = func() {
		once.Do(func() {
			for i := range many {
				group.Go(func() {
					if _, err := w.join(t, fmt.Sprint("key ", i), fmt.Sprint("n", i), pki.JoinToken{}); err != nil {
						t.Error(err)
					}
				})
			}
			w.await(t, many)
		})
	}
	if _, err := w.join(t, "first", "first", pki.JoinToken{}); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	if n := w.commits.Load(); n != 3 {
		t.Errorf("%d commits of %d machines", n, many)
	}
}

// await waits until so many machines wait for the one that is being written.
func (w *world) await(t *testing.T, n int) {
	t.Helper()
	testenv.Until(t, fmt.Sprint(n, " machines wait"), func() bool { return w.WaitingRequests() >= n })
}

// A namespace that has its nodes takes no more machines, however they come and however many at once; one
// that was declared may come.
func TestANamespaceThatIsFull(t *testing.T) {
	var told atomic.Int64
	w, ctx := newWorld(t), t.Context()
	w.full = func(namespace, limit, reason string) {
		if namespace != "room" || limit != "namespace_nodes" || reason != "namespace room has its 10 nodes, the limit nodes" {
			t.Errorf("told %q, %q, %q", namespace, limit, reason)
		}
		told.Add(1)
	}
	resources := []model.Resource{
		{Kind: "Namespace", Metadata: model.Metadata{Name: "room"}, Spec: &model.NamespaceSpec{Limits: &model.Limits{Nodes: 10}}},
		{Kind: "Node", Metadata: model.Metadata{Name: "declared", Namespace: "room"}, Spec: &model.NodeSpec{}},
	}
	if _, err := w.Apply(ctx, ada, resources, intent.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
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
