//go:build unix

package plan

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// scaleFleet returns a planner with the large fleet of benchmarks. The fleet has thousands of nodes, and 454 groups
// with conditions. A node is in some 40 groups, nearly no two nodes in the same. 40 properties have values of the
// namespace, of groups and of nodes. putUnits declares the 325 units (checks or directives); its function targets
// returns the targets of a unit by number. A node gets some 120 of the units.
func scaleFleet(tb testing.TB, nodes int, putUnits func(put func(kind, name string, spec model.Spec), targets func(int) *model.Targets)) *testPlanner {
	const groups, properties = 454, scaleProperties
	h := newTestPlanner(tb)
	p := h.p
	h.p = nil
	var writes []intent.Write
	put := func(kind, name string, labels map[string]string, spec model.Spec) {
		writes = append(writes, intent.Write{
			Key: intent.Key{Kind: kind, Namespace: "default", Name: name}, Body: encodeSpec(tb, kind, "default", name, labels, spec), Expect: -1,
		})
	}
	number := func(v int) json.RawMessage { return json.RawMessage(fmt.Sprint(v)) }
	for i := range nodes {
		spec := &model.NodeSpec{
			Groups: []string{"all"},
			Facts:  map[string]string{"os": fmt.Sprint("os", i%6), "cpus": fmt.Sprint(1 << (i % 7)), "hostname": fmt.Sprintf("node%05d", i)},
		}
		switch i % 20 {
		case 0:
			spec.PolicyMode = model.ModeAudit
		case 1:
			spec.PolicyMode = model.ModeEnforce
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
	putUnits(func(kind, name string, spec model.Spec) { put(kind, name, nil, spec) }, func(i int) *model.Targets {
		if i < 50 {
			return &model.Targets{Groups: []string{"all"}}
		}
		return &model.Targets{Groups: []string{fmt.Sprintf("group%03d", i*7%groups), fmt.Sprintf("group%03d", i*11%groups)}}
	})
	h.write(writes...)
	h.p = p
	if err := p.CatchUp(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return h
}

// Units and properties of scaleFleet, the large fleet of benchmarks.
const (
	scaleUnits      = 325
	scaleProperties = 40
)

// scaleChecks assigns 325 checks to the large fleet of benchmarks. Each check reads one property.
func scaleChecks(put func(kind, name string, spec model.Spec), targets func(int) *model.Targets) {
	for i := range scaleUnits {
		put("Check", fmt.Sprintf("check%03d", i), commandCheck(fmt.Sprintf("check %d {{ .props.p%02d }}", i, i%scaleProperties), targets(i)))
	}
}

// scaleDirective returns a test directive for the benchmarks with a large fleet. Every third has no mode, and one of
// ten reads a property.
func scaleDirective(i int, text string) *model.DirectiveSpec {
	priority := i % 11
	if i%10 == 0 {
		text += fmt.Sprintf(" {{ .props.p%02d }}", i%scaleProperties)
	}
	d := &model.DirectiveSpec{Technique: fmt.Sprintf("technique%03d", i%250), Parameters: map[string]model.ParameterValue{"text": model.TextValue(text)}, Priority: &priority}
	d.Mode = []string{"", model.ModeAudit, model.ModeEnforce}[i%3]
	return d
}

// scaleDirectives assigns 325 directives to the large fleet of benchmarks. They have 250 techniques with 9 components
// each, and 163 policies. 75 techniques have two directives, of which one overrides the other on the nodes of both. 40
// Waivers excuse a component each.
func scaleDirectives(put func(kind, name string, spec model.Spec), targets func(int) *model.Targets) {
	for i := range 250 {
		technique := &model.TechniqueSpec{Parameters: []model.Parameter{{Name: "text"}}}
		for k := range 9 {
			technique.Methods = append(technique.Methods, model.Method{
				Component: fmt.Sprint("component ", k), FileContent: &model.FileContentMethod{Path: fmt.Sprintf("/etc/file%d.%d", i, k), Content: "{{ .params.text }}"},
			})
		}
		put("Technique", fmt.Sprintf("technique%03d", i), technique)
	}
	for i := range scaleUnits {
		put("Directive", fmt.Sprintf("directive%03d", i), scaleDirective(i, "text"))
	}
	for i := 0; i < scaleUnits; i += 2 {
		p := &model.PolicySpec{Directives: []string{fmt.Sprintf("directive%03d", i)}, Targets: targets(i)}
		if i+1 < scaleUnits {
			p.Directives = append(p.Directives, fmt.Sprintf("directive%03d", i+1))
		}
		put("Policy", fmt.Sprintf("policy%03d", i), p)
	}
	for i := range 40 {
		put("Waiver", fmt.Sprintf("waiver%02d", i), &model.WaiverSpec{
			Directive: fmt.Sprintf("directive%03d", i*8), Components: []string{"component 3"}, Targets: targets(50 + i), Reason: "old", Owner: "ada",
			Expires: model.Time{Time: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)},
		})
	}
}

// BenchmarkPlanDirectives measures compiling and editing a fleet with 325 directives. Some directives override others;
// 40 Waivers and a roll-out are in force. It compiles the fleet, then edits a directive of all nodes, then changes one
// fact.
func BenchmarkPlanDirectives(b *testing.B) {
	for _, nodes := range []int{3_000, 6_000, 12_000, 20_000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			h := scaleFleet(b, nodes, scaleDirectives)
			h.startPartialRollout(b)
			b.Run("cold", h.benchmarkFullCompilation)
			overridden, held := 0, 0
			for _, n := range h.p.fleet.nodes {
				overridden, held = overridden+len(n.units.overridden), held+len(n.units.ids)
			}
			b.Logf("%d directives are held, %d overridden; %d distinct sets", held, overridden, len(h.p.fleet.unitSets.byKey))
			i := 0
			b.Run("edit", func(b *testing.B) {
				measureCPU(b, func() {
					i++
					h.changes, h.changed = nil, nil
					h.apply("Directive", "default", "directive001", nil, scaleDirective(1, fmt.Sprint("edit ", i)))
					if len(h.changed) < nodes*11/12 {
						b.Fatalf("%d assignments changed", len(h.changed))
					}
				})
			})
			b.Run("fact", func(b *testing.B) {
				measureCPU(b, func() {
					i++
					h.changes, h.changed = nil, nil
					h.apply("Node", "default", "node00007", map[string]string{"env": "e3"}, &model.NodeSpec{Groups: []string{"all"}, Facts: map[string]string{"os": fmt.Sprint("os", i%6)}})
				})
			})
			for _, review := range []bool{false, true} {
				h.apply("Group", "default", "everything", nil, &model.GroupSpec{Where: "true", Review: review})
				b.Run(fmt.Sprintf("preview with review=%v", review), func(b *testing.B) { h.benchmarkPreviews(b, review, nodes) })
			}
		})
	}
}

// benchmarkPreviews measures previews that edit or disable a directive assigned to most nodes. With review
// every node is in a group with review.
func (h *testPlanner) benchmarkPreviews(b *testing.B, review bool, nodes int) {
	disabled := scaleDirective(1, "text")
	disabled.Disabled = true
	for name, spec := range map[string]*model.DirectiveSpec{"edit": scaleDirective(1, "another text"), "disabled": disabled} {
		b.Run(name, func(b *testing.B) {
			writes := []intent.Write{{Key: intent.Key{Kind: "Directive", Namespace: "default", Name: "directive001"}, Body: encodeSpec(b, "Directive", "default", "directive001", nil, spec)}}
			measureCPU(b, func() {
				impact, err := h.p.Preview(b.Context(), writes, false)
				if err != nil || (len(impact.Reviewed) > nodes*3/4) != (review && spec.Disabled) {
					b.Fatalf("review of %d nodes, %v", len(impact.Reviewed), err)
				}
			})
		})
	}
}

// measureCPU reports the processor time of a benchmark's operation.
func measureCPU(b *testing.B, do func()) {
	began := cpuSeconds()
	for b.Loop() {
		do()
	}
	b.ReportMetric(1000*(cpuSeconds()-began)/float64(b.N), "cpu-ms/op")
}

// startPartialRollout starts the roll-out of a directive that all nodes run, and updates a tenth of the nodes.
func (h *testPlanner) startPartialRollout(b *testing.B) {
	d := scaleDirective(2, "text")
	d.Rollout = &model.RolloutSpec{Steps: []string{"10%", "100%"}}
	h.apply("Directive", "default", "directive002", nil, d)
	d = scaleDirective(2, "new text")
	d.Rollout = &model.RolloutSpec{Steps: []string{"10%", "100%"}}
	h.apply("Directive", "default", "directive002", nil, d)
	rows, err := h.List(b.Context(), intent.ListQuery{Kind: intent.RolloutKind})
	if err != nil || len(rows) != 1 {
		b.Fatalf("%d roll-outs, %v", len(rows), err)
	}
	r, err := intent.DecodeRollout(rows[0])
	if err != nil || !r.UnderWay() {
		b.Fatalf("the roll-out %+v is not under way, %v", r, err)
	}
	r.Bound, r.Steps = model.AllNodes/2/10, []model.RolloutStep{{Step: "10%"}}
	h.changed = nil
	h.write(rolloutWrite(b, rows[0].Key, r))
	slices.Sort(h.changed)
	if n, all := len(slices.Compact(h.changed)), len(h.p.fleet.nodes); n < all/12 || n > all/8 {
		b.Fatalf("the roll-out reached %d of %d nodes", n, all)
	}
}

// cpuSeconds returns the processor time of the running process in seconds. A busy machine distorts it less than the
// clock.
func cpuSeconds() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for the own process
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// benchmarkFullCompilation measures the processor time and memory of compiling the fleet from scratch.
func (h *testPlanner) benchmarkFullCompilation(b *testing.B) {
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
}

// BenchmarkPlan12000x325 measures compiling a fleet of 12,000 nodes with 325 checks from scratch. It also
// measures an edit of a check that every node runs.
func BenchmarkPlan12000x325(b *testing.B) {
	h := scaleFleet(b, 12_000, scaleChecks)
	b.Run("cold", h.benchmarkFullCompilation)
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
