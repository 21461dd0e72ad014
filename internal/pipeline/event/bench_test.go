//go:build linux

package event

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/journaltest"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// The fleet of the benchmarks: 40,000 nodes × 38 checks with 100-byte outputs, all
// different; every check has a TTL, every fiftieth result changes the status.
const (
	fleetNodes  = 40_000
	fleetChecks = 38
	fleetOutput = 100
)

const outputFiller = " MB (57% inode=98%);| /=2643MB;5948;5958;0;5968 and so on, up to the hundredth byte of the output of a check"

// benchFleet generates sessions and results of a fleet for benchmarks.
type benchFleet struct {
	nodes       int
	definitions map[model.DefinitionID]*model.CheckDefinition
	number      uint64
	first       []uint64 // next number by node
	rng         *rand.Rand
	signals     []wire.Signal
	text        []byte
	bodies      []byte // encoded results of the batch, so that the benchmark counts no allocation of its own
	frame       []byte
}

// newFleet returns a benchmark fleet of the given size, with the same checks on each node.
func newFleet(nodes int) *benchFleet {
	f := &benchFleet{nodes: nodes, definitions: map[model.DefinitionID]*model.CheckDefinition{}, first: make([]uint64, nodes+1), rng: rand.New(rand.NewPCG(1, 2))}
	for i := range fleetChecks {
		c := &model.CheckDefinition{Definition: model.Definition{ID: model.DefinitionID(100 + i), Unit: model.CheckID(1000 + i), Namespace: 1}, TTL: time.Hour, FailAfter: 3}
		for s := range c.Severities {
			c.Severities[s] = model.DefaultSeverity(model.Status(s))
		}
		f.definitions[c.ID] = c
	}
	return f
}

// viewOptions returns options of a View with the fleet's checks, which discards all event changes
// (transitions).
func (f *benchFleet) viewOptions() viewOptions {
	return viewOptions{Definitions: func(id model.DefinitionID) *model.CheckDefinition { return f.definitions[id] }, Emit: func([]Transition) {}}
}

// nextCommit returns an empty journal commit for the benchmark to fill. Its listening time (time able to
// receive results) is 5 ms after the last commit.
func (f *benchFleet) nextCommit() *testCommit {
	f.number++
	at := time.Duration(f.number) * 5 * time.Millisecond
	return newCommit(f.number, at, 0)
}

// beginSessions returns a journal commit with the start of a session of every node.
func (f *benchFleet) beginSessions() *testCommit {
	c := f.nextCommit()
	for n := 1; n <= f.nodes; n++ {
		c.addRecord(testSection(model.NodeID(n)), &wire.Record{Kind: wire.RecordSession, Node: model.NodeID(n), Session: &wire.SessionRecord{
			Session: 1, Start: true, Namespace: model.NamespaceID(1 + n%7), TimeoutMs: 3_600_000}})
	}
	return c
}

// addBatch adds a batch of a node's results to the commit
func (f *benchFleet) addBatch(c *testCommit, node, from, count int) {
	f.signals, f.text, f.bodies = f.signals[:0], f.text[:0], f.bodies[:0]
	for i := range count {
		definition := from + i
		at := len(f.text)
		f.text = append(f.text, "DISK OK - free space: / "...)
		f.text = strconv.AppendUint(f.text, f.rng.Uint64(), 10)
		f.text = append(f.text, outputFiller[:fleetOutput-(len(f.text)-at)]...)
		r := wire.Result{DurationMs: 20, Output: f.text[at : at+fleetOutput : at+fleetOutput]}
		if f.rng.IntN(50) == 0 {
			r.Status = model.Critical
		}
		body := len(f.bodies)
		f.bodies = wire.AppendResult(f.bodies, &r)
		f.signals = append(f.signals, wire.Signal{Kind: wire.SignalResult, Definition: model.DefinitionID(100 + definition%fleetChecks), AtMs: f.number*5 + 1_000_000,
			Body: f.bodies[body:len(f.bodies):len(f.bodies)]})
	}
	b := wire.Batch{StreamKey: wire.StreamKey{Stream: wire.StreamID(node)*7919 + 1}, First: f.first[node] + 1, NowMs: f.number*5 + 1_000_050, Signals: f.signals}
	f.first[node] += uint64(count)
	f.frame = wire.AppendBatch(f.frame[:0], &b)
	_, body, err := wire.FrameKind(f.frame)
	if err != nil {
		panic(err)
	}
	c.AddEntry(testSection(model.NodeID(node)), append(wire.AppendBatchRecord(nil, model.NodeID(node)), body...))
}

// createStates applies one result of each check on each node, so that all events exist
func (f *benchFleet) createStates(deliver func(*testCommit)) {
	deliver(f.beginSessions())
	for n := 1; n <= f.nodes; n += 100 {
		c := f.nextCommit()
		for i := n; i < n+100 && i <= f.nodes; i++ {
			f.addBatch(c, i, 0, fleetChecks)
		}
		deliver(c)
	}
}

// makeTraffic returns commits with about 4,000 results each, in batches of eight
func (f *benchFleet) makeTraffic(commits int) (list []*testCommit, results int) {
	for range commits {
		c := f.nextCommit()
		for range 500 {
			f.addBatch(c, 1+f.rng.IntN(f.nodes), f.rng.IntN(fleetChecks), 8)
			results += 8
		}
		list = append(list, c)
	}
	return list, results
}

// applyCommitInline applies a commit directly on the benchmark's goroutine, without the workers.
func (v *View) applyCommitInline(b *testing.B, c *testCommit) {
	if err := v.Apply(c); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkApply measures the CPU time to apply one result on one core. One variant also copies the event for
// pipelines.
func BenchmarkApply(b *testing.B) {
	for _, c := range []struct {
		nodes     int
		pipelines []string
		suffix    string
	}{{2_000, nil, ""}, {fleetNodes, nil, ""}, {2_000, []string{"all"}, "-observed"}} {
		b.Run(fmt.Sprintf("states=%d%s", c.nodes*fleetChecks, c.suffix), func(b *testing.B) {
			f := newFleet(c.nodes)
			for _, definition := range f.definitions {
				definition.Pipelines = c.pipelines
			}
			v := newView(f.viewOptions())
			f.createStates(func(c *testCommit) { v.applyCommitInline(b, c) })
			b.ReportAllocs()
			b.ResetTimer()
			var spent time.Duration
			done := 0
			for done < b.N {
				b.StopTimer()
				list, results := f.makeTraffic(50)
				runtime.GC()
				b.StartTimer()
				begun := processCPU()
				for _, c := range list {
					v.applyCommitInline(b, c)
				}
				spent += processCPU() - begun
				done += results
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(done), "cpu-ns/result")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkTick measures the time to apply a journal commit without entries. Such a commit advances the time of
// every partition.
func BenchmarkTick(b *testing.B) {
	f := newFleet(fleetNodes / 10)
	v := newView(f.viewOptions())
	f.createStates(func(c *testCommit) { v.applyCommitInline(b, c) })
	c := f.nextCommit()
	b.ReportAllocs()
	for b.Loop() {
		c.At.Number++
		v.applyCommitInline(b, c)
	}
}

// processCPU returns the CPU time of the benchmark's own process. Other processes of the machine do not change the
// result.
func processCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// residentBytes returns the resident memory of the benchmark's process in bytes.
func residentBytes() uint64 {
	data, _ := os.ReadFile("/proc/self/statm")
	var size, resident uint64
	_, _ = fmt.Sscan(string(data), &size, &resident)
	return resident * uint64(os.Getpagesize())
}

// BenchmarkMemory measures the bytes in memory of one event and its indexes. It reports live bytes on the heap, and
// resident bytes at GOGC=100.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		f := newFleet(fleetNodes)
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		rssBefore := residentBytes()
		v := newView(f.viewOptions())
		f.createStates(func(c *testCommit) { v.applyCommitInline(b, c) })
		for range 2 {
			for n := 1; n <= f.nodes; n += 100 {
				c := f.nextCommit()
				for i := n; i < n+100; i++ {
					f.addBatch(c, i, 0, fleetChecks)
				}
				v.applyCommitInline(b, c)
			}
		}
		peak := residentBytes()
		runtime.GC()
		runtime.ReadMemStats(&after)
		states := float64(v.Counts(0).States)
		b.ReportMetric(states, "states")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/states, "heap-B/state")
		b.ReportMetric(float64(peak-rssBefore)/states, "rss-B/state")
		runtime.KeepAlive(v)
	}
}

// BenchmarkList measures listing 100 event states while a second core applies results at full speed
func BenchmarkList(b *testing.B) {
	f := newFleet(fleetNodes)
	v := newView(f.viewOptions())
	f.createStates(func(c *testCommit) { v.applyCommitInline(b, c) })
	rare := f.nextCommit() // one state in 1.5 million
	f.definitions[500] = &model.CheckDefinition{Definition: model.Definition{ID: 500, Unit: 5000}, Severities: f.definitions[100].Severities}
	rareResult := wire.Batch{StreamKey: wire.StreamKey{Stream: 5}, First: 1, NowMs: 1, Signals: []wire.Signal{wire.ResultSignal(wire.Signal{Definition: 500, AtMs: 1}, wire.Result{Status: model.Unknown})}}
	_, body, _ := wire.FrameKind(wire.AppendBatch(nil, &rareResult))
	rare.addRecord(testSection(39_999), &wire.Record{Kind: wire.RecordBatch, Node: 39_999, Batch: body})
	const alone, crowd = 8, 9 // a namespace of one node, and one of a thousandth
	for n := model.NodeID(1); n <= 41; n++ {
		ns := model.NamespaceID(crowd)
		if n == 1 {
			ns = alone
		}
		rare.addRecord(testSection(fleetNodes+n), &wire.Record{Kind: wire.RecordSession, Node: fleetNodes + n, Session: &wire.SessionRecord{
			Session: 1, Start: true, Namespace: ns, TimeoutMs: 3_600_000}})
	}
	v.applyCommitInline(b, rare)
	var many []model.NodeID // what a label selects
	for n := 1; n <= fleetNodes; n += 2 {
		many = append(many, model.NodeID(n))
	}
	list, _ := f.makeTraffic(200)
	ctx, cancel := context.WithCancel(context.Background())
	var busy sync.WaitGroup
	busy.Add(1)
	go func() {
		defer busy.Done()
		for number := f.number; ctx.Err() == nil; {
			for _, c := range list {
				number++
				again := *c
				again.At.Number = number
				_ = v.Apply(&again)
			}
		}
	}()
	for _, c := range []struct {
		name string
		q    Query
	}{
		{"all", Query{}},
		{"namespace", Query{Namespaces: []model.NamespaceID{3}}},
		{"namespace-of-one-node", Query{Namespaces: []model.NamespaceID{alone}}},
		{"namespace-of-40-nodes", Query{Namespaces: []model.NamespaceID{crowd}}},
		{"namespace-of-40-nodes-check", Query{Namespaces: []model.NamespaceID{crowd}, Checks: []model.CheckID{1010}}},
		{"namespace-nodes-none", Query{Namespaces: []model.NamespaceID{alone}, Nodes: many}},
		{"nodes-status-none", Query{Nodes: many, Statuses: []model.Status{model.Warning}}},
		{"node", Query{Nodes: []model.NodeID{20_000}}},
		{"nodes=20000", Query{Nodes: many}},
		{"check", Query{Checks: []model.CheckID{1010}}},
		{"status", Query{Statuses: []model.Status{model.Critical}}},
		{"problems", Query{Problems: true}},
		{"rare-check", Query{Checks: []model.CheckID{5000}}},
		{"rare-status-check", Query{Checks: []model.CheckID{5000}, Statuses: []model.Status{model.Unknown}}},
		{"none-of-status", Query{Statuses: []model.Status{model.Warning}, Checks: []model.CheckID{1001}}},
		{"match-one-in-a-million", Query{Match: func(s *State) (bool, error) { return s.Check == 5000, nil }, MatchWithin: 250 * time.Millisecond}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.q.Limit = 100
			var took []time.Duration
			for b.Loop() {
				begun := time.Now()
				if _, err := v.List(ctx, c.q); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
	cancel()
	busy.Wait()
}

// BenchmarkSnapshot measures how long a snapshot of about 6,000 event states locks the partition
func BenchmarkSnapshot(b *testing.B) {
	f := newFleet(156)
	v := newView(f.viewOptions())
	c := f.nextCommit()
	for n := 1; n <= 156; n++ { // all into one partition
		f.addBatch(c, n, 0, fleetChecks)
	}
	all := &testCommit{journaltest.Commit{At: c.At, Time: c.Time, Listened: c.Listened}}
	for _, s := range c.Sections() {
		_ = c.Entries(s, func(data []byte) error { all.AddEntry(9, data); return nil })
	}
	v.applyCommitInline(b, all)
	body, _ := v.Snapshot(9, nil)
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			body, _ = v.Snapshot(9, body[:0])
		}
	})
	b.Run("restore", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			if err := newView(f.viewOptions()).Restore(9, journal.Position{Number: 1}, body); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRecovery measures restoring 500,000 event states from snapshots, as at a server's start
func BenchmarkRecovery(b *testing.B) {
	f := newFleet(500_000 / fleetChecks)
	v := newView(f.viewOptions())
	f.createStates(func(c *testCommit) { v.applyCommitInline(b, c) })
	var bodies [model.Partitions][]byte
	var at journal.Position
	for p := range bodies {
		body, pos := v.Snapshot(model.Partition(p), nil)
		bodies[p], at = bytes.Clone(body), pos
	}
	for b.Loop() {
		again := newView(f.viewOptions())
		var wg sync.WaitGroup
		for start := range 2 {
			wg.Go(func() {
				for p := start; p < model.Partitions; p += 2 {
					if err := again.Restore(model.Partition(p), at, bodies[p]); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
}
