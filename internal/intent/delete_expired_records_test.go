package intent_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/store/intentdb"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestExpiredRecordsAreDeleted stores old audit records and expired join tokens, and expects their deletion.
// Recent changes and tokens without expiry stay.
func TestExpiredRecordsAreDeleted(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	store, err := intentdb.Open(t.Context(), filepath.Join(t.TempDir(), "intent.db"), kind.All(), func() time.Time { return now })
	testenv.NoError(t, err)
	defer store.Close()
	s := intent.NewService(intent.Options{Store: store, Now: func() time.Time { return now }, AuditRetention: 90 * 24 * time.Hour})
	testenv.NoError(t, s.Load(t.Context()))
	tokens := intent.JoinTokens{Store: store}
	for id, expires := range map[string]time.Time{"old": now.Add(time.Hour), "ever": {}, "late": now.Add(100 * 24 * time.Hour)} {
		testenv.NoError(t, tokens.Create(t.Context(), intent.Actor{User: "ada"}, pki.JoinToken{ID: id, Expires: expires}))
	}
	const old = 2500
	for i := range old {
		body := fmt.Appendf(nil, `{"metadata":{"name":"p","namespace":"default"},"spec":{"value":%d}}`, i)
		testenv.Value(store.Commit(t.Context(), intent.Actor{User: "ada"}, []intent.Write{{Key: intent.Key{Kind: "Property", Namespace: "default", Name: "p"}, Body: body, Expect: -1}}))(t)
	}
	now = now.Add(100 * 24 * time.Hour)
	testenv.NoError(t, tokens.Create(t.Context(), intent.Actor{User: "ada"}, pki.JoinToken{ID: "new"}))
	revision, err := store.Revision(t.Context())
	testenv.NoError(t, err)
	for range 2 {
		testenv.NoError(t, s.EnforceRetentionNow(t.Context()))
		changes, err := store.Changes(t.Context(), 0, 0)
		if err != nil || len(changes) != 2 || changes[0].Revision != revision {
			t.Fatalf("%d changes are left, %v; want the new token and the end of the old one", len(changes), err)
		}
		list, err := tokens.List(t.Context())
		if err != nil || fmt.Sprint(tokenIDs(list)) != "[ever late new]" {
			t.Fatalf("tokens %v, %v", tokenIDs(list), err)
		}
	}
	if row, err := store.Get(t.Context(), intent.Key{Kind: "Property", Namespace: "default", Name: "p"}); err != nil || row.Revision == 0 {
		t.Errorf("the resource itself is gone: %v", model.ClassOf(err))
	}
}

// tokenIDs returns the ids of join tokens.
func tokenIDs(list []pki.JoinToken) (out []string) {
	for _, t := range list {
		out = append(out, t.ID)
	}
	return out
}

// TestEndedSilencesAreDeleted stores a silence that ended more than a week ago, and expects its deletion. The
// audit keeps its changes, and other silences stay.
func TestEndedSilencesAreDeleted(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	store, err := intentdb.Open(t.Context(), filepath.Join(t.TempDir(), "intent.db"), kind.All(), func() time.Time { return now })
	testenv.NoError(t, err)
	defer store.Close()
	s := intent.NewService(intent.Options{Store: store, Now: func() time.Time { return now }})
	testenv.NoError(t, s.Load(t.Context()))
	var list []model.Resource
	for name, until := range map[string]time.Time{"old": now.Add(time.Hour), "recent": now.Add(3 * 24 * time.Hour), "ever": {}} {
		list = append(list, model.Resource{Kind: "Silence", Metadata: model.Metadata{Name: name, Namespace: "default"}, Spec: &model.SilenceSpec{Until: model.Time{Time: until}, Reason: "why"}})
	}
	testenv.Value(s.Apply(t.Context(), intent.Actor{User: "ada"}, list, intent.ApplyOptions{}))(t)
	now = now.Add(8 * 24 * time.Hour)
	testenv.NoError(t, s.EnforceRetentionNow(t.Context()))
	left, err := s.List(t.Context(), intent.ListQuery{Kind: "Silence"}, nil)
	testenv.NoError(t, err)
	var names []string
	for _, r := range left {
		if names = append(names, r.Metadata.Name); r.Spec.(*model.SilenceSpec).Creator != "ada" {
			t.Errorf("%s was made by %q", r.Metadata.Name, r.Spec.(*model.SilenceSpec).Creator)
		}
	}
	if fmt.Sprint(names) != "[ever recent]" {
		t.Errorf("silences %v are left", names)
	}
	key := intent.Key{Kind: "Silence", Namespace: "default", Name: "old"}
	if changes, err := s.Audit(t.Context(), intent.ChangeQuery{Kind: key.Kind, Namespace: key.Namespace, Name: key.Name}, false); err != nil || len(changes) != 2 {
		t.Errorf("%d changes of it are on record, %v; want its making and its end", len(changes), err)
	}
	ever := intent.Key{Kind: "Silence", Namespace: "default", Name: "ever"}
	for _, end := range []struct {
		at   time.Time // time of the test silence's creation
		here bool
	}{{now.Add(-8*24*time.Hour - time.Second), true}, {now, false}} {
		if err := s.EndSilences(t.Context(), "its problem closed", []intent.SilenceEnd{{Key: key, At: now}, {Key: ever, At: end.at}}); err != nil {
			t.Errorf("one that is gone is no error: %v", err)
		}
		if _, err := s.Get(t.Context(), ever); (err == nil) != end.here {
			t.Errorf("after a problem that closed at %s the silence is there: %v", end.at, err == nil)
		}
	}
}

// TestInterruptedRunsAreClosed interrupts a person's long action by a restart, and expects one audit record of
// the interruption. If the server stops before that, its next start records the interruption once.
func TestInterruptedRunsAreClosed(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	by := intent.Actor{User: "ada", Address: "10.0.0.7", Message: "a bulk resolve"}
	record := func() (list []string) {
		t.Helper()
		entries, err := w.Audit(ctx, intent.ChangeQuery{Kind: "run"}, true)
		testenv.NoError(t, err)
		for _, e := range entries {
			if e.Actor.User != "ada" || e.Actor.Address != "10.0.0.7" || e.Diff != "" {
				t.Errorf("%+v", e)
			}
			list = append(list, e.Actor.Message)
		}
		slices.Reverse(list)
		return list
	}
	is := func(want ...string) {
		t.Helper()
		if got := record(); !slices.Equal(got, want) {
			t.Errorf("recorded: %q\nwant: %q", got, want)
		}
	}
	ended, err := w.BeginRun(ctx, by, "3 events picked", " (all): tidied")
	testenv.NoError(t, err)
	first := []string{"a bulk resolve: 3 events picked (all): tidied", "a bulk resolve, started in revision 2: done to 2 of 3"}
	is(first[:1]...)
	testenv.NoError(t, ended("done to 2 of 3"))
	is(first...)
	testenv.Value(w.BeginRun(ctx, by, "5 events picked", " (all)"))(t)
	testenv.NoError(t, w.RecordRun(ctx, intent.Actor{User: "ada", Address: "10.0.0.7", Message: "check disk on 3 nodes"}))
	for range 2 {
		w.open(t)
		testenv.NoError(t, w.CloseInterruptedRuns(ctx))
	}
	is(append(first, "a bulk resolve: 5 events picked (all)", "check disk on 3 nodes",
		"a bulk resolve, started in revision 4 and interrupted: the action may be incomplete for 5 events picked, because the server stopped before it recorded the outcome; repeat the command for the rest (--dry-run lists it)")...)
}
