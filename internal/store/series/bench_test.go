//go:build unix

package series

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/muster-fleet/muster/internal/model"
)

// processTime returns the CPU time of the process in ns: other programs do not count.
func processTime(b *testing.B) int64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return r.Utime.Nano() + r.Stime.Nano()
}

// BenchmarkAppend measures appending a value to each of many series in turn, partition by partition, as workers do.
func BenchmarkAppend(b *testing.B) {
	for _, count := range [...]int{10_000, 1_000_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			store, err := Open(b.TempDir(), Options{LateWindow: 24 * time.Hour})
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			var before, after runtime.MemStats
			refs := make([]Series, count)
			runtime.GC()
			runtime.ReadMemStats(&before)
			n, tick := 0, int64(0)
			name := func() labels.Labels {
				return Labels(fmt.Sprintf("item.%d[sda,avg1]", n%100), fmt.Sprintf("node-%d", n/100), "default", "linux")
			}
			round := func() {
				store.Append(model.Partition(n*model.Partitions/count), &refs[n], name, start*1e6+tick*1e9, float64((n*7919+int(tick)*104729)%10_000)/100)
				if n++; n == count {
					n, tick = 0, tick+1
				}
			}
			for range count * 4 {
				round()
			}
			began := processTime(b)
			for b.Loop() {
				round()
			}
			b.ReportMetric(float64(processTime(b)-began)/float64(b.N), "cpu-ns/op")
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(count), "heap-B/series")
			b.ReportMetric(float64(tick), "values/series")
		})
	}
}
