package intent_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// A stranger's node is the same whenever it comes, is told apart by its own system's name,
// and comes no more once it was retired.
func TestMeet(t *testing.T) {
	s := newWorld(t)
	ctx := t.Context()
	by := intent.Actor{User: "sensu"}
	meet := func(namespace, name string) (intent.NodeInfo, error) {
		return s.RegisterExternal(ctx, by, &intent.ExternalAgent{System: "sensu", Namespace: namespace, Name: name, AgentReport: intent.AgentReport{Labels: map[string]string{"a": "b"}, Groups: []string{"web"}}})
	}
	first, err := meet("default", "Web.1")
	if err != nil || first.Name != "web.1" || first.Key != "" {
		t.Fatalf("%v %+v", err, first)
	}
	if again, err := meet("default", "Web.1"); err != nil || again.ID != first.ID {
		t.Errorf("the same: %v %+v", err, again)
	}
	if other, err := meet("default", "web.1"); err != nil || other.Name != "web.1-2" || other.UID == first.UID {
		t.Errorf("one whose name is the same here: %v %+v", err, other)
	}
	if _, err := meet("nowhere", "web"); model.ClassOf(err) != model.NotFound {
		t.Errorf("no namespace: %v", err)
	}
	var all sync.WaitGroup
	ids := make([]model.NodeID, 8)
	for i := range ids {
		all.Go(func() {
			info, err := meet("default", "twice")
			if ids[i] = info.ID; err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] || id == 0 {
			t.Fatal(fmt.Sprint("it came by several connections at once: ", ids))
		}
	}
}
