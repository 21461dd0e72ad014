package intent_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/intentdb"
)

// A silence that ended a week ago goes, and what was recorded of it stays; others stay.
func TestSilencesThatEndedGo(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	store, err := intentdb.Open(t.Context(), filepath.Join(t.TempDir(), "intent.db"), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := intent.NewService(intent.Options{Store: store, Now: func() time.Time { return now }})
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	var list []model.Resource
	for name, until := range map[string]time.Time{"old": now.Add(time.Hour), "recent": now.Add(3 * 24 * time.Hour), "ever": {}} {
		list = append(list, model.Resource{Kind: "Silence", Metadata: model.Metadata{Name: name, Namespace: "default"}, Spec: &model.SilenceSpec{Until: model.Time{Time: until}, Reason: "why"}})
	}
	if _, err := s.Apply(t.Context(), intent.Actor{User: "ada"}, list, intent.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(8 * 24 * time.Hour)
	if err := s.EnforceRetentionNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := s.List(t.Context(), intent.ListQuery{Kind: "Silence"}, nil)
	if err != nil {
		t.Fatal(err)
	}
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
		at   time.Time // a week ago it was made
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
