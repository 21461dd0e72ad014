package judge

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// TestSignalFigures expects figures of the seconds after the warm-up and before the kill.
func TestSignalFigures(t *testing.T) {
	p, _, _ := planned(t)
	second := func(at int, pid int, acked uint64, cpu float64) observe.Line {
		return observe.Line{At: time.Duration(at) * time.Second, Second: &observe.Second{PID: pid, Acked: acked, CPU: cpu, Own: cpu / 2, RSS: 5, Latency: observe.Latency{P50: 3, P99: 9, Max: 11}}}
	}
	sc := &scenario.Scenario{Title: "x", Phases: []scenario.Phase{{Steady: 1, Warmup: 2e9}}, Objectives: map[string]scenario.Limit{"held": "99%", "serving": "2s", "p99": "10ms"}}
	s := &report.Signals{Unit: report.Value, Items: p.Items(), Compared: "all"}
	rep := signals(&p.Timing, sc, []observe.Line{{Start: &observe.Start{Values: 80, Startup: &observe.Startup{Seconds: 1.5, CPU: 2, RSS: 1e6}}}, second(1, 7, 1000, 90), second(2, 7, 80, 100), second(3, 7, 80, 100.5), second(4, 7, 80, 101),
		{At: 4500 * time.Millisecond, Heap: 800}, {At: 5 * time.Second, Mark: observe.MarkKilled}, second(6, 8, 500, 1), {At: 8 * time.Second, Mark: observe.MarkReady},
		{At: 9 * time.Second, Mark: observe.MarkBack}, second(10, 8, 500, 2), {Query: 40 * time.Millisecond}}, s)
	near := func(got, want float64) bool { return math.Abs(got-want) <= 0.001*want }
	figures := rep.Figures()
	for name, want := range map[string]float64{"rate": 80, "held": 100, "server-cpu": 1e6 / 160, "loader-cpu": 0.5e6 / 160, "server-memory": 5e-6, "p50": 3, "p99": 9, "beyond-p99": 9, "max": 11, "serving": 3, "back": 4, "acknowledging": 5} {
		if !near(figures[name], want) {
			t.Errorf("%s: %v, want %v", name, figures[name], want)
		}
	}
	if rep.Plan.Agents != 4 || rep.Signals.Items != 80 || rep.Plan.Offered != 80 || rep.Plan.Duration != 2 || rep.Server.Cores != 0.5 || rep.Loader.Cores != 0.25 || rep.Signals.Heap != 800 || len(rep.Samples) != 6 {
		t.Errorf("%+v %+v", rep, rep.Signals)
	}
	if w := rep.Operators[0]; len(rep.Operators) != 1 || w.What != "query" || w.Requests != 1 || !near(w.Latency.Max, 40) {
		t.Errorf("%+v", rep.Operators)
	}
	if want := []string{"short: until the server was ready again: 3.00 s, asked at most 2 s"}; !slices.Equal(rep.Verdict, want) || rep.OK() || rep.Lost() {
		t.Errorf("%q, want %q", rep.Verdict, want)
	}
	text := rep.Text()
	for _, want := range []string{"4 agents × 20 items, without TLS, 80 values/s offered for 2s", "acknowledged in time, of what was offered: 100 %", "CPU PER VALUE", "values: all of 2,240, asked none lost, doubled or wrong", "2,240 values acknowledged in all; compared: all",
		"the server was ready after 1.50 s with 2.00 s of CPU", "800 B, 10 B for each item", "query"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestSignalsOfALateGenerator expects that a run with a late generator in more than one second of a hundred is invalid,
// unless this is allowed.
func TestSignalsOfALateGenerator(t *testing.T) {
	p, _, _ := planned(t)
	sc := &scenario.Scenario{Title: "x", Phases: []scenario.Phase{{Steady: 1}}}
	for name, c := range map[string]struct {
		allowed time.Duration
		late    int // seconds in which the generator is late by one
		valid   bool
		labels  int
	}{
		"once": {0, 1, true, 0}, "always": {0, 200, false, 0}, "three times": {0, 3, false, 0}, "allowed": {2 * time.Second, 200, true, 1}, "less allowed": {20 * time.Millisecond, 0, false, 0},
	} {
		log := []observe.Line{{Start: &observe.Start{Values: 80, MaxLag: c.allowed}}}
		for at := range 201 {
			x := &observe.Second{PID: 7, Acked: 80, Lag: 70}
			if at <= c.late && at > 0 {
				x.Lag = 1000
			}
			log = append(log, observe.Line{At: time.Duration(at) * time.Second, Second: x})
		}
		rep := signals(&p.Timing, sc, log, &report.Signals{Unit: report.Value, Items: p.Items(), Compared: "all"})
		if rep.Valid != c.valid || rep.OK() != c.valid || len(rep.Label) != c.labels || !c.valid && !strings.HasPrefix(rep.Verdict[0], "invalid: the generator fell behind (p99 of the seconds ") {
			t.Errorf("%s: valid %t, lag %+v, %q, labels %q", name, rep.Valid, rep.Lag, rep.Verdict, rep.Label)
		}
	}
}

// TestSignalVerdicts expects that a wrong answer of the server fails the run, and that a log without answers is not
// judged.
func TestSignalVerdicts(t *testing.T) {
	p, log, state := planned(t)
	sc := &scenario.Scenario{Objectives: map[string]scenario.Limit{"fsyncs": "1"}}
	if rep := Values(p, sc, log); rep.Stopped == nil || !rep.OnlyStopped() || len(rep.Goals) > 0 {
		t.Errorf("%q, goals %+v", rep.Verdict, rep.Goals)
	}
	state.Counts[3][4]--
	rep := Values(p, sc, append(log, observe.Line{State: state}))
	if !rep.Lost() || rep.Wrong().Of(report.WrongSignals) != 1 || !strings.Contains(rep.Text(), "failed: values lost: 1 (node 3, ") {
		t.Errorf("%q\n%s", rep.Verdict, rep.Text())
	}
	if len(rep.Goals) != 1 || rep.Goals[0].Met {
		t.Errorf("an objective that nothing measures: %+v", rep.Goals)
	}
	if rep := Values(p, sc, append(log, observe.Line{Edit: &observe.Edit{Held: 1}})); len(rep.Changes) > 0 {
		t.Errorf("changes that nobody planned: %+v", rep.Changes)
	}
	runs, lines, nodes := plannedRuns(t)
	nodes.Directives[plan.DirectiveName(0)]--
	rep = Directives(runs, sc, append(lines, observe.Line{Runs: nodes}))
	if !rep.Lost() || rep.Changes[0].Changes != 1 || !strings.Contains(rep.Text(), "components") {
		t.Errorf("%q\n%s", rep.Verdict, rep.Text())
	}
}
