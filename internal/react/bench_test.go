package react

import (
	"testing"

	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// BenchmarkRecord is what one change of status costs until it is in SQLite, fsync
// included, in batches as they come under load.
func BenchmarkRecord(b *testing.B) {
	s := sqlite(b)
	r := run(b, Options{Store: s, Names: someNames(nil), Capacity: 1 << 30})
	b.ReportAllocs()
	var n uint64
	for b.Loop() {
		n++
		r.Emit([]event.Transition{changed(1, n, 0)})
	}
	r.recorded(s, pos(n), 1)
}

// BenchmarkEmit is what the view's worker pays, the store being away.
func BenchmarkEmit(b *testing.B) {
	backlog := newBacklog(131072, nil)
	ts := []event.Transition{changed(1, 1, 0)}
	b.ReportAllocs()
	for b.Loop() {
		backlog.add(ts)
		if backlog.n == backlog.capacity {
			b.StopTimer()
			backlog.n = 0
			b.StartTimer()
		}
	}
}
