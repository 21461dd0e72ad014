package intent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

func withUID(name string, uid uuid.UUID) model.Resource {
	return model.Resource{Kind: "Node", Metadata: model.Metadata{Name: name}, Spec: &model.NodeSpec{UID: uid.String()}}
}

// A machine is one node, whatever files say: the uid of another is refused, also where two
// nodes of one apply have it, or two applies at once.
func TestNoFileTakesANodesMachine(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	first, err := w.join(t, "k1", "n2", pki.JoinToken{ID: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Apply(ctx, ada, []model.Resource{{Kind: "Node", Metadata: model.Metadata{Name: "declared"}, Spec: &model.NodeSpec{}}}, intent.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	fresh := uuid.New()
	for _, c := range []struct {
		set  []model.Resource
		want string
	}{
		{[]model.Resource{withUID("copy2", first.UID)}, "is that of node/n2"},
		{[]model.Resource{withUID("declared", first.UID)}, "is that of node/n2"},
		{[]model.Resource{withUID("a", fresh), withUID("b", fresh)}, "node/a and node/b have the same spec.uid"},
	} {
		for _, dry := range []bool{true, false} {
			_, err := w.Apply(ctx, ada, c.set, intent.ApplyOptions{DryRun: dry})
			if model.ClassOf(err) != model.Conflict || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "leave spec.uid out") {
				t.Errorf("%v", err)
			}
		}
	}
	w.between = func() { // somebody else is quicker
		w.between = nil
		if _, err := w.Apply(ctx, ada, []model.Resource{withUID("a", fresh)}, intent.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Apply(ctx, ada, []model.Resource{withUID("b", fresh)}, intent.ApplyOptions{}); model.ClassOf(err) != model.Conflict {
		t.Errorf("two at once: %v", err)
	}
	if out, err := w.Apply(ctx, ada, []model.Resource{withUID("n2", first.UID), withUID("a", fresh)}, intent.ApplyOptions{}); err != nil || out.Outcomes[0].Op != intent.OpUnchanged {
		t.Errorf("as they are: %+v, %v", out, err)
	}
	if info, ok := w.LookupNode(first.UID); !ok || info.Name != "n2" || info.Key != "k1" {
		t.Errorf("%+v", info)
	}
}

// Where a store has two rows with one uid all the same, the machine is the older one, in
// whatever order they are read, and the newer can be taken away without harm to it.
func TestTwinsLeaveTheMachineToTheOlder(t *testing.T) {
	for _, name := range []string{"copy2", "z2"} {
		w, ctx := newWorld(t), t.Context()
		first, err := w.join(t, "k1", "n2", pki.JoinToken{ID: "t"})
		if err != nil {
			t.Fatal(err)
		}
		twin := withUID(name, first.UID)
		twin.Metadata.Namespace = "default"
		body, err := json.Marshal(twin)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Store().Commit(ctx, ada, []intent.Write{{Key: nodeKey(name), Body: body}}); err != nil {
			t.Fatal(err)
		}
		still := func() {
			t.Helper()
			if info, ok := w.LookupNode(first.UID); !ok || info.Name != "n2" || info.Key != "k1" {
				t.Errorf("%s: %+v", name, info)
			}
			if member, ok := w.NodeOfKey("k1"); !ok || member.Name != "n2" || w.RefuseKey("k1") != nil {
				t.Errorf("%s: %+v, %v", name, member, w.RefuseKey("k1"))
			}
		}
		w.open(t)
		still()
		if w.HasMachine("default", name) {
			t.Errorf("%s has a machine", name)
		}
		labelled := withUID(name, first.UID)
		labelled.Metadata.Labels = map[string]string{"a": "b"}
		if _, err := w.Apply(ctx, ada, []model.Resource{labelled}, intent.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		still()
		if _, err := w.Delete(ctx, ada, []intent.Key{nodeKey(name)}, intent.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		still()
		w.open(t)
		still()
	}
}
