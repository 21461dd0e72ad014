//go:build unix

package series

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/muster-fleet/muster/internal/model"
)

// processTime returns the CPU time that the process has used, in ns. Other programs do not count.
func processTime(b *testing.B) int64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return r.Utime.Nano() + r.Stime.Nano()
}

// BenchmarkAppend measures appending a value to each of many series, partition by partition.
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

// BenchmarkCreate measures the creation of 1,000,000 series by as many writers as a server has workers. Each writer has
// partitions of its own. Then a first query finds the series.
func BenchmarkCreate(b *testing.B) {
	const nodes, items = 10_000, 100
	var keys, names []string
	for i := range items {
		keys = append(keys, fmt.Sprintf("item.%d[sda,avg1]", i))
	}
	for n := range nodes {
		names = append(names, fmt.Sprintf("node-%d", n))
	}
	writers := max(2, runtime.GOMAXPROCS(0))
	var took time.Duration
	var created, found int64
	for b.Loop() {
		b.StopTimer()
		store, err := Open(b.TempDir(), Options{LateWindow: 24 * time.Hour, MaxSeries: limitSeries(2 * nodes * items)})
		if err != nil {
			b.Fatal(err)
		}
		refs := make([]Series, nodes*items)
		runtime.GC()
		before, began := processTime(b), time.Now()
		b.StartTimer()
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				var node, item int
				name := func() labels.Labels { return Labels(keys[item], names[node], "default", "linux") }
				for node = range nodes {
					if p := node % model.Partitions; p%writers == w {
						for item = range items {
							store.Append(model.Partition(p), &refs[node*items+item], name, start*1e6, float64(item))
						}
					}
				}
			})
		}
		all.Wait()
		b.StopTimer()
		took += time.Since(began)
		after := processTime(b)
		created += after - before
		q, err := store.Querier(start, start)
		if err != nil {
			b.Fatal(err)
		}
		values, _, err := q.LabelValues(context.Background(), LabelNode, nil)
		if found += processTime(b) - after; err != nil || len(values) != nodes || store.SeriesCount("default") != nodes*items {
			b.Fatal(len(values), store.SeriesCount("default"), err)
		}
		if err := errors.Join(q.Close(), store.Close()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	per := func(ns int64) float64 { return float64(ns) / float64(b.N) / nodes / items }
	b.ReportMetric(per(int64(took)), "ns/series")
	b.ReportMetric(per(created), "cpu-ns/series")
	b.ReportMetric(per(found), "query-cpu-ns/series")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkQuery measures PromQL queries of 20,000 out of 200,000 series with a value each second. Most series have a
// full chunk in a file, and an open chunk in memory with all or a part of the query's period.
func BenchmarkQuery(b *testing.B) {
	const nodes, items, queried, ticks = 2000, 100, 200, 200
	store, err := Open(b.TempDir(), Options{LateWindow: 24 * time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	var names []string
	for n := range nodes {
		name := fmt.Sprintf("host-%05d", n)
		if n < queried {
			names = append(names, name)
		}
		for i := range items {
			var ref Series
			l := func() labels.Labels { return Labels(fmt.Sprintf("item[%03d]", i), name, "default", "linux") }
			for tick := range ticks {
				store.Append(model.Partition(n%model.Partitions), &ref, l, start*1e6+int64(tick)*1e9, float64((n*7919+i*31+tick*104729)%10_000)/100)
			}
		}
	}
	for p := range model.Partitions {
		store.WriteChunks(model.Partition(p))
		if err := store.Sync(model.Partition(p)); err != nil {
			b.Fatal(err)
		}
	}
	store.(*db).index.publish() // a part of the first query
	runtime.GC()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 5_000_000, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	selector := `item{node=~"` + strings.Join(names, "|") + `"}`
	for _, c := range []struct {
		name, text string
		at         int // of the query, s after start
	}{
		{"rate/open", "sum by (template) (rate(" + selector + "[1m]))", 199},
		{"rate/across", "sum by (template) (rate(" + selector + "[1m]))", 150},
		{"avg", "avg(" + selector + ")", 199},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			began := processTime(b)
			for b.Loop() {
				q, err := engine.NewInstantQuery(context.Background(), store, nil, c.text, time.UnixMilli(start+int64(c.at)*1000))
				if err != nil {
					b.Fatal(err)
				}
				result := q.Exec(context.Background())
				if v, err := result.Vector(); err != nil || len(v) != 1 {
					b.Fatal(v, err)
				}
				q.Close()
			}
			b.ReportMetric(float64(processTime(b)-began)/float64(b.N)/1e6, "cpu-ms/op")
		})
	}
}

// BenchmarkBlock measures writing 100,000 series of 300 values each to a block on disk. Earlier snapshots have written
// most chunks to a file.
func BenchmarkBlock(b *testing.B) {
	const nodes, items, ticks, cycle = 1000, 100, 460, 60
	var before, after runtime.MemStats
	for b.Loop() {
		b.StopTimer()
		opened, err := Open(b.TempDir(), Options{LateWindow: 24 * time.Hour, Range: 5 * time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		store := opened.(*db)
		refs := make([]Series, nodes*items)
		first := store.rangeStart(start)
		for tick := range ticks {
			for n := range refs {
				node, i := n/items, n%items
				l := func() labels.Labels {
					return Labels(fmt.Sprintf("item[%03d]", i), fmt.Sprintf("host-%05d", node), "default", "linux")
				}
				p := model.Partition(node % model.Partitions)
				store.Append(p, &refs[n], l, first*1e6+int64(tick)*1e9, float64((n*7919+tick*104729)%10_000)/100)
			}
			for p := tick % cycle; p < model.Partitions; p += cycle {
				store.WriteChunks(model.Partition(p))
				if err := store.Sync(model.Partition(p)); err != nil {
					b.Fatal(err)
				}
			}
		}
		runtime.ReadMemStats(&before)
		began := processTime(b)
		b.StartTimer()
		if err := store.maintain(); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		b.ReportMetric(float64(processTime(b)-began)/nodes/items, "cpu-ns/series")
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/nodes/items, "alloc-B/series")
		if len(store.view.blocks) != 1 {
			b.Fatal(len(store.view.blocks), "blocks")
		}
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
