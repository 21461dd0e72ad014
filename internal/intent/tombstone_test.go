package intent_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// What is kept of a machine that may not come outlives the server, ends when its time is
// over or when the machine joins with a token, and leaves nothing behind.
func TestTombstoneOfAKey(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	tombs := func() int {
		rows, err := w.Store().List(ctx, intent.ListQuery{Kind: "tombstone"})
		if err != nil {
			t.Fatal(err)
		}
		return len(rows)
	}
	for key, tomb := range map[string]intent.Tombstone{
		"k1": {Name: "web01", Why: intent.ReasonDeclined, Reason: "not ours"},
		"k2": {Name: "web02", Why: intent.ReasonForgotten, Until: w.now.Add(time.Hour)},
	} {
		if err := w.BlockKey(ctx, ada, key, tomb); err != nil {
			t.Fatal(err)
		}
	}
	w.open(t)
	got, ok := w.TombstoneByKey("k1")
	if !ok || got.By != "ada" || got.Key != "k1" {
		t.Fatalf("%+v, %v", got, ok)
	}
	err := w.RefuseKey("k1")
	if model.ClassOf(err) != model.Forbidden {
		t.Fatal(err)
	}
	for _, part := range []string{"web01", "was not let in by ada at 1970-01-01T00:16:40Z: not ours", "muster node token"} {
		var said *model.Error
		if !errors.As(err, &said) || !strings.Contains(said.Message+said.Hint, part) {
			t.Errorf("%+v does not say %q", said, part)
		}
	}
	if w.RefuseKey("k2") == nil || w.RefuseKey("k3") != nil {
		t.Error("k2 is gone for an hour, k3 never was")
	}
	w.now = w.now.Add(time.Hour)
	if w.RefuseKey("k2") != nil {
		t.Error("k2 is free again")
	}
	if err := w.EnforceRetentionNow(ctx); err != nil || tombs() != 1 {
		t.Fatalf("%d tombstones are left, %v", tombs(), err)
	}
	if _, err := w.Register(ctx, "k1", pki.JoinToken{ID: "t"}, pki.EnrolRequest{Name: "web01"}); err != nil {
		t.Fatal(err)
	}
	if w.RefuseKey("k1") != nil || tombs() != 0 {
		t.Errorf("with a token it is a node: %v, %d tombstones", w.RefuseKey("k1"), tombs())
	}
}

// A node that was made with its uid alone has no key on record: it gets the one that comes first,
// at once and for good, whatever is written beside it.
func TestFirstKey(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	uid := uuid.New()
	if err := w.CreateNodes(ctx, ada, "default", []intent.BulkNode{{UID: uid, Name: "web01"}}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"k1", "k2"} {
		if got, _ := w.RecordFirstKey(uid, key); got != "k1" {
			t.Fatalf("key on record is %q", got)
		}
	}
	node := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "web01", Labels: map[string]string{"env": "prod"}}, Spec: &model.NodeSpec{}}
	if _, err := w.Apply(ctx, ada, []model.Resource{node}, intent.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	if held, ok := w.LookupKey("k1"); !ok || held.UID != uid || held.Key != "k1" {
		t.Fatalf("after an apply the key is of %+v", held)
	}
	if err := w.WriteReportsNow(ctx); err != nil {
		t.Fatal(err)
	}
	w.open(t)
	if held, ok := w.LookupKey("k1"); !ok || held.UID != uid || held.Key != "k1" {
		t.Fatalf("after a restart the key is of %+v", held)
	}
	if _, err := w.Delete(ctx, ada, []intent.Key{{Kind: "Node", Namespace: "default", Name: "web01"}}, intent.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	if held, ok := w.LookupKey("k1"); ok {
		t.Fatalf("after its end the key is of %+v", held)
	}
}

// No two nodes share a key: not by their first sessions, nor by rows that a store had before.
func TestNoTwoNodesShareAKey(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	one, err := w.Register(ctx, "k1", pki.JoinToken{ID: "t"}, pki.EnrolRequest{Name: "web01"})
	if err != nil {
		t.Fatal(err)
	}
	two, three := uuid.New(), uuid.New()
	if err := w.CreateNodes(ctx, ada, "default", []intent.BulkNode{{UID: two, Name: "a-newer"}, {UID: three, Name: "third"}}); err != nil {
		t.Fatal(err)
	}
	if key, holder := w.RecordFirstKey(two, "k1"); key != "" || holder != "web01" {
		t.Errorf("the first session of another node with its key: %q, %q", key, holder)
	}
	row, err := w.Store().Get(ctx, intent.Key{Kind: "Node", Namespace: "default", Name: "a-newer"})
	if err != nil {
		t.Fatal(err)
	}
	row.Body = []byte(strings.Replace(string(row.Body), `"uid":`, `"key":"k1","uid":`, 1))
	if _, err := w.Store().Commit(ctx, ada, []intent.Write{{Key: row.Key, Body: row.Body, Expect: row.Revision}}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // as they are read, and once more
		w.open(t)
		if held, ok := w.LookupKey("k1"); !ok || held.UID != one.UID {
			t.Fatalf("the key is of %+v", held)
		}
		if info, _ := w.LookupNode(two); info.Key != "" {
			t.Errorf("the newer one has it, too: %+v", info)
		}
		if key, holder := w.RecordFirstKey(two, "k1"); key != "" || holder != "web01" {
			t.Errorf("its session: %q, %q", key, holder)
		}
	}
	if _, err := w.Retire(ctx, ada, []intent.Key{{Kind: "Node", Namespace: "default", Name: "web01"}}, intent.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	if key, holder := w.RecordFirstKey(two, "k1"); key != "k1" || holder != "" {
		t.Errorf("after the older one's end: %q, %q", key, holder)
	}
	if key, holder := w.RecordFirstKey(three, "k1"); key != "" || holder != "a-newer" {
		t.Errorf("a third: %q, %q", key, holder)
	}
}
