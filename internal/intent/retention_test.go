package intent_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/store/intentdb"
)

// Changes and join tokens of long ago go; what is recent, and what never expires, stays.
func TestTidy(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	store, err := intentdb.Open(t.Context(), filepath.Join(t.TempDir(), "intent.db"), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := intent.NewService(intent.Options{Store: store, Now: func() time.Time { return now }, AuditRetention: 90 * 24 * time.Hour})
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	tokens := intent.JoinTokens{Store: store}
	for id, expires := range map[string]time.Time{"old": now.Add(time.Hour), "ever": {}, "late": now.Add(100 * 24 * time.Hour)} {
		if err := tokens.Create(t.Context(), intent.Actor{User: "ada"}, pki.JoinToken{ID: id, Expires: expires}); err != nil {
			t.Fatal(err)
		}
	}
	const old = 2500
	for i := range old {
		body := fmt.Appendf(nil, `{"metadata":{"name":"p","namespace":"default"},"spec":{"value":%d}}`, i)
		if _, err := store.Commit(t.Context(), intent.Actor{User: "ada"}, []intent.Write{{Key: intent.Key{Kind: "Property", Namespace: "default", Name: "p"}, Body: body, Expect: -1}}); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(100 * 24 * time.Hour)
	if err := tokens.Create(t.Context(), intent.Actor{User: "ada"}, pki.JoinToken{ID: "new"}); err != nil {
		t.Fatal(err)
	}
	revision, err := store.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.EnforceRetentionNow(t.Context()); err != nil {
			t.Fatal(err)
		}
		changes, err := store.Changes(t.Context(), 0, 0)
		if err != nil || len(changes) != 2 || changes[0].Revision != revision {
			t.Fatalf("%d changes are left, %v; want the new token and the end of the old one", len(changes), err)
		}
		list, err := tokens.List(t.Context())
		if err != nil || fmt.Sprint(ids(list)) != "[ever late new]" {
			t.Fatalf("tokens %v, %v", ids(list), err)
		}
	}
	if row, err := store.Get(t.Context(), intent.Key{Kind: "Property", Namespace: "default", Name: "p"}); err != nil || row.Revision == 0 {
		t.Errorf("the resource itself is gone: %v", model.ClassOf(err))
	}
}

func ids(list []pki.JoinToken) (out []string) {
	for _, t := range list {
		out = append(out, t.ID)
	}
	return out
}
