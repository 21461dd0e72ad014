package api_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/api/apitest"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// An apply of many says of some what they were when they were read; one that is not so holds back all.
func TestApplyExpects(t *testing.T) {
	r := apitest.New(t)
	c, ctx := dial(t, r, r.Token), context.Background()
	check := func(name, interval string) json.RawMessage {
		const text = `{"apiVersion":"muster/v1","kind":"Check","metadata":{"name":"NAME"},"spec":{"targets":{"groups":["all"]},"interval":"EVERY","command":"true"}}`
		return json.RawMessage(strings.NewReplacer("NAME", name, "EVERY", interval).Replace(text))
	}
	done, err := c.Resources.Apply(ctx, v1.ApplyRequest{Resources: []json.RawMessage{check("disk", "60s")}})
	if err != nil {
		t.Fatal(err)
	}
	is := done.Outcomes[0].Revision
	seen := func(name string, revision int64) v1.Expected {
		return v1.Expected{Ref: v1.Ref{Kind: "Check", Namespace: "default", Name: name}, Revision: revision}
	}
	for _, o := range []struct {
		expect []v1.Expected
		class  model.Class
	}{
		{[]v1.Expected{seen("disk", is-1)}, model.Stale},
		{[]v1.Expected{seen("disk", 0)}, model.Stale},
		{[]v1.Expected{seen("disk", is), seen("fresh", is)}, model.Stale},
		{[]v1.Expected{seen("disk", is), seen("other", is)}, model.Invalid},
		{[]v1.Expected{{Ref: v1.Ref{Kind: "Chek", Name: "disk"}}}, model.Invalid},
		{[]v1.Expected{seen("disk", -1)}, model.Invalid},
	} {
		_, err := c.Resources.Apply(ctx, v1.ApplyRequest{Resources: []json.RawMessage{check("disk", "30s"), check("fresh", "30s")}, Expect: o.expect})
		if model.ClassOf(err) != o.class {
			t.Errorf("%+v: %v, want class %v", o.expect, err, o.class)
		}
	}
	k := kind.Check().KindInfo
	if _, _, err := c.Resources.Get(ctx, k, "default", "fresh"); model.ClassOf(err) != model.NotFound {
		t.Errorf("what was refused left something: %v", err)
	}
	done, err = c.Resources.Apply(ctx, v1.ApplyRequest{Resources: []json.RawMessage{check("disk", "30s"), check("fresh", "30s")},
		Expect: []v1.Expected{seen("disk", is), seen("fresh", 0)}})
	if err != nil || len(done.Outcomes) != 2 {
		t.Errorf("as it was read: %+v %v", done, err)
	}
}
