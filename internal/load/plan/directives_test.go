package plan

import (
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/testenv"
)

// directivesOf computes the plan of directives of a scenario's text.
func directivesOf(t *testing.T, text string) *Directives {
	t.Helper()
	sc, err := scenario.Parse("x.yaml", []byte("scenario: muster.load/v1\n"+text))
	testenv.NoError(t, err)
	sc.Defaults()
	return NewDirectives(sc)
}

// TestPlanOfDirectives expects that nodes have different directives, run each of them and change their inventory once
// in a round, with the shares of the scenario.
func TestPlanOfDirectives(t *testing.T) {
	p := directivesOf(t, `seed: 5
agents: [{name: a, count: 200, inventory: 2kB, policies: [{name: p, components: 300, directives: 130, policies: 60, groups: 60, interval: 10s, failing: 0.1, changes: 0.5}]}]
phases: [{steady: 1m}]
`)
	if mean := p.Runs() * p.Components / p.Nodes; mean < 250 || mean > 350 {
		t.Errorf("%d components on a node", mean)
	}
	differ, fail, all := 0, 0, 0
	for node := range p.Nodes {
		held := p.Held(node)
		if held[0] != 0 {
			t.Errorf("node %d has not directive 0: %v", node, held)
		}
		if node > 0 && !slices.Equal(held, p.Held(node-1)) {
			differ++
		}
		seen := map[int]int{}
		for tick := range uint64(len(held) + 1) {
			_, place := p.Signal(node, tick)
			seen[place]++
		}
		if len(seen) != len(held)+1 || seen[-1] != 1 {
			t.Errorf("node %d: a round has %v", node, seen)
		}
		for tick := range uint64(3*len(held) + 5) {
			runs, changes := make([]uint64, len(held)), uint64(0)
			for before := range tick {
				if _, place := p.Signal(node, before); place < 0 {
					changes++
				} else {
					runs[place]++
				}
			}
			if node < 3 && (!slices.Equal(runs, p.Rounds(node, tick)) || changes != p.Changes(node, tick)) {
				t.Fatalf("node %d, %d ticks: %v and %d, not %v and %d", node, tick, p.Rounds(node, tick), p.Changes(node, tick), runs, changes)
			}
		}
		for _, d := range held {
			codes := p.Codes(node, int(d), p.Version(node, int(d), 3))
			testenv.NoError(t, codes.Check(p.Components))
			counts, _ := codes.Counts(p.Components)
			fail += counts[policy.NonCompliant] + counts[policy.Error]
			all += p.Components
			if changed := p.Version(node, int(d), 40) - p.Version(node, int(d), 20); changed != 10 {
				t.Errorf("node %d, directive %d: %d changes in 20 rounds", node, d, changed)
			}
		}
	}
	if share := float64(fail) / float64(all); differ < p.Nodes/2 || share < 0.08 || share > 0.12 {
		t.Errorf("%d nodes differ from the one before, %.3f fail", differ, share)
	}
	offsets := p.Offsets(7)
	if n := len(p.Held(7)) + 1; len(offsets) != n || offsets[0] < 0 || offsets[n-1] >= p.Every || offsets[1]-offsets[0] != RunTime || offsets[0] == p.Offsets(8)[0] {
		t.Errorf("signals within %s at %v", p.Every, offsets)
	}
}
