package judge

import (
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// TestGeneratorsThatFellBehind expects an invalid run with its cause where the generator, or one of several loaders, was late:
// then goals of p99.9 and the maximum are not held against the server.
func TestGeneratorsThatFellBehind(t *testing.T) {
	slow := report.Latency{P50: 1500, P999: 1500, Max: 1500}
	cores := func(loader, server, others float64) report.Report {
		return report.Report{Span: report.Span{Loader: report.Usage{Cores: loader}, Server: report.Usage{Cores: server}}, Cost: report.Cost{Others: others}}
	}
	asked := func(figure string, limit float64) []report.Goal { return []report.Goal{{Name: figure, Want: limit}} }
	for name, c := range map[string]struct {
		lag   report.Latency
		rep   report.Report
		goals []report.Goal
		phase string // an objective of its slowest result; its generator was late by 30 ms at most
		valid bool
		want  []string // the verdict contains
	}{
		"a full machine":         {report.Latency{P99: 80}, cores(0.6, 1.3, 0.05), nil, "", false, []string{"p99 80.0 ms after the due time, allowed 50 ms): the machine was full (loader 0.60, server 1.30, others 0.05 of 2 cores)"}},
		"others":                 {report.Latency{P99: 80}, cores(0.3, 0.4, 1.2), nil, "", false, []string{"something else used the machine"}},
		"an idle machine":        {report.Latency{P99: 80}, cores(0.3, 0.4, 0.1), nil, "", false, []string{"the machine had room"}},
		"an unknown server":      {report.Latency{P99: 80}, cores(0.3, 0, 0), nil, "", false, []string{"--server-pid"}},
		"the second of two":      {report.Latency{P99: 10}, report.Report{Cost: report.Cost{Loaders: []report.Loader{{Name: "a", Lag: report.Latency{P99: 5}}, {Name: "b", Lag: report.Latency{P99: 80}}}}}, nil, "", false, []string{"invalid: of 2 loaders these fell behind: loader 2 (b, p99 80.0 ms); allowed are 50 ms"}},
		"only the server":        {report.Latency{P99: 5, P999: 9, Max: 20}, cores(0, 0, 0), asked("max", 1000), "", true, []string{"short: slowest"}},
		"both, for a moment":     {report.Latency{P99: 5, P999: 9, Max: 1400}, cores(0, 0, 0), asked("max", 1000), "", false, []string{"short: slowest", "max is not the server's alone"}},
		"both, at p99.9":         {report.Latency{P99: 5, P999: 1200, Max: 1400}, cores(0, 0, 0), asked("p999", 1000), "", false, []string{"short: p99.9", "p999 is not the server's alone"}},
		"both, but not at p99.9": {report.Latency{P99: 5, P999: 40, Max: 1400}, cores(0, 0, 0), asked("p999", 1000), "", true, []string{"short: p99.9"}},
		"both, and p50 is asked": {report.Latency{P99: 5, P999: 1200, Max: 1400}, cores(0, 0, 0), asked("p50", 1000), "", true, []string{"short: p50"}},
		"both, within the limit": {report.Latency{P99: 5, P999: 9, Max: 1400}, cores(0, 0, 0), asked("max", 2000), "", true, nil},
		"both, in another phase": {report.Latency{P99: 5, P999: 9, Max: 1400}, cores(0, 0, 0), nil, "rush", true, []string{"short: rush: slowest"}},
	} {
		rep := &c.rep
		rep.Plan.MaxLag, rep.Machine.Cores, rep.Latency, rep.Lag, rep.Goals, rep.Balance = 50, 2, slow, c.lag, c.goals, &report.Balance{}
		if c.phase != "" {
			rep.Phases = []report.Played{{Name: c.phase, Kind: "steady", Span: report.Span{Latency: slow, Lag: report.Latency{Max: 30}}, Assessment: report.Assessment{Asked: map[string]scenario.Limit{"max": "1s"}}}}
		}
		(&timetable{rep: rep}).verdict(&observe.Measured{})
		if rep.Valid != c.valid || !slices.EqualFunc(rep.Verdict, c.want, strings.Contains) {
			t.Errorf("%s: valid %t, %q, want %q", name, rep.Valid, rep.Verdict, c.want)
		}
	}
}

// TestWhatPeopleWereNotAnswered expects that failed requests and changes fail the run, unless a fault kept the server
// away then.
func TestWhatPeopleWereNotAnswered(t *testing.T) {
	for _, c := range []struct {
		worked report.Worked
		held   report.Held
		want   string
	}{
		{report.Worked{Requests: 9, Failed: 2, Why: "no answer"}, report.Held{}, "2 of 9 requests of people who list failed: no answer"},
		{report.Worked{Requests: 9, Failed: 2, FailedAway: 2}, report.Held{}, ""},
		{report.Worked{Requests: 9, Failed: 2, FailedAway: 1, Why: "no answer"}, report.Held{}, "1 of 9 requests of people who list failed: no answer"},
		{report.Worked{Requests: 9, Unanswered: 2}, report.Held{}, "2 of 11 requests of people who list were not answered by the end"},
		{report.Worked{Requests: 9, Unanswered: 2, UnansweredAway: 1}, report.Held{}, ""},
		{report.Worked{Requests: 20, Unanswered: 2}, report.Held{}, ""},
		{report.Worked{}, report.Held{Changes: 4, Unasked: 1}, "create 1 check: 1 of 5 changes were not made by the end: the API had not answered those before"},
		{report.Worked{}, report.Held{Changes: 10, Unasked: 1}, ""},
		{report.Worked{}, report.Held{Unasked: 3, UnaskedAway: 3}, ""},
	} {
		c.worked.What, c.held.What = "list", "create 1 check"
		rep := &report.Report{Course: report.Course{Operators: []report.Worked{c.worked}, Changes: []report.Held{c.held}}}
		if said := strings.Join(people(rep, ""), "; "); said != c.want {
			t.Errorf("%+v, %+v: %q, want %q", c.worked, c.held, said, c.want)
		}
	}
}

// played returns the log of a run with one agent: 3 results a second for 4 seconds. Its server holds state; a killed loader
// wrote no ledgers.
func played(killed bool, state *observe.EventState) []observe.Line {
	head := &report.Report{Schema: report.Schema, Plan: report.Plan{MaxLag: 50}, Goals: []report.Goal{{Name: "p99", Want: 100}},
		Scenario: &scenario.Scenario{Phases: []scenario.Phase{{Steady: 60e9, Warmup: 1e9, Objectives: map[string]scenario.Limit{"p99": "30ms"}}}}}
	lines := []observe.Line{{Checked: &observe.Checked{Version: observe.Version, Report: head, Seconds: 60}},
		{Score: []plan.Part{{To: 1e9, Rate: 1}, {From: 1e9, To: 60e9, Rate: 1, Measured: true}}}}
	for second := range 4 {
		tally := &observe.Tally{Results: 3, Acked: 3, InTime: 3, Current: 3}
		tally.Whole.Record(40e6, 3)
		lines = append(lines, observe.Line{Check: &observe.CheckSecond{Number: second, Parts: map[int]*observe.Tally{min(second, 1): tally}, Offered: map[int]uint64{second: 3},
			Counts: &observe.Counts{Losses: map[string]uint64{"EOF": uint64(second) + 1}}, Sample: &report.Sample{Second: second, Phase: "steady"}}})
	}
	if killed {
		return lines
	}
	own := loader()
	lines = append(lines, own.Lines(0)...)
	if state != nil {
		var after observe.States
		after.Add(*state)
		lines = append(lines, observe.Line{View: &observe.View{After: after[0]}}, observe.Line{View: &observe.View{Whole: true}})
	}
	measured := *head
	return append(lines, observe.Line{Silence: &observe.Silence{}}, observe.Line{Measured: &observe.Measured{Report: &measured}})
}

// TestChecksOfALog judges whole logs, and expects the ledgers, the goals and those of phases.
func TestChecksOfALog(t *testing.T) {
	rep := judged(t, played(false, held()))
	if rep.Lost() || len(rep.Verdict) != 1 || !strings.HasPrefix(rep.Verdict[0], "short: steady: ") || len(rep.Goals) != 2 || !rep.Goals[0].Met || rep.Balance.Compared != 1 || rep.Silent.Machines != 1 {
		t.Errorf("%q, %+v, %+v", rep.Verdict, rep.Goals, rep.Balance)
	}
	rep = judged(t, played(false, held(func(s *observe.EventState) { s.Order = numbers(4, 4, 9) })))
	if !rep.Lost() || !strings.Contains(rep.Verdict[0], "1 of 1 event states differ") {
		t.Errorf("a lie: %q", rep.Verdict)
	}
	unread := played(false, nil)
	unread[len(unread)-1].Measured.Unread, unread[len(unread)-1].Measured.Fell = "no answer", "signal: killed"
	if rep = judged(t, unread); rep.OK() || rep.Lost() || rep.Balance.Sent != 4 || len(rep.Failed()) != 2 {
		t.Errorf("states that could not be read: %q, %+v", rep.Verdict, rep.Balance)
	}
}

// TestChecksOfAKilledLoader judges the log of a killed loader, and expects the figures of its seconds.
func TestChecksOfAKilledLoader(t *testing.T) {
	rep := judged(t, played(true, nil))
	if rep.Lost() || rep.Stopped == nil || rep.Stopped.After != 4 || rep.Stopped.Of != 60 || rep.Rate != 3 || rep.Latency.P99 < 39 || rep.Latency.P99 > 41 || rep.Balance.Sent != 12 || rep.Balance.WasCompared() || len(rep.Samples) != 4 || rep.Losses["EOF"] != 4 {
		t.Errorf("%q, %+v, %+v, rate %v", rep.Verdict, rep.Stopped, rep.Balance, rep.Rate)
	}
	if !strings.Contains(rep.Verdict[0], "killed") {
		t.Errorf("%q", rep.Verdict)
	}
}

// TestPhaseGoals expects that a figure of 0 of a phase counts as measured.
func TestPhaseGoals(t *testing.T) {
	phase := report.Played{Name: "steady", Kind: "steady", Offered: 10, To: 10, Assessment: report.Assessment{Asked: map[string]scenario.Limit{"history-behind": "5s", "rate": "1"}}}
	rep := &report.Report{Course: report.Course{Phases: []report.Played{phase}}, Samples: []report.Sample{{Second: 1, Internals: report.Internals{Behind: new(0.0)}}}}
	if g := phaseGoals(rep); len(g) != 2 || !g[0].Met || g[1].Met || g[0].Why+g[1].Why != "" {
		t.Errorf("%+v", g)
	}
}

// TestPhaseGoalsOfPeople expects that a phase's objectives may name each of its figures of people and notifications.
func TestPhaseGoalsOfPeople(t *testing.T) {
	for _, figure := range []string{"list-p99", "apply-p99", "silence-p99", "run-p99", "fact-p99", "watch-p99", "holds-p99", "tell-p99"} {
		phase := report.Played{Name: "steady", Kind: "steady", Offered: 10, To: 10, Assessment: report.Assessment{Beside: []report.Beside{{Figure: figure, Count: 30, Value: 7}}, Asked: map[string]scenario.Limit{figure: "8ms"}}}
		if g := phaseGoals(&report.Report{Course: report.Course{Phases: []report.Played{phase}}}); len(g) != 1 || !g[0].Met || g[0].Got != 7 {
			t.Errorf("%s: %+v", figure, g)
		}
	}
}
