package intent_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// A stranger that comes and goes is forgotten like our own, and is a new node when it comes
// again: nothing on its machine could be reset. One that was retired stays away.
func TestAForgottenStrangerComesAgain(t *testing.T) {
	w := newWorld(t)
	w.here = func(model.NodeID) bool { return false }
	ctx := t.Context()
	m := &intent.ExternalAgent{System: "sensu", Namespace: "default", Name: "web",
		Lifecycle: &model.Lifecycle{Ephemeral: true, ForgetAfter: model.Duration(2 * time.Minute)}}
	first, err := w.RegisterExternal(ctx, intent.Actor{User: "sensu"}, m)
	if err != nil || first.ForgetAfter != 2*time.Minute {
		t.Fatalf("%v %+v", err, first)
	}
	away := map[uuid.UUID]time.Duration{}
	for range 3 {
		w.now = w.now.Add(time.Minute)
		if err := w.ForgetAbsentNow(ctx, away, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if gone, ok := w.Tombstone(m.UID()); !ok || gone.Why != intent.ReasonForgotten {
		t.Fatalf("%v %+v", ok, gone)
	}
	again, err := w.RegisterExternal(ctx, intent.Actor{User: "sensu"}, m)
	if err != nil || again.ID == first.ID || again.UID != first.UID || again.Name != "web" {
		t.Errorf("%v %+v after %+v", err, again, first)
	}
	if _, still := w.Tombstone(m.UID()); still {
		t.Error("it is forgotten and there")
	}
	if _, err := w.Retire(ctx, intent.Actor{User: "sue"}, []intent.Key{{Kind: "Node", Namespace: "default", Name: "web"}}, intent.ApplyOptions{Yes: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.RegisterExternal(ctx, intent.Actor{User: "sensu"}, m); model.ClassOf(err) != model.Forbidden {
		t.Errorf("retired: %v", err)
	}
}
