package intent_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// What a machine got when it joined stays when its file is applied again, whether the node
// was declared before or after; a file that speaks of it has its way.
func TestWhatATokenGaveStays(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	apply := func(name string, given *model.JoinGrant) intent.Op {
		t.Helper()
		r := model.Resource{
			Kind: "Node", Metadata: model.Metadata{Name: name, Labels: map[string]string{"rack": "a7"}},
			Spec: &model.NodeSpec{Groups: []string{"web"}, JoinGrant: given},
		}
		out, err := w.Apply(ctx, ada, []model.Resource{r}, intent.ApplyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return out.Outcomes[0].Op
	}
	node := func(name string) (*model.NodeSpec, model.Metadata) {
		t.Helper()
		r, err := w.Get(ctx, nodeKey(name))
		if err != nil {
			t.Fatal(err)
		}
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
	// Who is accepted is given things, too.
	member, err := w.Accept(ctx, ada, "k9", pki.JoinToken{Groups: []string{"db"}}, pki.EnrolRequest{Name: "db01"}, true)
	if err != nil {
		t.Fatal(err)
	}
	if spec, _ := node(member.Name); !reflect.DeepEqual(spec.JoinGrant, &model.JoinGrant{Groups: []string{"db"}}) {
		t.Errorf("accepted: %+v", spec.JoinGrant)
	}
}

// A node whose resource declares groups, labels and a lifecycle has them, also where no token gave it any.
func TestDeclaredNodeHasWhatItDeclares(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	uid := uuid.New()
	body := `{"apiVersion":"muster/v1","kind":"Node","metadata":{"name":"old","namespace":"default","labels":{"os":"linux"}},` +
		`"spec":{"uid":"` + uid.String() + `","groups":["web"],"mayJoin":["web"],"lifecycle":{"ephemeral":true},"key":"k1"}}`
	if _, err := w.Store().Commit(ctx, ada, []intent.Write{{Key: nodeKey("old"), Body: []byte(body)}}); err != nil {
		t.Fatal(err)
	}
	w.open(t)
	if info, ok := w.LookupNode(uid); !ok || info.ForgetAfter != time.Hour || info.Key != "k1" {
		t.Errorf("%+v", info)
	}
	r, err := w.Get(ctx, nodeKey("old"))
	if err != nil {
		t.Fatal(err)
	}
	spec := r.Spec.(*model.NodeSpec)
	if !reflect.DeepEqual(spec.AssignedGroups(), []string{"web"}) || !reflect.DeepEqual(spec.JoinableGroups(), []string{"web"}) || spec.OperatorLabels(r.Metadata)["os"] != "linux" {
		t.Errorf("%+v", spec)
	}
}
