package judge

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/testenv"
)

// plannedRuns returns a small plan, and the ledgers and the state of a run in which all went well.
func plannedRuns(t *testing.T) (*plan.Directives, map[int]*observe.Ledger, *observe.Runs) {
	t.Helper()
	sc, err := scenario.Parse("x.yaml", []byte(`scenario: muster.load/v1
seed: 7
agents: [{name: other, count: 2, checks: [{name: c, interval: 10s}]}, {name: a, count: 30, inventory: 1kB, policies: [{name: p, components: 150, directives: 26, policies: 9, groups: 12, interval: 10s, failing: 0.1, changes: 0.5}]}]
phases: [{steady: 90s}]
intent: [{at: 1s, change: 1, kind: directive}]
faults: [{at: 5s, for: 1s, wrong: {count: 1}}]
`))
	testenv.NoError(t, err)
	sc.Defaults()
	p := plan.NewDirectives(sc)
	members := map[int]*observe.Ledger{}
	state := &observe.Runs{Directives: map[string]int{}, Machines: map[int]observe.MachineHistory{}}
	for node := range p.Nodes {
		ticks := uint64(len(p.Offsets(node)))*uint64(90*time.Second/p.Every) + uint64(node)
		members[p.First+node] = &observe.Ledger{Member: p.First + node, Signals: ticks, Taken: ticks}
		m := observe.MachineHistory{Statuses: map[string][]string{}, History: map[string][][]byte{}}
		counts, runs := map[string]int{}, make([]uint64, len(p.Held(node)))
		for tick := range ticks {
			round, place := p.Signal(node, tick)
			if place < 0 {
				m.Packages = nil
				for i := range p.Entries() {
					m.Packages = append(m.Packages, p.Entry(node, i, round).Field(1))
				}
				continue
			}
			runs[place]++
			d := int(p.Held(node)[place])
			codes, name := p.Codes(node, d, p.Version(node, d, round)), plan.DirectiveName(d)
			if n := len(m.History[name]); n == 0 || !slices.Equal(m.History[name][n-1], codes) {
				m.History[name] = append(m.History[name], codes)
				m.Runs, m.Covered = m.Runs+1, m.Covered+1
			}
			m.Statuses[name] = nil
			for i := range p.Components {
				m.Statuses[name] = append(m.Statuses[name], codes.At(i).String())
			}
		}
		for _, d := range p.Held(node) {
			state.Directives[plan.DirectiveName(int(d))]++
			for _, status := range m.Statuses[plan.DirectiveName(int(d))] {
				counts[status]++
			}
		}
		state.Nodes = append(state.Nodes, counts)
		if node == 2 {
			state.Machines[node] = m
		}
	}
	return p, members, state
}

// TestJudgeRunsFindsLies changes the server's answers about directives, and expects a finding of the right kind for
// each.
func TestJudgeRunsFindsLies(t *testing.T) {
	type run struct {
		*observe.Runs
		m       *observe.MachineHistory
		members map[int]*observe.Ledger
	}
	for name, c := range map[string]struct {
		lie  func(x *run)
		want []report.Kind
	}{
		"none":           {func(*run) {}, nil},
		"another status": {func(x *run) { x.Nodes[3]["compliant"]++ }, []report.Kind{WrongStatus}},
		"no node":        {func(x *run) { x.Nodes[3] = nil }, []report.Kind{WrongStatus}},
		"another holder": {func(x *run) { x.Directives[plan.DirectiveName(0)]-- }, []report.Kind{WrongHeld}},
		"nobody's":       {func(x *run) { x.Directives["x"] = 1 }, []report.Kind{WrongHeld}},
		"of nobody":      {func(x *run) { x.Unknown++ }, []report.Kind{Unknown}},
		"swapped status": {func(x *run) { slices.Reverse(x.m.Statuses[failingComponent(x.m)]) }, []report.Kind{WrongStatus}},
		"entry lost":     {func(x *run) { x.m.History[failingComponent(x.m)] = x.m.History[failingComponent(x.m)][1:] }, []report.Kind{WrongHistory}},
		"entry changed":  {func(x *run) { x.m.History[failingComponent(x.m)][0][0] ^= 1 }, []report.Kind{WrongHistory}},
		"not signed":     {func(x *run) { x.m.Covered-- }, []report.Kind{Uncovered}},
		"changed runs":   {func(x *run) { x.m.Faults = []string{"x"} }, []report.Kind{BrokenChain}},
		"chain broken":   {func(x *run) { x.m.Breaks = []string{"first", "x"} }, []report.Kind{BrokenChain}},
		"old inventory":  {func(x *run) { x.m.Packages[0] = "1.0" }, []report.Kind{WrongInventory}},
		"not acked":      {func(x *run) { x.members[2].Taken-- }, []report.Kind{UnacknowledgedRuns}},
	} {
		p, members, state := plannedRuns(t)
		m := state.Machines[2]
		c.lie(&run{state, &m, members})
		state.Machines[2] = m
		var got []report.Kind
		for _, f := range Directives(p, members, state) {
			got = append(got, f.Kind)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// failingComponent returns a directive of which some components fail and others do not, and that was not edited.
func failingComponent(m *observe.MachineHistory) string {
	for _, name := range slices.Sorted(maps.Keys(m.Statuses)) {
		list := m.Statuses[name]
		if name != plan.DirectiveName(0) && list[0] != list[len(list)-1] && (list[0] == policy.NonCompliant.String() || list[len(list)-1] == policy.NonCompliant.String()) {
			return name
		}
	}
	panic("BUG: no directive of the plan fails in part")
}
