package intent_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// A use is counted in the commit that makes the node or gives it another machine: where that
// is not kept, the token is as good as before, and of many with one use one gets it.
func TestATokenIsUsedWithItsNode(t *testing.T) {
	w := newWorld(t)
	first, err := w.join(t, "k0", "web01", pki.JoinToken{})
	if err != nil {
		t.Fatal(err)
	}
	declared := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "declared"}, Spec: &model.NodeSpec{}}
	if _, err := w.Apply(t.Context(), ada, []model.Resource{declared}, intent.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	tokens := intent.JoinTokens{Store: w.Store()}
	for name, c := range map[string]struct {
		keep  pki.JoinToken
		wants string
	}{
		"new": {pki.JoinToken{MaxUses: 1}, "db"}, "replace": {pki.JoinToken{MaxUses: 1, Node: first.UID}, "db"}, "declared": {pki.JoinToken{MaxUses: 1}, "declared"},
	} {
		keep := c.keep
		keep.ID = name
		if err := tokens.Create(t.Context(), ada, keep); err != nil {
			t.Fatal(err)
		}
		token, err := tokens.Find(t.Context(), name)
		if err != nil || !token.Stored {
			t.Fatalf("%+v %v", token, err)
		}
		uses := func() int {
			now, err := tokens.Find(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
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
