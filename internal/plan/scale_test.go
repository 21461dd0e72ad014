//go:build unix

package plan

import (
	"encoding/json"
	"fmt"
	"runtime"
	"syscall"
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// scaleFleet returns a planner with 12,000 nodes, 454 groups by condition and 325 checks. A node is in some 40
// groups, nearly no two nodes in the same, and has some 120 of the checks; every check reads one of 40 properties,
// whose values come from the namespace, from groups and from the node.
func scaleFleet(tb testing.TB) *testPlanner {
	const nodes, groups, checks, properties = 12_000, 454, 325, 40
	h := newTestPlanner(tb)
	p := h.p
	h.p = nil
	var writes []intent.Write
	put := func(kind, name string, labels map[string]string, spec model.Spec) {
		writes = append(writes, intent.Write{
			Key: intent.Key{Kind: kind, Namespace: "default", Name: name}, Body: encode(tb, kind, "default", name, labels, spec), Expect: -1,
		})
	}
	number := func(v int) json.RawMessage { return json.RawMessage(fmt.Sprint(v)) }
	for i := range nodes {
		spec := &model.NodeSpec{
			Groups: []string{"all"},
			Facts:  map[string]string{"os": fmt.Sprint("os", i%6), "cpus": fmt.Sprint(1 << (i % 7)), "hostname": fmt.Sprintf("node%05d", i)},
		}
		if i%3 == 0 {
			spec.Properties = map[string]json.RawMessage{fmt.Sprintf("p%02d", i%properties): number(i)}
		}
		labels := map[string]string{"env": fmt.Sprint("e", i%4), "site": fmt.Sprint("s", i%97), "role": fmt.Sprint("r", i%113)}
		for k := range 6 {
			labels[fmt.Sprint("tag", k)] = fmt.Sprint((i * (k + 3) / 7) % 9)
		}
		put("Node", fmt.Sprintf("node%05d", i), labels, spec)
	}
	for i := range groups {
		spec := &model.GroupSpec{}
		switch {
		case i < 97:
			spec.Where = fmt.Sprintf(`node.labels.site == "s%d"`, i)
		case i < 97+113:
			spec.Where = fmt.Sprintf(`node.labels.role == "r%d"`, i-97)
		case i < 97+113+60:
			spec.Where = fmt.Sprintf(`node.facts.os == "os%d" && node.labels.tag%d == "%d"`, i%6, i%5, i%9)
		default:
			spec.Where = fmt.Sprintf(`node.labels.tag%d == "%d" || node.labels.env == "e%d" && node.labels.tag%d == "%d"`, i%6, i%9, i%4, (i+1)%6, (i+2)%9)
		}
		if i%10 == 0 {
			spec.Properties = map[string]json.RawMessage{fmt.Sprintf("p%02d", i/10%properties): number(i)}
		}
		put("Group", fmt.Sprintf("group%03d", i), nil, spec)
	}
	for i := range properties {
		put("Property", fmt.Sprintf("p%02d", i), nil, &model.PropertySpec{Value: number(-i)})
	}
	for i := range checks {
		targets := &model.Targets{Groups: []string{"all"}}
		if i >= 50 {
			targets.Groups = []string{fmt.Sprintf("group%03d", i*7%groups), fmt.Sprintf("group%03d", i*11%groups)}
		}
		put("Check", fmt.Sprintf("check%03d", i), nil, commandCheck(fmt.Sprintf("check %d {{ .props.p%02d }}", i, i%properties), targets))
	}
	h.write(writes...)
	h.p = p
	if err := p.CatchUp(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return h
}

// cpuSeconds returns the processor time of this process in seconds, which a busy machine distorts less than the
// clock.
func cpuSeconds() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for the own process
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// BenchmarkPlan12000x325 measures compiling 12,000 nodes with 325 checks from scratch, and an edit of a check that
// every node runs
func BenchmarkPlan12000x325(b *testing.B) {
	h := scaleFleet(b)
	b.Run("cold", func(b *testing.B) {
		var before, after runtime.MemStats
		var cpu float64
		for b.Loop() {
			b.StopTimer()
			h.p = nil
			runtime.GC()
			runtime.ReadMemStats(&before)
			b.StartTimer()
			began := cpuSeconds()
			h.start()
			cpu += cpuSeconds() - began
			b.StopTimer()
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.StartTimer()
		}
		b.ReportMetric(cpu/float64(b.N), "cpu-s/op")
		b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/(1<<20), "MiB")
	})
	b.Run("edit", func(b *testing.B) {
		began, i := cpuSeconds(), 0
		for b.Loop() {
			i++
			h.changes, h.changed = nil, nil // the test's store searches all changes
			h.apply("Check", "default", "check000", nil, commandCheck(fmt.Sprintf("edit %d {{ .props.p00 }}", i), &model.Targets{Groups: []string{"all"}}))
			if len(h.changed) < 12_000 {
				b.Fatalf("%d assignments changed", len(h.changed))
			}
		}
		b.ReportMetric((cpuSeconds()-began)/float64(b.N), "cpu-s/op")
	})
}
