package api

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/plan"
)

// oneNode is a directory of one node.
type oneNode struct{ plan.Directory }

func (oneNode) NodeName(model.NodeID) (string, string, bool)   { return "default", "web01", true }
func (oneNode) NodeLabels(model.NodeID) map[string]string      { return map[string]string{"env": "prod"} }
func (oneNode) NodeFacts(model.NodeID) map[string]string       { return nil }
func (oneNode) NodeGroups(model.NodeID) []string               { return []string{"web"} }
func (oneNode) CheckName(model.CheckID) (string, string, bool) { return "default", "disk", true }

func BenchmarkWhere(b *testing.B) {
	for _, expr := range []string{
		`event.status == CRITICAL && event.occurrences > 3`,
		`event.status != OK && node.labels.env == "prod"`,
		`event.output.contains("full")`,
		`now - event.changed > duration("1h") && event.check == "disk"`,
	} {
		b.Run(expr, func(b *testing.B) {
			w, err := compileWhere(expr)
			if err != nil {
				b.Fatal(err)
			}
			x := w.subject(oneNode{}, time.Unix(1_800_000_000, 0))
			s := event.State{Node: 7, Check: 9, Status: model.Critical, Occurrences: 5, Output: "DISK CRITICAL: / is full"}
			b.ReportAllocs()
			for b.Loop() {
				if ok, _ := x.match(&s); !ok {
					b.Fatal("no match")
				}
			}
		})
	}
}

func TestWhereIsBounded(t *testing.T) {
	for _, expr := range []string{
		`node.groups.exists(a, node.groups.exists(b, node.groups.exists(c, a + b == c)))`,
		`node.groups.exists(a, node.facts.exists(f, event.output.matches(a + f)))`,
	} {
		if _, err := compileWhere(expr); model.ClassOf(err) != model.Invalid {
			t.Errorf("%.60s: %v", expr, err)
		}
	}
}
