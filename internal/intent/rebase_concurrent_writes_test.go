package intent_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
)

// nodeKey returns the database key of the named node in namespace default.
func nodeKey(name string) intent.Key {
	return intent.Key{Kind: "Node", Namespace: "default", Name: name}
}

// An agent's report is stored during an operator's change of the same node without a conflict. If the operator stated
// a revision, the change is refused.
func TestReportDuringOperatorChangeIsNoConflict(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(w *testService, revision int64) error
		stale bool
		node  string // afterwards; empty: none
	}{
		"rename": {node: "other", do: func(w *testService, _ int64) error {
			_, err := w.Rename(t.Context(), ada, "default", "web01", "other", intent.ApplyOptions{})
			return err
		}},
		"retire": {do: func(w *testService, _ int64) error {
			_, err := w.Retire(t.Context(), ada, []intent.Key{nodeKey("web01")}, intent.ApplyOptions{})
			return err
		}},
		"delete": {do: func(w *testService, _ int64) error {
			_, err := w.Delete(t.Context(), ada, []intent.Key{nodeKey("web01")}, intent.ApplyOptions{})
			return err
		}},
		"apply": {node: "web01", do: func(w *testService, _ int64) error { return w.applyLabel(t, nil) }},
		"apply to a revision": {node: "web01", stale: true, do: func(w *testService, revision int64) error {
			return w.applyLabel(t, map[intent.Key]int64{nodeKey("web01"): revision})
		}},
		"delete of a revision": {node: "web01", stale: true, do: func(w *testService, revision int64) error {
			_, err := w.Delete(t.Context(), ada, []intent.Key{nodeKey("web01")}, intent.ApplyOptions{Expect: map[intent.Key]int64{nodeKey("web01"): revision}})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestService(t)
			member, err := w.Register(t.Context(), "k", pki.JoinToken{}, pki.EnrolRequest{Name: "web01"})
			testenv.NoError(t, err)
			before, err := w.Get(t.Context(), nodeKey("web01"))
			testenv.NoError(t, err)
			w.beforeApplyWrites = func() {
				w.beforeApplyWrites = nil
				info, _ := w.LookupNode(member.UID)
				w.RecordReport(info, intent.AgentReport{Facts: map[string]string{"kernel": "6.12"}})
				if err := w.WriteReportsNow(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if err := c.do(w, before.Status.Revision); (model.ClassOf(err) == model.Stale) != c.stale || err != nil && !c.stale {
				t.Fatalf("got %v", err)
			}
			info, there := w.LookupNode(member.UID)
			if there != (c.node != "") || info.Name != c.node {
				t.Fatalf("%+v", info)
			}
			if !there {
				return
			}
			after, err := w.Get(t.Context(), nodeKey(c.node))
			if err != nil || after.Spec.(*model.NodeSpec).Facts["kernel"] != "6.12" || after.Spec.(*model.NodeSpec).Key != "k" {
				t.Errorf("%+v, %v", after, err)
			}
			if labelled := after.Metadata.Labels["rack"] == "a7"; labelled != (name == "apply") {
				t.Errorf("labels %v", after.Metadata.Labels)
			}
		})
	}
	// A change of another operator meanwhile is a conflict.
	w := newTestService(t)
	testenv.Value(w.Register(t.Context(), "k", pki.JoinToken{}, pki.EnrolRequest{Name: "web01"}))(t)
	w.beforeApplyWrites = func() {
		w.beforeApplyWrites = nil
		if err := w.applyLabel(t, nil); err != nil {
			t.Error(err)
		}
	}
	r := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "web01", Labels: map[string]string{"rack": "b1"}}, Spec: &model.NodeSpec{}}
	if _, err := w.Apply(t.Context(), ada, []model.Resource{r}, intent.ApplyOptions{}); model.ClassOf(err) != model.Conflict {
		t.Errorf("two operators: %v", err)
	}
}

// applyLabel applies the node web01 with a changed label. expect has the expected revisions of resources.
func (w *testService) applyLabel(t *testing.T, expect map[intent.Key]int64) error {
	r := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "web01", Labels: map[string]string{"rack": "a7"}}, Spec: &model.NodeSpec{}}
	_, err := w.Apply(t.Context(), ada, []model.Resource{r}, intent.ApplyOptions{Expect: expect})
	return err
}

// TestConcurrentChangesAndReports changes nodes while agents' reports are written, and expects all changes to succeed.
// The changes rename, retire and replace nodes. At the end the in-memory index must equal the rows.
func TestConcurrentChangesAndReports(t *testing.T) {
	const each = 12
	w, ctx := newTestService(t), t.Context()
	var nodes []intent.BulkNode
	for i := range 5 * each {
		nodes = append(nodes, intent.BulkNode{UID: uuid.New(), Name: fmt.Sprintf("n%03d", i)})
	}
	testenv.NoError(t, w.CreateNodes(ctx, ada, "default", nodes))
	for _, n := range nodes {
		w.RecordFirstKey(n.UID, "key of "+n.Name)
	}
	testenv.NoError(t, w.WriteReportsNow(ctx))
	changing := make(chan struct{})
	var facts, changes sync.WaitGroup
	facts.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-changing:
				return
			default:
			}
			w.RefillReportBudgets()
			for _, n := range nodes {
				if info, ok := w.LookupNode(n.UID); ok {
					w.RecordReport(info, intent.AgentReport{Facts: map[string]string{"round": fmt.Sprint(i)}})
				}
			}
			if err := w.WriteReportsNow(ctx); err != nil {
				t.Errorf("facts: %v", err)
			}
		}
	})
	for _, change := range []func(i int) error{
		func(i int) error {
			_, err := w.Rename(ctx, ada, "default", nodes[i].Name, "new-"+nodes[i].Name, intent.ApplyOptions{})
			return err
		},
		func(i int) error {
			_, err := w.Retire(ctx, ada, []intent.Key{nodeKey(nodes[each+i].Name)}, intent.ApplyOptions{Yes: true})
			return err
		},
		func(i int) error {
			n := nodes[2*each+i]
			_, err := w.Register(ctx, "new key of "+n.Name, pki.JoinToken{ID: "t", Node: n.UID}, pki.EnrolRequest{Name: n.Name})
			return err
		},
	} {
		changes.Go(func() {
			for i := range each {
				if err := change(i); err != nil {
					t.Errorf("%d: %v", i, err)
				}
			}
		})
	}
	changes.Wait()
	close(changing)
	facts.Wait()
	for i, n := range nodes {
		info, there := w.LookupNode(n.UID)
		name, key := n.Name, "key of "+n.Name
		switch i / each {
		case 0:
			name = "new-" + name
		case 1:
			name, key = "", ""
		case 2:
			key = "new " + key
		}
		if there != (name != "") || info.Name != name || info.Key != key {
			t.Errorf("%s: memory has %+v", n.Name, info)
		}
	}
	held, keys, _, _ := w.IndexSizes()
	w.open(t)
	if h, k, _, _ := w.IndexSizes(); held != h || keys != k {
		t.Errorf("memory holds %d of nodes and %d keys, after a restart %d and %d", held, keys, h, k)
	}
}

// TestMachinesWithEqualNamesGetNumbers joins many machines with the same name, and expects numbered names. All join in one
// transaction.
func TestMachinesWithEqualNamesGetNumbers(t *testing.T) {
	w := newTestService(t)
	for i := range 20 {
		before, err := w.Store().Revision(t.Context())
		testenv.NoError(t, err)
		w.commits.Store(0)
		testenv.Value(w.join(t, fmt.Sprint("k", i), "worker", pki.JoinToken{ID: "t"}))(t)
		if after, err := w.Store().Revision(t.Context()); err != nil || after != before+1 || w.commits.Load() != 1 {
			t.Fatalf("%d: %d transactions, revision %d after %d, %v", i, w.commits.Load(), after, before, err)
		}
	}
}

// countingStore is a store of declared resources that counts queries and commits.
type countingStore struct {
	intent.Store
	w *testService
}

// Commit counts the commit and passes the writes to the real store
func (c countingStore) Commit(ctx context.Context, by intent.Actor, writes []intent.Write) (intent.CommitResult, error) {
	c.w.commits.Add(1)
	if c.w.beforeCommit != nil {
		c.w.beforeCommit()
	}
	return c.Store.Commit(ctx, by, writes)
}

// Get counts the query and passes the key to the real store
func (c countingStore) Get(ctx context.Context, key intent.Key) (intent.Row, error) {
	c.w.queries.Add(1)
	return c.Store.Get(ctx, key)
}

// GetAll counts the query and passes the keys to the real store
func (c countingStore) GetAll(ctx context.Context, keys []intent.Key) ([]intent.Row, error) {
	c.w.queries.Add(1)
	return c.Store.GetAll(ctx, keys)
}

// List counts the query and passes the query to the real store
func (c countingStore) List(ctx context.Context, q intent.ListQuery) ([]intent.Row, error) {
	c.w.queries.Add(1)
	return c.Store.List(ctx, q)
}
