package events

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/testenv"
)

// oneNodeDirectory is a test double of the planner's index, with one node named web01 and one check.
type oneNodeDirectory struct{ view.Directory }

// NodeName returns the name of the test's only node, web01.
func (oneNodeDirectory) NodeName(model.NodeID) (string, string, bool) {
	return "default", "web01", true
}

// NodeLabels returns the labels of the test's only node.
func (oneNodeDirectory) NodeLabels(model.NodeID) map[string]string {
	return map[string]string{"env": "prod"}
}

// NodeFacts returns no facts, because the test node has none.
func (oneNodeDirectory) NodeFacts(model.NodeID) map[string]string { return nil }

// NodeGroups returns the only group of the test node.
func (oneNodeDirectory) NodeGroups(model.NodeID) []string { return []string{"web"} }

// SourceName returns the name of the test's only check.
func (oneNodeDirectory) SourceName(model.Source) (string, string, bool) {
	return "default", "disk", true
}

// SourceGroups returns the group that the test's only check targets.
func (oneNodeDirectory) SourceGroups(model.Source) []string { return []string{"web"} }

// newOneNodeView returns a view of the server's state with one node and no events.
func newOneNodeView() *view.View {
	return view.New(view.Stores{Directory: oneNodeDirectory{}, Now: func() time.Time { return time.Unix(1_800_000_000, 0) }}, view.Live{})
}

// BenchmarkWhere measures the evaluation of conditions (CEL expressions) on one event.
func BenchmarkWhere(b *testing.B) {
	for _, expr := range []string{
		`event.status == CRITICAL && event.occurrences > 3`,
		`event.status != OK && node.labels.env == "prod"`,
		`event.output.contains("full")`,
		`now - event.changed > duration("1h") && event.check == "disk"`,
	} {
		b.Run(expr, func(b *testing.B) {
			w, err := eventConditions.Compile(expr)
			testenv.NoError(b, err)
			x := newConditionActivation(w, newOneNodeView())
			s := event.State{Node: 7, Check: 9, Status: model.Critical, Occurrences: 5, Output: "DISK CRITICAL: / is full"}
			b.ReportAllocs()
			for b.Loop() {
				if ok, _ := x.matchEvent(&s); !ok {
					b.Fatal("no match")
				}
			}
		})
	}
}

// TestEventConditionsHaveACostLimit compiles CEL conditions with nested loops, and expects a refusal because
// evaluation would cost too much.
func TestEventConditionsHaveACostLimit(t *testing.T) {
	for _, expr := range []string{
		`node.groups.exists(a, node.groups.exists(b, node.groups.exists(c, a + b == c)))`,
		`node.groups.exists(a, node.facts.exists(f, event.output.matches(a + f)))`,
	} {
		if _, err := eventConditions.Compile(expr); model.ClassOf(err) != model.Invalid {
			t.Errorf("%.60s: %v", expr, err)
		}
	}
}

// TestEventConditionsReadEveryVariable expects CEL conditions to read each declared event variable. (Package
// where fuzzes the compilation.)
func TestEventConditionsReadEveryVariable(t *testing.T) {
	s := event.State{Node: 7, Check: 9, Status: model.Critical, Severity: model.High, Counters: event.Counters{Results: 5}, Occurrences: 5, Output: "DISK CRITICAL: / is full"}
	for _, expr := range []string{
		`event.status == CRITICAL && event.severity == 4`, `event.output.endsWith("full") && event.check == "disk"`,
		`event.occurrences == 5 && event.results == 5 && event.stateChanges == 0 && event.lost == 0`,
		`!event.expired && !event.problem && !event.acknowledged && !event.flapping && event.watermark < 9`, `now > event.received && now > event.executed && now > event.changed && now > event.lastOK`,
		`node.namespace + "/" + node.name == "default/web01"`, `node.labels.env == "prod" && node.facts.os == "" && "web" in node.groups`,
	} {
		w, err := eventConditions.Compile(expr)
		if err != nil {
			t.Error(err)
			continue
		}
		if ok, err := newConditionActivation(w, newOneNodeView()).matchEvent(&s); !ok || err != nil {
			t.Errorf("%s: %v, %v", expr, ok, err)
		}
	}
}

// FuzzWhere compiles random CEL conditions over events and expects an error or an evaluation in limited time.
// Package where fuzzes conditions over nodes.
func FuzzWhere(f *testing.F) {
	for _, expr := range []string{
		`event.status == CRITICAL && event.severity >= 4`, `event.output.matches("(a+)+$")`, `now - event.changed > duration("1h")`,
		`node.labels.env == "prod" && "web" in node.groups`, `event.problem ? event.check : 7`, `[1, 2][event.occurrences] == 1`, `event`,
	} {
		f.Add(expr, "DISK CRITICAL: / is full")
	}
	f.Fuzz(func(t *testing.T, expr, output string) {
		w, err := eventConditions.Compile(expr)
		if err != nil {
			if model.ClassOf(err) != model.Invalid {
				t.Errorf("condition %q is refused with %v", expr, err)
			}
			return
		}
		s := event.State{Node: 7, Check: 9, Status: model.Critical, Severity: model.High, Counters: event.Counters{Results: 5}, Occurrences: 5, Output: output}
		began := time.Now()
		if _, err := newConditionActivation(w, newOneNodeView()).matchEvent(&s); err != nil {
			t.Errorf("%q: %v", expr, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("condition %q takes %v", expr, took)
		}
	})
}
