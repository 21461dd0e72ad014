package demo

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/intentdb"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestDemoOutputs generates outputs, and expects that most results are OK, some are not, and all parse as plug-in
// output.
func TestDemoOutputs(t *testing.T) {
	bad := 0
	for a := range 300 {
		for c := range checks {
			definition := &model.CheckDefinition{Definition: model.Definition{Name: checks[c].name}}
			status := words{}.Status(a, c, definition, uint64(a*7+c), model.OK, false)
			out := words{}.Output(nil, a, c, definition, uint64(a*7+c), status)
			if len(out) < 20 || status > model.Critical {
				t.Fatalf("%q %s", out, status)
			}
			if status != model.OK {
				bad++
			}
		}
	}
	if bad < 3 || bad > 60 {
		t.Errorf("%d of %d events are not OK", bad, 300*len(checks))
	}
}

// TestDemoNamesDiffer expects different names of 3,000 nodes.
func TestDemoNamesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for i := range 3000 {
		if name := nameOf(i); seen[name] {
			t.Fatalf("two nodes called %s", name)
		} else {
			seen[name] = true
		}
	}
}

// TestPrepareIsRepeatable prepares the fleet twice, and expects that the second time changes nothing.
func TestPrepareIsRepeatable(t *testing.T) {
	store, err := intentdb.Open(t.Context(), filepath.Join(t.TempDir(), "intent.db"), kind.All(), time.Now)
	testenv.NoError(t, err)
	defer store.Close()
	service := intent.NewService(intent.Options{Store: store, Impact: noImpact})
	testenv.NoError(t, service.Load(t.Context()))
	count := func() (rows int) {
		for _, kind := range []string{"Node", "Check", "Group", "Namespace"} {
			list, err := store.List(t.Context(), intent.ListQuery{Kind: kind})
			testenv.NoError(t, err)
			rows += len(list)
		}
		return rows
	}
	var first int
	for range 2 {
		testenv.NoError(t, (Fleet{Nodes: 20, Service: service}).prepare(t.Context()))
		if err := simulated.Prepare(t.Context(), service, scenario.Uniform{Agents: 30, Checks: 5}.Scenario()); err != nil {
			t.Fatal(err)
		}
		if n := count(); first != 0 && n != first {
			t.Errorf("%d rows, then %d", first, n)
		} else {
			first = n
		}
	}
	if info, ok := service.LookupNode(uidOf(3)); !ok || info.Name != nameOf(3) {
		t.Errorf("node 3: %+v %v", info, ok)
	}
}

// noImpact returns an impact without assignments, in place of the planner.
func noImpact(_ context.Context, writes []intent.Write, _ bool) (intent.Impact, error) {
	return intent.Impact{Placements: make([]intent.Placement, len(writes))}, nil
}
