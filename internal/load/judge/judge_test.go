package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// planned returns a small plan, and the log and the state of a run in which all went well.
func planned(t *testing.T) (*plan.Plan, []observe.Line, *observe.State) {
	t.Helper()
	sc, err := scenario.Parse("x.yaml", []byte(`scenario: muster.load/v1
seed: 7
agents: [{name: a, count: 4, values: [{name: item, count: 20, interval: 1s, triggerEvery: 2, scriptEvery: 4}]}]
phases: [{steady: 10m}]
`))
	if err != nil {
		t.Fatal(err)
	}
	sc.Defaults()
	p, err := plan.New(sc)
	if err != nil {
		t.Fatal(err)
	}
	c, ticks := &p.Classes[0], uint64(600)
	log := []observe.Line{{Start: &observe.Start{Nodes: 4, Values: 80, Ready: 1}}}
	state := &observe.State{Raw: map[int][][]float64{2: make([][]float64, len(c.Items))}, Problems: map[observe.Trigger]observe.Problems{}}
	for node := range p.Nodes {
		log = append(log, observe.Line{Node: &observe.Node{Number: node, Sent: ticks, Acked: ticks}})
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
	return p, log, state
}

// Each lie of a server is found, and named as what it is.
func TestJudgeFindsLies(t *testing.T) {
	watched := observe.Trigger{Node: 1, Item: 0}
	for name, c := range map[string]struct {
		lie  func(log []observe.Line, s *observe.State)
		want []Kind
	}{
		"none":                      {func([]observe.Line, *observe.State) {}, nil},
		"lost":                      {func(_ []observe.Line, s *observe.State) { s.Counts[3][4]-- }, []Kind{Lost}},
		"no series":                 {func(_ []observe.Line, s *observe.State) { s.Counts[0][1], s.Sums[0][1] = 0, 0 }, []Kind{Lost}},
		"doubled":                   {func(_ []observe.Line, s *observe.State) { s.Counts[1][1]++ }, []Kind{Doubled}},
		"one lost, another doubled": {func(_ []observe.Line, s *observe.State) { s.Sums[1][3] += 0.01 }, []Kind{Wrong}},
		"another value":             {func(_ []observe.Line, s *observe.State) { s.Raw[2][5][9] += 0.5 }, []Kind{Wrong}},
		"swapped items":             {func(_ []observe.Line, s *observe.State) { s.Raw[2][5], s.Raw[2][6] = s.Raw[2][6], s.Raw[2][5] }, []Kind{Wrong}},
		"problem missing":           {func(_ []observe.Line, s *observe.State) { delete(s.Problems, watched) }, []Kind{MissingProblem}},
		"problem twice": {func(_ []observe.Line, s *observe.State) {
			x := s.Problems[watched]
			x.Opened++
			s.Problems[watched] = x
		}, []Kind{FalseProblem}},
		"never closed": {func(_ []observe.Line, s *observe.State) {
			x := s.Problems[watched]
			x.Open = !x.Open
			s.Problems[watched] = x
		}, []Kind{WrongState}},
		"of nobody":   {func(_ []observe.Line, s *observe.State) { s.Unknown++ }, []Kind{Unknown}},
		"not acked":   {func(log []observe.Line, _ *observe.State) { log[1].Node.Acked-- }, []Kind{Unacknowledged}},
		"node silent": {func(log []observe.Line, _ *observe.State) { log[1].Node = nil }, []Kind{Unacknowledged}},
		"refused":     {func(log []observe.Line, _ *observe.State) { log[0].Second = &observe.Second{Refused: 1} }, []Kind{Refused}},
	} {
		p, log, state := planned(t)
		c.lie(log, state)
		var got []Kind
		for _, f := range Judge(p, log, state) {
			got = append(got, f.Kind)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Values that were sent and not acknowledged may be there or not, and not twice.
func TestJudgeAllowsUnacknowledged(t *testing.T) {
	for _, there := range []float64{599, 600} {
		p, log, state := planned(t)
		log[1].Node.Acked = 599
		state.Counts[0][0] = there
		if list := Judge(p, log, state); len(list) != 1 || list[0].Kind != Unacknowledged || list[0].Count != 20 {
			t.Errorf("%v values: %+v", there, list)
		}
	}
}

// Figures are of the seconds behind the warm-up and before the kill.
func TestMeasure(t *testing.T) {
	p, _, _ := planned(t)
	second := func(at int, pid int, acked uint64, cpu float64) observe.Line {
		return observe.Line{At: time.Duration(at) * time.Second, Second: &observe.Second{PID: pid, Acked: acked, CPU: cpu, Own: cpu / 2, RSS: 5, Load: 2, Latency: observe.Latency{P50: 3, P99: 9}}}
	}
	g := Measure(&p.Timing, p.Items(), []observe.Line{{Start: &observe.Start{Values: 80}}, second(1, 7, 1000, 90), second(2, 7, 80, 100), second(3, 7, 80, 100.5), second(4, 7, 80, 101),
		{At: 4500 * time.Millisecond, Heap: 800}, {At: 5 * time.Second, Mark: observe.MarkKilled}, second(6, 8, 500, 1), {At: 8 * time.Second, Mark: observe.MarkReady},
		{At: 9 * time.Second, Mark: observe.MarkBack}, second(10, 8, 500, 2), {Query: 40 * time.Millisecond}}, 2*time.Second)
	want := Figures{Nodes: 4, Items: 80, Offered: 80, Acked: 80, Seconds: 2, Micros: 1e6 / 160, Cores: 0.5, Own: 0.25, RSS: 5, Load: 2, Heap: 800, P50: 3, P99: 9, QueryP50: 40, QueryMax: 40, Restart: 3, Back: 4, Caught: 5}
	if g != want {
		t.Errorf("%+v\nwant %+v", g, want)
	}
	r := Report{Compared: "all", Figures: g}
	if err := r.Hold(map[string]scenario.Limit{"held": "99%", "serving": "2s", "p99": "10ms"}); err != nil || len(r.Missed) != 1 {
		t.Errorf("missed %q, %v", r.Missed, err)
	}
	if err := r.Hold(map[string]scenario.Limit{"fsyncs": "1"}); err == nil {
		t.Error("an objective that nothing measures")
	}
}
