package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api/apitest"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// What a token gives its nodes, and what who accepts a machine gives it, is held to what an
// applied Node is: else there would be nodes that nobody can apply again.
func TestWhatNodesAreGivenIsValidated(t *testing.T) {
	r, ctx := apitest.New(t), context.Background()
	c := dial(t, r, r.Token)
	r.Apply("apiVersion: muster/v1\nkind: Namespace\nmetadata: {name: small}\nspec: {limits: {labels: 2}}\n")
	key := strings.Repeat("a", 64)
	if _, err := r.Waiting.Ask(key, pki.EnrolRequest{Name: "web01", Whence: "10.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	many := map[string]string{}
	for i := range 3 {
		many[fmt.Sprint("l", i)] = "x"
	}
	for _, c2 := range []struct {
		namespace string
		groups    []string
		labels    map[string]string
		class     model.Class
		want      string
	}{
		{"", nil, map[string]string{"BAD KEY": "x"}, model.Invalid, `"BAD KEY" is no label's name`},
		{"", nil, map[string]string{"a": "x\ny"}, model.Invalid, "metadata.labels.a"},
		{"", []string{"BAD GROUP"}, nil, model.Invalid, `"BAD GROUP"`},
		{"", []string{"x/y/z"}, nil, model.Invalid, "x/y/z"},
		{"", []string{"other/web"}, nil, model.Invalid, "another namespace"},
		{"small", nil, many, model.Limited, "3 labels, namespace small allows 2"},
	} {
		_, err := c.Enrolment.CreateToken(ctx, v1.JoinTokenRequest{Namespace: c2.namespace, Groups: c2.groups, Labels: c2.labels})
		if model.ClassOf(err) != c2.class || !strings.Contains(err.Error(), c2.want) {
			t.Errorf("a token: %v, want %q", err, c2.want)
		}
		_, err = c.Enrolment.Accept(ctx, v1.PendingAccept{Which: "web01", Namespace: c2.namespace, Groups: c2.groups, Labels: c2.labels})
		if model.ClassOf(err) != c2.class || !strings.Contains(err.Error(), c2.want) {
			t.Errorf("accepted: %v, want %q", err, c2.want)
		}
	}
	life := &model.Lifecycle{Ephemeral: true, ForgetAfter: model.Duration(time.Second)}
	if _, err := c.Enrolment.CreateToken(ctx, v1.JoinTokenRequest{Lifecycle: life}); model.ClassOf(err) != model.Invalid || !strings.Contains(err.Error(), "lifecycle.forgetAfter") {
		t.Errorf("a life of a second: %v", err)
	}
	// A name that would be changed is refused, else the node gets a number behind it.
	r.Nodes("default", nil, "p1")
	for _, name := range []string{"P1", "p 2", "-p3"} {
		if _, err := c.Enrolment.Accept(ctx, v1.PendingAccept{Which: "web01", Name: name}); model.ClassOf(err) != model.Invalid || !strings.Contains(err.Error(), "--name p") {
			t.Errorf("accepted as %s: %v", name, err)
		}
	}
	if _, err := c.Enrolment.Accept(ctx, v1.PendingAccept{Which: "web01", Name: "p1"}); model.ClassOf(err) != model.Conflict {
		t.Errorf("a name that another machine has: %v", err)
	}
	if got, err := c.Enrolment.Accept(ctx, v1.PendingAccept{Which: "web01", Name: "p2", Groups: []string{"web", "shared/x"}, Labels: map[string]string{"a.b/c": "x"}}); err != nil || got.Name != "p2" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Trust by label is known from the moment on in which the node is declared, and not only
// when its assignment is compiled: nothing compiles here but who asks.
func TestTrustDoesNotWaitForThePlanner(t *testing.T) {
	r, ctx := apitest.New(t), context.Background()
	trusted := model.Resource{Kind: "Group", Metadata: model.Metadata{Name: "payment"}, Spec: &model.GroupSpec{Trusted: true, Where: `node.labels.role == "payment"`}}
	set := []model.Resource{trusted}
	for i := range 20 {
		set = append(set, model.Resource{Kind: "Node", Metadata: model.Metadata{Name: fmt.Sprint("pay", i), Labels: map[string]string{"role": "payment"}}, Spec: &model.NodeSpec{}})
	}
	set = append(set, model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "web01"}, Spec: &model.NodeSpec{}})
	if _, err := r.Intent.Apply(ctx, intent.Actor{User: "admin"}, set, intent.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"pay7": "pay7-2", "web01": "web01"} {
		got, err := r.Intent.Register(ctx, name+" key", pki.JoinToken{ID: "t"}, pki.EnrolRequest{Name: name})
		if err != nil || got.Name != want {
			t.Errorf("%s became %+v, %v", name, got, err)
		}
	}
}
