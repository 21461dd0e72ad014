//go:build unix

package compliance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	reducer "github.com/muster-fleet/muster/internal/pipeline/compliance"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/testenv"
)

// BenchmarkReport measures compliance reports about a fleet of 12,000 nodes. Each node has 96 of 325 directives, with
// 11 components each, by 157 policies, and is in 40 of 454 groups. Since the report before, runs of 4,000 directives
// on nodes have changed, as in a second of a fleet that changes all each five minutes. The first refresh judges all.
// The refresh with a new version of the directory has policies placed again, without the planner's search for their
// nodes. The refresh after an edit follows a changed directive that a third of the nodes have, each with a new
// assignment.
func BenchmarkReport(b *testing.B) {
	f := newBenchFleet()
	began := cpuTime()
	testenv.NoError(b, f.sums.refresh(b.Context()))
	first := cpuTime() - began
	for _, by := range []string{"policy", "directive", "component", "group", "node"} {
		b.Run(by, func(b *testing.B) {
			var refresh, answer time.Duration
			for b.Loop() {
				f.changeRuns(4000)
				began := cpuTime()
				testenv.NoError(b, f.sums.refresh(b.Context()))
				refreshed := cpuTime()
				f.changes = nil
				total, rows, err := f.sums.report(b.Context(), &rowSelection{by: by, included: func(string) bool { return true }})
				if err != nil || total.nodes != benchNodes {
					b.Fatal(total.nodes, err)
				}
				shown, _ := convertRows(rows, 0, func(*rowKey) bool { return true })
				testenv.Value(json.Marshal(shown))(b)
				refresh, answer = refresh+refreshed-began, answer+cpuTime()-refreshed
			}
			b.ReportMetric(float64(refresh.Microseconds())/1000/float64(b.N), "cpu-ms/refresh")
			b.ReportMetric(float64(answer.Microseconds())/1000/float64(b.N), "cpu-ms/answer")
			b.ReportMetric(float64(first.Milliseconds()), "cpu-ms/first")
		})
	}
	b.Run("selected", func(b *testing.B) { // a tenth of the directives
		selection := rowSelection{by: "policy", included: func(string) bool { return true }, selected: func(id model.UnitID) bool { return id%10 == 0 }}
		began := cpuTime()
		for b.Loop() {
			if _, rows, err := f.sums.report(b.Context(), &selection); err != nil || len(rows) == 0 {
				b.Fatal(len(rows), err)
			}
		}
		b.ReportMetric(float64((cpuTime()-began).Microseconds())/1000/float64(b.N), "cpu-ms/answer")
	})
	b.Run("directory", func(b *testing.B) {
		began := cpuTime()
		for b.Loop() {
			f.draft.Publish(1)
			testenv.NoError(b, f.sums.refresh(b.Context()))
		}
		b.ReportMetric(float64((cpuTime()-began).Microseconds())/1000/float64(b.N), "cpu-ms/refresh")
	})
	b.Run("edit", func(b *testing.B) {
		var refresh time.Duration
		nodes := 0
		for b.Loop() {
			nodes = f.editDirective()
			began := cpuTime()
			testenv.NoError(b, f.sums.refresh(b.Context()))
			refresh += cpuTime() - began
		}
		b.ReportMetric(float64(refresh.Microseconds())/1000/float64(b.N), "cpu-ms/refresh")
		b.ReportMetric(float64(nodes), "nodes")
	})
}

// BenchmarkComponentReport measures the report by component over 12,000 nodes with 1,100 components of one directive.
// In the worst case no two nodes have equal statuses.
func BenchmarkComponentReport(b *testing.B) {
	for name, distinct := range map[string]int{"equal": 1, "different": 12_000} {
		b.Run(name, func(b *testing.B) {
			definition := &model.DirectiveDefinition{Definition: model.Definition{ID: 5, Unit: 1000}, Components: make([]model.Component, 1100)}
			for i := range definition.Components {
				definition.Components[i].Name = fmt.Sprint("component ", i)
			}
			random := rand.New(rand.NewPCG(1, 1))
			totals := newComplianceTotals(nil)
			for i := range 12_000 {
				d := nodeDirective{definition: definition, codes: make([]policy.Status, 1100)}
				for k := range d.codes {
					if d.codes[k] = policy.Compliant; distinct > 1 && random.IntN(30) == 0 {
						d.codes[k] = policy.NonCompliant
					}
				}
				n := &nodeCounts{id: model.NodeID(1 + i), namespace: "default"}
				totals.nodes[n.id] = n
				totals.replaceCounts(n, []directiveCounts{{directive: 1000, result: totals.result(n.namespace, &d)}})
			}
			if got := len(totals.directives[directiveKey{"default", 1000}].results); got != distinct {
				b.Fatalf("%d distinct results, want %d", got, distinct)
			}
			began := cpuTime()
			for b.Loop() {
				_, rows := totals.report(&rowSelection{by: "component", included: func(string) bool { return true }}, directory.FleetSnapshot{})
				if len(rows) != 1100 {
					b.Fatalf("%d rows", len(rows))
				}
			}
			b.ReportMetric(float64((cpuTime()-began).Microseconds())/1000/float64(b.N), "cpu-ms/report")
		})
	}
}

const benchNodes, benchDirectives, benchOfNode, benchComponents = 12_000, 325, 96, 11

// benchFleet is a fleet in memory for benchmarks of compliance reports. It has the last runs of directives on its
// nodes, and the sums of compliance that follow.
type benchFleet struct {
	sums    *FleetCompliance
	draft   *directory.Draft
	runs    map[model.NodeID][]reducer.Run
	changes []reducer.RunChange
	random  *rand.Rand
}

// newBenchFleet returns a fleet in memory on which every policy directive has run once.
func newBenchFleet() *benchFleet {
	d, draft := directory.New()
	f := &benchFleet{draft: draft, runs: map[model.NodeID][]reducer.Run{}, random: rand.New(rand.NewPCG(1, 2))}
	now := time.Unix(1_800_000_000, 0)
	units := map[model.UnitID]*directory.Unit{}
	begins := map[model.UnitID]time.Time{}
	for i := range benchDirectives {
		id := model.UnitID(1000 + i)
		definition := &model.DirectiveDefinition{
			Definition: model.Definition{ID: model.DefinitionID(id), Unit: id, Namespace: 1, Name: fmt.Sprint("directive", i)}, Interval: 5 * time.Minute, Components: make([]model.Component, benchComponents),
		}
		units[id] = &directory.Unit{Name: route.Name{Namespace: "default", Name: definition.Name}, ID: id, Kind: directory.DirectiveKind, Definition: definition.ToDefinition()}
		begins[id] = now.Add(-time.Hour)
		draft.SetUnit(directory.UnitEntry{Unit: units[id], Nodes: roaring.New()})
	}
	groups := make([]route.Name, 454)
	for i := range groups {
		groups[i] = route.Name{Namespace: "default", Name: fmt.Sprintf("group%03d", i)}
	}
	draft.SetGroupNames(groups)
	policies := make([]model.Resource, 157)
	placed := fixedDirectory{nodes: map[*model.Targets][]model.NodeID{}}
	for i := range policies {
		spec := &model.PolicySpec{Targets: &model.Targets{}}
		for k := range 2 {
			spec.Directives = append(spec.Directives, fmt.Sprint("directive", 2*i+k))
		}
		policies[i] = model.Resource{Metadata: model.Metadata{Namespace: "default", Name: fmt.Sprint("policy", i)}, Spec: spec}
	}
	for i := range benchNodes {
		node := directory.NodeEntry{Node: &directory.Node{ID: model.NodeID(1 + i), Name: route.Name{Namespace: "default", Name: fmt.Sprintf("node%05d", i)}}}
		for k := range benchOfNode {
			at := (i*7 + k*3) % benchDirectives
			node.Units = append(node.Units, model.UnitID(1000+at))
			targets := policies[min(at/2, len(policies)-1)].Spec.(*model.PolicySpec).Targets
			if list := placed.nodes[targets]; len(list) == 0 || list[len(list)-1] != node.ID {
				placed.nodes[targets] = append(list, node.ID)
			}
		}
		slices.Sort(node.Units)
		for k := range 40 {
			node.Groups = append(node.Groups, directory.GroupID((i*11+k*11)%len(groups)))
		}
		slices.Sort(node.Groups)
		draft.SetNode(node)
		for _, id := range node.Units {
			f.runs[node.ID] = append(f.runs[node.ID], reducer.Run{
				Unit: id, Executed: now.UnixNano(), Outcome: &reducer.Outcome{Definition: model.DefinitionID(id), Components: benchComponents, Codes: f.randomStatuses()},
			})
		}
	}
	draft.Publish(1)
	f.sums = NewFleetCompliance(Options{
		Runs: func(node model.NodeID) []reducer.Run { return f.runs[node] },
		LastRun: func(node model.NodeID, unit model.UnitID) (reducer.Run, bool) {
			i, ok := reducer.FindRun(f.runs[node], unit)
			return f.runs[node][i], ok
		},
		Changes:    func(time.Time) []reducer.RunChange { return f.changes },
		Definition: d.Definition,
		Version: func(u *directory.Unit, node model.NodeID) *model.Definition {
			return directory.DefinitionOnNode(d, u, node)
		},
		Since:      func(model.NodeID, model.UnitID) time.Time { return now },
		Placements: d.FleetSnapshot,
	}, view.Stores{Directory: placed, Now: func() time.Time { return now }})
	f.sums.declared = declarations{placements: d.FleetSnapshot(), units: units, begins: begins, policies: policies}
	return f
}

// fixedDirectory replaces the server's node directory in benchmarks, and returns preset nodes for each policy.
type fixedDirectory struct {
	view.Directory
	nodes map[*model.Targets][]model.NodeID
}

// Select returns the nodes that the benchmark has set for the given targets of a policy.
func (p fixedDirectory) Select(_ string, t *model.Targets) ([]model.NodeID, error) {
	return p.nodes[t], nil
}

// UnitByName returns the id of a policy directive of the test by its name.
func (p fixedDirectory) UnitByName(_, _, name string) (id model.UnitID, ok bool) {
	_, err := fmt.Sscanf(name, "directive%d", &id)
	return id + 1000, err == nil
}

// randomStatuses returns random statuses for a directive's components (checked parts), of which one in 30 is
// not compliant.
func (f *benchFleet) randomStatuses() policy.Codes {
	codes := policy.NewCodes(benchComponents)
	for i := range benchComponents {
		if codes.Set(i, policy.Compliant); f.random.IntN(30) == 0 {
			codes.Set(i, policy.NonCompliant)
		}
	}
	return codes
}

// editDirective publishes a new version of a policy directive, with new assignments for its nodes. It returns the
// number of nodes.
func (f *benchFleet) editDirective() (nodes int) {
	const id = model.UnitID(1000)
	before := f.sums.declared.units[id]
	unit, definition := *before, *before.Definition.AsDirective()
	definition.Interval += time.Second
	unit.Definition = definition.ToDefinition()
	f.draft.SetUnit(directory.UnitEntry{Unit: &unit, Nodes: roaring.New()})
	for _, node := range f.sums.Placements().Nodes() {
		if _, has := slices.BinarySearch(node.Units, id); has {
			node.Content = &directory.SharedContent{}
			f.draft.SetNode(node)
			nodes++
		}
	}
	f.draft.Publish(1)
	declared := &f.sums.declared
	declared.placements = f.sums.Placements()
	declared.units = declared.placements.Directives()
	return nodes
}

// changeRuns gives new random component statuses to the last runs of directives on random nodes.
func (f *benchFleet) changeRuns(n int) {
	f.changes = f.changes[:0]
	for range n {
		node := model.NodeID(1 + f.random.IntN(benchNodes))
		run := &f.runs[node][f.random.IntN(benchOfNode)]
		run.Outcome = &reducer.Outcome{Definition: run.Definition, Components: benchComponents, Codes: f.randomStatuses()}
		f.changes = append(f.changes, reducer.RunChange{Node: node, Directive: run.Unit})
	}
}

// cpuTime returns the CPU time of the process so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for the own process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
