//go:build unix

package metric

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/store/series"
	"github.com/muster-fleet/muster/internal/wire"
)

// fleetCommit is a test commit with one block of values from each node of a simulated fleet.
type fleetCommit struct {
	testCommit
	sections [][][]byte
}

// Sections returns all partitions.
func (c *fleetCommit) Sections() (list []journal.Section) {
	for i := range c.sections {
		list = append(list, journal.Section(i))
	}
	return list
}

// Entries calls fn for each entry of one section (the entries of one partition).
func (c *fleetCommit) Entries(s journal.Section, fn func([]byte) error) error {
	if int(s) >= len(c.sections) {
		return nil
	}
	return (&testCommit{entries: c.sections[s]}).Entries(s, fn)
}

// Sizes of the fleet of BenchmarkRestart.
const (
	benchItems  = 100 // of each node
	benchWarmup = 60  // values of each item in the snapshot
	benchReplay = 30  // values of each item behind it
)

// benchDefinition returns a compiled Template for benchmarks, with a trigger on every tenth item.
func benchDefinition() *model.Definition {
	c := &model.TemplateDefinition{Definition: model.Definition{ID: 1, Unit: 1000, Namespace: 1, Name: "t"}}
	for i := range benchItems {
		key := fmt.Sprintf("item[%03d]", i)
		c.Items = append(c.Items, model.Item{Key: key})
		switch i % 20 {
		case 0:
			c.Triggers = append(c.Triggers, model.DefinitionTrigger{Name: key, Expression: "last(//" + key + ")>80"})
		case 10:
			c.Triggers = append(c.Triggers, model.DefinitionTrigger{Name: key, Expression: "avg(//" + key + ",#3)>80"})
		}
	}
	return c.ToDefinition()
}

// benchValue returns the value of an item in the benchmark. Values are constants, counters, gauges and percentages, as
// the load tester sends them.
func benchValue(i int, tick uint64) item.Value {
	switch r := rand.New(rand.NewPCG(uint64(i), tick)).Uint64(); i % 4 {
	case 0:
		return item.FromFloat(float64(i % 1000))
	case 1:
		return item.FromUnsigned(uint64(i)*1000 + tick*uint64(i%1000+1))
	case 2:
		return item.FromFloat(float64(r % 80))
	default:
		return item.FromFloat(float64(r%8000) / 100)
	}
}

// fleetCommitAt returns a journal commit with one value block from each node of a simulated fleet.
func fleetCommitAt(nodes int, number uint64) *fleetCommit {
	c := &fleetCommit{testCommit: testCommit{number: number}, sections: make([][][]byte, model.Partitions)}
	for node := range nodes {
		var list []wire.BlockValue
		for i := range benchItems {
			list = append(list, wire.BlockValue{Position: uint32(i), Value: benchValue(node*benchItems+i, number)})
		}
		body := wire.AppendValueBlock(nil, &wire.ValueBlock{Rows: uint32(len(list)), Columns: wire.AppendColumns(nil, []int64{int64(node) * 997}, list)})
		b := wire.Batch{StreamKey: wire.StreamKey{Stream: wire.StreamID(node + 1)}, First: number, NowMs: number * 1000, Signals: []wire.Signal{{Kind: wire.SignalValueBlock, Definition: 1, AtMs: number*1000 - 100, Body: body}}}
		_, frame, err := wire.FrameKind(wire.AppendBatch(nil, &b))
		if err != nil {
			panic(err)
		}
		s := node % model.Partitions
		c.sections[s] = append(c.sections[s], append(wire.AppendBatchRecord(nil, model.NodeID(node+1)), frame...))
	}
	return c
}

// newFleetView returns a metric view of the simulated fleet with a series store in a folder. The view stores its
// values there.
func newFleetView(b *testing.B, dir string) (*testView, series.Store) {
	b.Helper()
	s, err := series.Open(dir, series.Options{LateWindow: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	definition := benchDefinition()
	definitions := func(model.DefinitionID) *model.Definition { return definition }
	of := shard.New(shard.Options{Workers: 1, Definitions: definitions})
	o := SeriesOptions{Store: s, Names: func(id model.NodeID) (string, string) { return fmt.Sprintf("host-%05d", id), "default" }}
	return &testView{View: New(of, Options{Definitions: definitions, Series: o}), shard: of}, s
}

// processTime returns the CPU time of the process. Other programs do not count.
func processTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkRestart measures the CPU time of a start after kill -9, per item and per value. The start decodes the
// snapshots and applies the 30 s of journaled values after the snapshots. It also reports the cost of writing the
// snapshots, and the heap per item.
func BenchmarkRestart(b *testing.B) {
	for _, nodes := range [...]int{1_000, 10_000} {
		b.Run(fmt.Sprint(nodes*benchItems), func(b *testing.B) {
			for b.Loop() {
				benchmarkRestart(b, nodes)
			}
		})
	}
}

// benchmarkRestart saves snapshots of a simulated fleet, and measures the restart from the snapshots. The restart also
// applies the values that came later.
func benchmarkRestart(b *testing.B, nodes int) {
	items := float64(nodes * benchItems)
	b.StopTimer()
	dir := b.TempDir()
	v, s := newFleetView(b, dir)
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	empty := heap()
	for tick := range uint64(benchWarmup) {
		if err := v.shard.Apply(fleetCommitAt(nodes, tick+1)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((heap()-empty)/items, "heap-B/item")
	var bodies [model.Partitions][]byte
	var at [model.Partitions]journal.Position
	size, began := 0, processTime(b)
	for p := range model.Partitions {
		bodies[p], at[p] = v.shard.Snapshot(model.Partition(p), nil)
		size += len(bodies[p])
		if err := s.Sync(model.Partition(p)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(processTime(b)-began)/items, "encode-ns/item")
	b.ReportMetric(float64(size)/items, "snapshot-B/item")
	var commits []*fleetCommit
	for tick := range uint64(benchReplay) {
		commits = append(commits, fleetCommitAt(nodes, benchWarmup+tick+1))
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	v, s = newFleetView(b, dir)
	runtime.GC()
	b.StartTimer()
	began = processTime(b)
	for p := range model.Partitions {
		if err := v.shard.Restore(model.Partition(p), at[p], bodies[p]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(processTime(b)-began)/items, "decode-ns/item")
	began = processTime(b)
	for _, c := range commits {
		if err := v.shard.Apply(c); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(processTime(b)-began)/items/benchReplay, "replay-ns/value")
	b.StopTimer()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.StartTimer()
}
