package judge

import (
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/testenv"
)

// planned returns a small plan, and the ledgers and the state of a run in which all went well.
func planned(t *testing.T) (*plan.Plan, map[int]*observe.Ledger, *observe.State) {
	t.Helper()
	sc, err := scenario.Parse("x.yaml", []byte(`scenario: muster.load/v1
seed: 7
agents: [{name: a, count: 4, values: [{name: item, count: 20, interval: 1s, triggerEvery: 2, scriptEvery: 4}]}]
phases: [{steady: 10m}]
`))
	testenv.NoError(t, err)
	sc.Defaults()
	p := plan.New(sc)
	c, ticks := &p.Classes[0], uint64(600)
	members := map[int]*observe.Ledger{}
	state := &observe.State{Raw: map[int][][]float64{2: make([][]float64, len(c.Items))}, Problems: map[observe.Trigger]observe.Problems{}}
	for node := range p.Nodes {
		members[node] = &observe.Ledger{Member: node, Signals: ticks, Taken: ticks}
		counts, sums := make([]float64, len(c.Items)), make([]float64, len(c.Items))
		for i := range c.Items {
			for tick := range ticks {
				v := p.Stored(c, node, i, tick)
				counts[i]++
				sums[i] += v
				if node == 2 {
					state.Raw[2][i] = append(state.Raw[2][i], v)
				}
			}
			if c.Items[i].Window > 0 {
				opened, open := p.Problems(c, node, i, ticks)
				state.Problems[observe.Trigger{Node: node, Item: i}] = observe.Problems{Opened: opened, Open: open}
			}
		}
		state.Counts, state.Sums = append(state.Counts, counts), append(state.Sums, sums)
	}
	return p, members, state
}

// TestJudgeFindsLies changes the server's answers in many ways, and expects a finding of the right kind for each.
func TestJudgeFindsLies(t *testing.T) {
	type run struct {
		*observe.State
		members map[int]*observe.Ledger
	}
	watched, limit := observe.Trigger{Node: 1, Item: 0}, "the namespace has its limit of 2 series"
	for name, c := range map[string]struct {
		lie  func(x *run)
		want []report.Kind
	}{
		"none":      {func(*run) {}, nil},
		"lost":      {func(x *run) { x.Counts[3][4]-- }, []report.Kind{Lost}},
		"no series": {func(x *run) { x.Counts[0][1], x.Sums[0][1] = 0, 0 }, []report.Kind{Lost}},
		"no series, limited": {func(x *run) {
			x.Counts[2][1], x.Sums[2][1], x.Raw[2][1], x.SeriesLimit = 0, 0, nil, limit
		}, []report.Kind{Refused}},
		"lost beside the limit":     {func(x *run) { x.Counts[3][4], x.SeriesLimit = x.Counts[3][4]-1, limit }, []report.Kind{Lost}},
		"doubled":                   {func(x *run) { x.Counts[1][1]++ }, []report.Kind{Doubled}},
		"one lost, another doubled": {func(x *run) { x.Sums[1][3] += 0.01 }, []report.Kind{Wrong}},
		"another value":             {func(x *run) { x.Raw[2][5][9] += 0.5 }, []report.Kind{Wrong}},
		"swapped items":             {func(x *run) { x.Raw[2][5], x.Raw[2][6] = x.Raw[2][6], x.Raw[2][5] }, []report.Kind{Wrong}},
		"problem missing":           {func(x *run) { delete(x.Problems, watched) }, []report.Kind{MissingProblem}},
		"problem twice": {func(x *run) {
			x.Problems[watched] = observe.Problems{Opened: x.Problems[watched].Opened + 1, Open: x.Problems[watched].Open}
		}, []report.Kind{FalseProblem}},
		"never closed": {func(x *run) {
			x.Problems[watched] = observe.Problems{Opened: x.Problems[watched].Opened, Open: !x.Problems[watched].Open}
		}, []report.Kind{WrongState}},
		"of nobody": {func(x *run) { x.Unknown++ }, []report.Kind{Unknown}},
		"not acked": {func(x *run) { x.members[0].Taken-- }, []report.Kind{Unacknowledged}},
		"not sent":  {func(x *run) { delete(x.members, 0) }, []report.Kind{Doubled, FalseProblem}},
	} {
		p, members, state := planned(t)
		c.lie(&run{state, members})
		var got []report.Kind
		for _, f := range Values(p, members, state) {
			got = append(got, f.Kind)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestJudgeAllowsUnacknowledged expects that a value sent and not acknowledged may be stored once or not at all, but
// not twice.
func TestJudgeAllowsUnacknowledged(t *testing.T) {
	for _, there := range []float64{599, 600} {
		p, members, state := planned(t)
		members[0].Taken = 599
		state.Counts[0][0] = there
		if list := Values(p, members, state); len(list) != 1 || list[0].Kind != Unacknowledged || list[0].Count != 20 {
			t.Errorf("%v values: %+v", there, list)
		}
	}
}
