package directory

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/model"
)

// TestAssignmentTimesAreRecorded assigns random checks to random nodes, and expects AssignmentTimes to record
// each assignment's time. The expected times come from a plain record of all changes.
func TestAssignmentTimesAreRecorded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, draft := New()
		now := time.Unix(1000, 0)
		times := NewAssignmentTimes(d, func() time.Time { return now })
		type placement struct {
			node model.NodeID
			unit model.UnitID
		}
		present, want, arrivals := map[placement]bool{}, map[placement]time.Time{}, map[model.NodeID]int{}
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			now = now.Add(time.Second)
			units := slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(rapid.Map(rapid.IntRange(1, 6), func(n int) model.UnitID { return model.UnitID(n) }), 0, 4).Draw(t, "units"))))
			var c Change
			for _, node := range slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(rapid.IntRange(1, 3), 1, 3).Draw(t, "nodes")))) {
				id := model.NodeID(node)
				c.Assignments = append(c.Assignments, id)
				if rapid.IntRange(0, 9).Draw(t, "deleted") == 0 {
					draft.nodes.delete(id, draft.number)
					for unit := range model.UnitID(7) {
						delete(present, placement{id, unit})
						delete(want, placement{id, unit})
					}
					arrivals[id] = 0
					continue
				}
				draft.nodes.set(id, NodeEntry{Units: units}, draft.number)
				fresh := false
				for unit := range model.UnitID(7) {
					at, has := placement{id, unit}, slices.Contains(units, unit)
					if has && !present[at] {
						want[at], fresh = now, true
					}
					present[at] = has
				}
				if fresh {
					arrivals[id]++
				}
			}
			draft.Publish(1)
			for at, on := range present { // subscribers hear of the change after readers see it
				if got := times.Since(at.node, at.unit); on && want[at].Equal(now) && !got.Equal(now) {
					t.Fatalf("unit %d arrives on node %d since %s, want %s", at.unit, at.node, got, now)
				}
			}
			draft.Notify(c)
			for at, on := range present {
				if got := times.Since(at.node, at.unit); on && !got.Equal(want[at]) && (arrivals[at.node] <= maxArrivals || got != times.start) {
					t.Fatalf("unit %d is on node %d since %s, want %s", at.unit, at.node, got, want[at])
				}
			}
		}
	})
}
