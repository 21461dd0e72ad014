//go:build unix

package compliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/journaltest"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/store/compliancelog"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// BenchmarkUnchangedRun measures time and memory for applying a directive's run with the same 1,100 components
// as before. The run passes through the shard, the event view and the compliance view.
func BenchmarkUnchangedRun(b *testing.B) {
	b.Run("unsigned", func(b *testing.B) { benchmarkRun(b, 1100, false, false) })
	b.Run("signed", func(b *testing.B) { benchmarkRun(b, 1100, true, false) })
}

// BenchmarkChangedRun measures time and memory for applying a directive's signed run in which all components
// have changed. The run has 1,100 or 11 components.
func BenchmarkChangedRun(b *testing.B) {
	for _, components := range []int{1100, 11} {
		b.Run(fmt.Sprint(components), func(b *testing.B) { benchmarkRun(b, components, true, true) })
	}
}

// benchmarkRun measures how fast the compliance view applies runs of a directive on 1,000 nodes.
func benchmarkRun(b *testing.B, components int, signed, changed bool) {
	const nodes, rounds = 1000, 32
	definition := &model.DirectiveDefinition{
		Definition: model.Definition{ID: 5, Unit: 1000, Namespace: 1, Name: "all"}, Interval: 5 * time.Minute, Components: make([]model.Component, components),
	}
	for i := range definition.Components {
		definition.Components[i].Name = fmt.Sprint("component ", i)
	}
	sealed := definition.ToDefinition()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	events := event.New(shard.New(shard.Options{Definitions: func(model.DefinitionID) *model.Definition { return sealed }}), event.Options{Emit: func([]event.Transition) {}})
	var history *compliancelog.Store
	if changed {
		history = testenv.Value(compliancelog.Open(b.Context(), filepath.Join(b.TempDir(), "compliance.db"), compliancelog.Options{Now: time.Now, Logger: slog.New(slog.DiscardHandler)}))(b)
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error)
		go func() { ended <- history.Run(ctx) }()
		defer func() {
			cancel()
			testenv.NoError(b, errors.Join(<-ended, history.Close()))
		}()
	}
	view := New(events.Shard, history)
	r := wire.Report{Components: uint32(components), Codes: policy.NewCodes(components)}
	for i := range components {
		policy.Codes(r.Codes).Set(i, policy.Compliant)
	}
	body := wire.AppendReport(nil, &r)
	number, link := uint64(0), policy.Link{}
	commit := func() *journaltest.Commit {
		number++
		c := &journaltest.Commit{At: journal.Position{Log: 1, Number: number}, Listened: time.Duration(number) * time.Minute, Time: 1e18 + int64(number)*int64(time.Minute)}
		if signed {
			if changed {
				for i := range components {
					policy.Codes(r.Codes).Set(i, policy.Compliant+policy.NonCompliant-policy.Codes(r.Codes).At(i))
				}
			}
			s := &wire.SignedRun{Number: number, UnixMs: uint64(c.Time / int64(time.Millisecond)), Equal: number > 1 && !changed, Previous: link}
			if run := (policy.LinkedRun{UnixMs: s.UnixMs, Components: components, Codes: r.Codes}); !s.Equal {
				link = link.Next(&run)
			}
			r.Signed = wire.AppendSignedRun(nil, s)
			body = wire.AppendReport(nil, &r)
		}
		for n := range nodes {
			id := model.NodeID(7 + n*model.Partitions)
			batch := wire.Batch{StreamKey: wire.StreamKey{Stream: wire.StreamID(id), Lane: wire.Live}, First: number, NowMs: 10_000_000, Signals: []wire.Signal{{
				Kind: wire.SignalReport, Definition: 5, AtMs: 10_000_000, Body: body,
			}}}
			_, frame, err := wire.FrameKind(wire.AppendBatch(nil, &batch))
			if err != nil {
				b.Fatal(err)
			}
			c.AddEntry(7, append(wire.AppendBatchRecord(nil, id), frame...))
		}
		return c
	}
	var commits [rounds]*journaltest.Commit
	var cpu time.Duration
	for b.Loop() {
		b.StopTimer()
		for i := range commits {
			commits[i] = commit()
		}
		runtime.GC() // of what made the commits
		cpu -= cpuTime()
		b.StartTimer()
		for _, c := range commits {
			if err := events.Apply(c); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		cpu += cpuTime()
		b.StartTimer()
	}
	clear(commits[:])
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rounds/nodes, "ns/run")
	runtime.GC()
	runtime.ReadMemStats(&after)
	if changed {
		cpu -= cpuTime()
		testenv.NoError(b, history.Flush(b.Context()))
		cpu += cpuTime()
	}
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/nodes/float64(components), "B/component")
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N)/rounds/nodes, "cpu-ns/run")
	if chain := view.Chain(7); signed && (chain.Number != number || chain.Broken != policy.ChainFirst) {
		b.Fatalf("the chain is at run %d of %d, broken by %q", chain.Number, number, chain.Broken)
	}
	if runs := view.Runs(model.NodeID(7)); len(runs) != 1 || runs[0].Components != components {
		b.Fatalf("runs %+v", runs)
	}
}

// BenchmarkFleet measures how fast the server applies directive runs of 12,000 nodes. A node has 96 directives of 11
// components, or fewer and larger ones. Each run is of a random directive on a random node, so that its state is
// in no cache of the processor, and differs from the run before in all components. Shard, event view, compliance view
// and history are in the figure. The memory is that after the first run of each directive.
func BenchmarkFleet(b *testing.B) {
	for _, size := range []struct{ directives, components int }{{96, 11}, {10, 110}, {1, 1100}} {
		b.Run(fmt.Sprintf("%dx%d", size.directives, size.components), func(b *testing.B) { benchmarkFleet(b, size.directives, size.components) })
	}
}

// benchmarkFleet measures runs of 12,000 nodes that each have a number of directives.
func benchmarkFleet(b *testing.B, directives, components int) {
	const nodes, commits, perCommit = 12000, 100, 200
	f := newSimulatedFleet(nodes, directives, components)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	events := event.New(shard.New(shard.Options{Definitions: f.definition}), event.Options{Emit: func([]event.Transition) {}})
	history := testenv.Value(compliancelog.Open(b.Context(), filepath.Join(b.TempDir(), "compliance.db"), compliancelog.Options{Now: time.Now, Logger: slog.New(slog.DiscardHandler)}))(b)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- history.Run(ctx) }()
	defer func() {
		cancel()
		testenv.NoError(b, errors.Join(<-ended, history.Close()))
	}()
	view := New(events.Shard, history)
	f.runAll(b, events)
	testenv.NoError(b, history.Flush(b.Context()))
	runtime.GC()
	runtime.ReadMemStats(&after)
	random := rand.New(rand.NewPCG(1, 1))
	var cpu time.Duration
	for b.Loop() {
		b.StopTimer()
		var list [commits]*journaltest.Commit
		for i := range list {
			c, at := f.commit()
			for range perCommit {
				node := random.IntN(nodes)
				f.send(b, c, node, f.run(node, random.IntN(directives), at, nil))
			}
			list[i] = c
		}
		runtime.GC() // of the memory for the commits
		cpu -= cpuTime()
		b.StartTimer()
		for _, c := range list {
			testenv.NoError(b, events.Apply(c))
		}
		b.StopTimer()
		testenv.NoError(b, history.Flush(b.Context()))
		cpu += cpuTime()
		b.StartTimer()
	}
	perRun := float64(cpu.Nanoseconds()) / float64(b.N) / commits / perCommit
	bytes := float64(int64(after.HeapAlloc)-int64(before.HeapAlloc)) / nodes / float64(directives)
	b.ReportMetric(perRun, "cpu-ns/run")
	b.ReportMetric(float64(components)*1e9/perRun, "components/s/core")
	b.ReportMetric(bytes, "B/run")
	b.ReportMetric(bytes/float64(components), "B/component")
	for node := range nodes {
		if chain := view.Chain(model.NodeID(node + 1)); chain.Number != f.nodes[node].runs || chain.Broken != policy.ChainFirst {
			b.Fatalf("the chain of node %d is at run %d of %d, broken by %q", node+1, chain.Number, f.nodes[node].runs, chain.Broken)
		}
	}
}

// cpuTime returns the processor time that the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for the own process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
