package compliance

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestOutcomesAreSharedAndRight asks for more outcomes than the cache has places, and compares each with its report. An outcome that was asked for just before is the same one in memory; those with messages never are.
func TestOutcomesAreSharedAndRight(t *testing.T) {
	x, random := new(outcomeCache), rand.New(rand.NewPCG(1, 1))
	for range 2 * len(x) {
		components := 1 + random.IntN(40)
		c := &model.DirectiveDefinition{Definition: model.Definition{ID: model.DefinitionID(1 + random.IntN(50))}, Components: make([]model.Component, components)}
		r := &wire.Report{Enforced: random.IntN(2) == 0, Codes: policy.NewCodes(components)}
		for i := range components {
			policy.Codes(r.Codes).Set(i, policy.Status(random.IntN(2)))
		}
		if random.IntN(8) == 0 {
			r.Ended = "too long"
		}
		codes := bytes.Clone(r.Codes)
		first, second := x.share(c, r), x.share(c, r)
		clear(r.Codes) // the next report reuses the memory
		if first.Definition != c.ID || first.Enforced != r.Enforced || first.Components != components || !bytes.Equal(first.Codes, codes) || first.EarlyEndReason() != r.Ended {
			t.Fatalf("outcome %+v of definition %d and report %+v with codes %x", first, c.ID, r, codes)
		}
		if (first == second) != (r.Ended == "") {
			t.Fatalf("shared: %v, with the text %q", first == second, r.Ended)
		}
	}
}

// maxRunBytes bounds the memory of a directive's run with 11 components, among 96 of a node: 5 bytes per component.
const maxRunBytes = 55

// TestMemoryOfRuns applies signed runs of directives, and expects 5 bytes of memory per component at most. A node has
// 96 directives with 11 components; shard, event view and compliance view count. The same holds after a restart from
// snapshots.
func TestMemoryOfRuns(t *testing.T) {
	if testing.Short() || testenv.Race {
		t.Skip("the test simulates 2,000 nodes")
	}
	const nodes = 2000
	f := newSimulatedFleet(nodes, 96, 11)
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	newView := func() (*event.View, *View) {
		events := event.New(shard.New(shard.Options{Definitions: f.definition}), event.Options{Emit: func([]event.Transition) {}})
		return events, New(events.Shard, nil)
	}
	expect := func(when string, bytes int) {
		t.Helper()
		bytes /= nodes * 96
		t.Logf("%s: %d bytes of memory per run", when, bytes)
		if bytes > maxRunBytes {
			t.Errorf("%s: %d bytes of memory per run, expected %d at most", when, bytes, maxRunBytes)
		}
	}
	before := heap()
	events, view := newView()
	f.runAll(t, events)
	expect("runs of all directives", heap()-before)
	before = heap()
	restored, again := newView()
	for i := range model.Partitions {
		body, at := events.Snapshot(model.Partition(i), nil)
		testenv.NoError(t, restored.Restore(model.Partition(i), at, body))
	}
	expect("restart from snapshots", heap()-before)
	for node := model.NodeID(1); node <= nodes; node++ {
		if runs := view.Runs(node); len(runs) != 96 || !reflect.DeepEqual(runs, again.Runs(node)) {
			t.Fatalf("node %d has %d runs, and other ones after a restart", node, len(runs))
		}
	}
}
