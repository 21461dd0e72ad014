package react

import (
	"testing"

	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// BenchmarkRecord is 2,000 changes of status until they are in SQLite, fsync included.
func BenchmarkRecord(b *testing.B) {
	s := sqlite(b)
	r := run(b, Options{Store: s, Names: someNames(nil)})
	ts := make([]event.Transition, 2000)
	var n uint64
	b.ReportAllocs()
	for b.Loop() {
		for i := range ts {
			n++
			ts[i] = changed(1, n, 0)
		}
		r.Emit(ts)
		r.recorded(pos(n))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/change")
}

// BenchmarkEmit is what the view's worker pays for a change.
func BenchmarkEmit(b *testing.B) {
	backlog := newBacklog("reactions", 131072, nil)
	ts := []event.Transition{changed(1, 1, 0)}
	b.ReportAllocs()
	for b.Loop() {
		backlog.add(ts)
		if backlog.n == 2000 {
			if len(backlog.takeBatch(2000)) != 2000 {
				b.Fatal("not all taken")
			}
		}
	}
}
