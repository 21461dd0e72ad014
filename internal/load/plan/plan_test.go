package plan

import (
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/prep"
	"github.com/muster-fleet/muster/internal/prep/javascript"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/trigger"
)

// of computes the plan of a scenario's text.
func of(t *testing.T, text string) *Plan {
	t.Helper()
	sc, err := scenario.Parse("x.yaml", []byte("scenario: muster.load/v1\n"+text))
	testenv.NoError(t, err)
	sc.Defaults()
	return New(sc)
}

const twoClasses = `seed: 5
agents:
  - {name: a, count: 3, values: [{name: item, count: 40, interval: 1s, triggerEvery: 4}]}
  - {name: b, count: 2, values: [{name: n, count: 2, interval: 2s, type: integer}, {name: line, interval: 2s, type: text}]}
phases: [{steady: 20m}]
`

// TestPlanIsComputedFromTheSeed expects the same plan for the same seed, and a time of its own for each node in an
// interval.
func TestPlanIsComputedFromTheSeed(t *testing.T) {
	p, again := of(t, twoClasses), of(t, twoClasses)
	if p.Nodes != 5 || p.Items() != 3*40+2*3 {
		t.Fatalf("%+v: %d items", p, p.Items())
	}
	kinds := map[item.Kind]int{}
	for node := range p.Nodes {
		c := p.Class(node)
		if at := p.Offset(c, node); at < 0 || at >= c.Interval || node > 0 && at == p.Offset(c, node-1) {
			t.Errorf("node %d is due at %s", node, at)
		}
		for i := range c.Items {
			v := p.Value(c, node, i, 77)
			if kinds[v.Kind()]++; v.String() != again.Value(again.Class(node), node, i, 77).String() {
				t.Errorf("node %d, %s: another value", node, c.Items[i].Key)
			}
		}
	}
	if kinds[item.FloatValue] == 0 || kinds[item.UnsignedValue] == 0 || kinds[item.TextValue] != 2 {
		t.Errorf("kinds: %v", kinds)
	}
}

// TestPlannedProblemsAreThoseOfTheExpression evaluates the trigger on the planned values, and expects the planned
// problems.
func TestPlannedProblemsAreThoseOfTheExpression(t *testing.T) {
	p := of(t, twoClasses)
	c := &p.Classes[0]
	spec, total := c.Template(), 0
	for node := range c.Nodes {
		for i, next := 0, 0; i < len(c.Items); i++ {
			if c.Items[i].Window == 0 {
				continue
			}
			expression := spec.Triggers[next]
			if next++; expression.Name != c.Items[i].TriggerName() {
				t.Fatalf("trigger %q of %s", expression.Name, c.Items[i].Key)
			}
			program, err := trigger.CompileForItems(spec.Items, expression.Expression, func(string) (string, error) { return "", nil })
			testenv.NoError(t, err)
			windows, opened, open := program.NewWindows(0), 0, false
			for tick := range uint64(1200) {
				at := int64(time.Duration(tick) * time.Second)
				program.Add(windows, i, item.Sample{At: at, Value: p.Value(c, node, i, tick)})
				result, _ := program.Eval(windows, at)
				if result == trigger.True && !open {
					opened++
				}
				open = result == trigger.True
				if wantOpened, want := p.Problems(c, node, i, tick+1); tick%97 == 0 && (wantOpened != opened || want != open) {
					t.Fatalf("node %d, %s, tick %d: %d problems, open %t; planned %d, %t", node, expression.Expression, tick, opened, open, wantOpened, want)
				}
			}
			total += opened
		}
	}
	if total < 30*2 { // two periods of each of 30 triggers
		t.Errorf("%d problems", total)
	}
}

// TestPlannedValuesAreThoseOfTheSteps applies the Template's steps to the sent values, and expects the planned stored
// values.
func TestPlannedValuesAreThoseOfTheSteps(t *testing.T) {
	p := of(t, `seed: 5
agents: [{name: a, count: 2, values: [{name: item, count: 12, interval: 1s, triggerEvery: 4, scriptEvery: 6}, {name: doc, count: 2, type: text, interval: 1s, dependents: 5}]}]
phases: [{steady: 1m}]
`)
	if p.Items() != 2*(12+2+10) {
		t.Fatalf("%d items", p.Items())
	}
	c := &p.Classes[0]
	spec, made, scripts := c.Template(), 0, 0
	for i := range spec.Items {
		typ, _ := spec.Items[i].ValueType()
		chain, err := prep.Compile(spec.Items[i].Steps, typ, javascript.Compile)
		testenv.NoError(t, err)
		sent := i
		if from := spec.Items[i].From; from != "" {
			made++
			sent = slices.IndexFunc(c.Items, func(of Item) bool { return of.Key == from })
		} else if len(spec.Items[i].Steps) > 0 {
			scripts++
		}
		for tick := range uint64(60) {
			raw := p.Value(c, 1, sent, tick)
			if c.Items[sent].Kind == Document && (len(raw.String()) < documentBytes || len(raw.String()) > documentBytes+2) {
				t.Fatalf("document of %d bytes", len(raw.String()))
			}
			v, err := chain.Run(nil, item.Sample{Value: raw})
			if err != nil || !c.Items[i].Kind.IsText() && v.Float() != p.Stored(c, 1, i, tick) {
				t.Fatalf("%s, tick %d: %v, %v, planned %v", c.Items[i].Key, tick, v, err, p.Stored(c, 1, i, tick))
			}
		}
	}
	if made != 10 || scripts != 2 {
		t.Errorf("%d items of documents, %d of scripts", made, scripts)
	}
}

// TestPlanBesideChecks plans classes with and without values, and expects the same node numbers, no items for classes
// without values, and no plan without any values.
func TestPlanBesideChecks(t *testing.T) {
	p := of(t, `agents:
  - {name: a, count: 3, checks: [{name: c, interval: 1s}]}
  - {name: b, count: 2, checks: [{name: c, interval: 1s}], values: [{name: x, interval: 1s}]}
phases: [{steady: 1m}]
`)
	if p.Nodes != 5 || p.Items() != 2 || len(p.Class(2).Items) != 0 || p.Class(3).Name != "b" {
		t.Errorf("%+v", p)
	}
	templates := p.Resources(func(name string, spec model.Spec) model.Resource {
		return model.Resource{Metadata: model.Metadata{Name: name}, Spec: spec}
	})
	if len(templates) != 1 || templates[0].Metadata.Name != "b" {
		t.Errorf("%+v", templates)
	}
	if none := of(t, "agents: [{name: a, count: 1, checks: [{name: c, interval: 1s}]}]\nphases: [{steady: 1m}]\n"); none != nil {
		t.Errorf("%+v", none)
	}
}

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
	p.Every = 100 * time.Millisecond // too short for runs of RunTime
	for node := range p.Nodes {
		offsets := p.Offsets(node)
		first, last := offsets[0], offsets[len(offsets)-1]
		if !slices.IsSorted(offsets) || len(slices.Compact(offsets)) != len(offsets) || first < 0 || last >= p.Every || last-first > p.Every/4 {
			t.Fatalf("node %d: signals within %s at %v", node, p.Every, offsets)
		}
	}
}
