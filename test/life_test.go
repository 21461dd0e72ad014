//go:build linux

package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// A node that is renamed stays the node that it is while its results flow: nothing is
// lost, its event, its history and what is declared of it go on under the new name.
func TestANodeIsRenamed(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	api := s.Client()
	a, runs := s.NewAgent("old"), s.Counter("count", "old")
	s.Apply("apiVersion: muster/v1\nkind: Property\nmetadata: {name: p}\nspec: {scope: 'node:old', value: 7}")
	a.Start()
	runs.Ran(2)
	harness.Until(t, 20*time.Second, "its results are there", func() (string, bool) {
		e, err := api.Event(t.Context(), "default", "old", "count")
		return fmt.Sprintf("%+v, %v", e, err), err == nil && e.Results >= 2
	})
	said := s.CLI("node", "rename", "old", "new", "-m", "moved to the shop")
	for _, part := range []string{"node/old renamed new", "check/count updated", "property/p updated", "in files"} {
		if !strings.Contains(said, part) {
			t.Errorf("%q does not say %q", said, part)
		}
	}
	harness.Until(t, 20*time.Second, "the agent hears its new name", func() (string, bool) {
		return a.Log(), strings.Contains(a.Log(), "name=new")
	})
	runs.Ran(2)
	runs.Hold()
	harness.Until(t, 20*time.Second, "every run is applied, under the new name", func() (string, bool) {
		e, err := api.Event(t.Context(), "default", "new", "count")
		return fmt.Sprintf("%d runs, %+v, %v", runs.Runs(), e, err), err == nil && e.Results == runs.Runs() && e.Lost == 0
	})
	if out := s.CLI("why", "new/count"); !strings.Contains(out, "new") {
		t.Errorf("why: %s", out)
	}
	if out := s.CLI("audit", "node", "old"); !strings.Contains(out, "renamed node/old to new") || !strings.Contains(out, "moved to the shop") {
		t.Errorf("audit:\n%s", out)
	}
	if _, err := api.Event(t.Context(), "default", "old", "count"); err == nil {
		t.Error("there is an event under the old name")
	}
	runs.Go()
}
