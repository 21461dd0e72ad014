package intent_test

import (
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// A node that is declared waits for the machine that joins under its name, and keeps its id
// and what is declared; one that a trusted group holds waits for a person's word.
func TestADeclaredNodeGetsItsMachine(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	declare := func(name string, groups ...string) model.Resource {
		return model.Resource{Kind: "Node", Metadata: model.Metadata{Name: name, Labels: map[string]string{"rack": "a7"}}, Spec: &model.NodeSpec{Groups: groups}}
	}
	vault := model.Resource{Kind: "Group", Metadata: model.Metadata{Name: "vault"}, Spec: &model.GroupSpec{Trusted: true, Nodes: []string{"db01"}}}
	apply := func() {
		t.Helper()
		if _, err := w.Apply(ctx, ada, []model.Resource{declare("web01", "web"), declare("db01"), declare("pay01"), vault}, intent.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	before, err := w.Get(ctx, nodeKey("web01"))
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	spec := after.Spec.(*model.NodeSpec)
	if labels := spec.OperatorLabels(after.Metadata); !slices.Equal(spec.AssignedGroups(), []string{"web", "canary"}) || spec.Facts["key"] != "k1" || labels["rack"] != "a7" || labels["os"] != "linux" {
		t.Errorf("%+v, labels %v", spec, labels)
	}
	apply() // the files once more: it stays the machine's
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

// Nobody becomes a node, declared or away, while it is not known whether a trusted group
// holds it; and what is written is what was judged.
func TestTrustThatIsNotKnownGivesNoNode(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	pay := func(role string) model.Resource {
		return model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "pay01", Labels: map[string]string{"role": role}}, Spec: &model.NodeSpec{}}
	}
	if _, err := w.Apply(ctx, ada, []model.Resource{pay("none")}, intent.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.join(t, "k1", "web01", pki.JoinToken{ID: "t"}); err != nil {
		t.Fatal(err)
	}
	w.unjudged = model.Errorf(model.Unavailable, "the planner is behind")
	for name, token := range map[string]pki.JoinToken{"pay01": {ID: "t"}, "web01": {ID: "r", Replace: true}} {
		if got, err := w.join(t, "k2", name, token); model.ClassOf(err) != model.Unavailable {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	w.unjudged = nil
	w.judging = func() { // an operator makes it one of a trusted group while it is looked at
		w.judging = nil
		if _, err := w.Apply(ctx, ada, []model.Resource{pay("payment")}, intent.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		w.judging = func() { w.trusted = "payment" }
	}
	if got, err := w.join(t, "k2", "pay01", pki.JoinToken{ID: "t"}); err != nil || got.Name != "pay01-2" {
		t.Errorf("%+v, %v", got, err)
	}
}
