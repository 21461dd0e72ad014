package plan

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// BenchmarkFleet loads 15,000 nodes with 40 checks each: time, and bytes that stay.
func BenchmarkFleet(b *testing.B) {
	const nodes = 15_000
	h := fleetOf(b, nodes)
	for b.Loop() {
		var before, after runtime.MemStats
		h.p = nil
		runtime.GC()
		runtime.ReadMemStats(&before)
		h.start()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/nodes, "B/node")
	}
}

// BenchmarkEditCheck edits a check that all of 15,000 nodes hold.
func BenchmarkEditCheck(b *testing.B) {
	h := fleetOf(b, 15_000)
	i := 0
	for b.Loop() {
		i++
		h.put("Check", "default", "check00", nil, shell(fmt.Sprintf("edit %d", i%2), &model.Targets{Groups: []string{"all"}}))
	}
}

// BenchmarkEditNode changes a label of one of 15,000 nodes.
func BenchmarkEditNode(b *testing.B) {
	h := fleetOf(b, 15_000)
	i := 0
	for b.Loop() {
		i++
		h.changes = nil // the test's store searches them all
		h.node("node00000", map[string]string{"env": "prod", "i": fmt.Sprint(i)}, "all", "rack0")
	}
}
