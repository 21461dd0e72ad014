package judge

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// TestWhyTheGeneratorFellBehind expects that an invalid run names the processes that used the cores.
func TestWhyTheGeneratorFellBehind(t *testing.T) {
	for _, c := range []struct {
		loader, server, others float64
		want                   string
	}{
		{0.6, 1.3, 0.05, "the machine was full (loader 0.60, server 1.30, others 0.05 of 2 cores)"},
		{0.3, 0.4, 1.2, "something else used the machine"},
		{0.3, 0.4, 0.1, "the machine had room"},
		{0.3, 0, 0, "--server-pid"},
	} {
		rep := &report.Report{Plan: report.Plan{MaxLag: 50}, Machine: report.Machine{Cores: 2}, Cost: report.Cost{Loader: report.Usage{Cores: c.loader}, Server: report.Usage{Cores: c.server}, Others: c.others},
			Traffic: report.Traffic{Lag: report.Latency{P99: 80}}, Balance: &report.Balance{}}
		(&timetable{rep: rep}).verdict(&observe.Measured{})
		if rep.OK() || len(rep.Verdict) != 1 || !strings.Contains(rep.Verdict[0], c.want) || !strings.Contains(rep.Verdict[0], "p99 80.0 ms") {
			t.Errorf("%+v: %q, want %q", c, rep.Verdict, c.want)
		}
	}
}

// TestAGeneratorThatStumbled stalls the generator for a moment, and expects that goals for p99.9 and the maximum are
// not held against the server.
func TestAGeneratorThatStumbled(t *testing.T) {
	for _, c := range []struct {
		name    string
		goal    report.Goal
		lag     report.Latency
		valid   bool
		verdict int
	}{
		{"the server was slow", report.Goal{Name: "max", Want: 1000}, report.Latency{P99: 5, P999: 9, Max: 20}, true, 1},
		{"both were", report.Goal{Name: "max", Want: 1000}, report.Latency{P99: 5, P999: 9, Max: 1400}, false, 2},
		{"p99.9", report.Goal{Name: "p999", Want: 1000}, report.Latency{P99: 5, P999: 1200, Max: 1400}, false, 2},
		{"not at p99.9", report.Goal{Name: "p999", Want: 1000}, report.Latency{P99: 5, P999: 40, Max: 1400}, true, 1},
		{"another figure", report.Goal{Name: "p50", Want: 1000}, report.Latency{P99: 5, P999: 1200, Max: 1400}, true, 1},
		{"met all the same", report.Goal{Name: "max", Want: 2000}, report.Latency{P99: 5, P999: 9, Max: 1400}, true, 0},
		{"of a phase, and another one stumbled", report.Goal{Name: "max", Want: 1000, Phase: "rush"}, report.Latency{P99: 5, P999: 9, Max: 1400}, true, 1},
	} {
		late := report.Latency{P50: 1500, P999: 1500, Max: 1500}
		rep := &report.Report{Plan: report.Plan{MaxLag: 50}, Machine: report.Machine{Cores: 2}, Traffic: report.Traffic{Latency: late, Lag: c.lag}, Balance: &report.Balance{}}
		if c.goal.Phase != "" {
			rep.Phases = []report.Played{{Name: c.goal.Phase, Kind: "steady", Latency: late, Lag: report.Latency{Max: 30}, Assessment: report.Assessment{Asked: map[string]scenario.Limit{c.goal.Name: "1s"}}}}
		} else {
			rep.Goals = []report.Goal{c.goal}
		}
		(&timetable{rep: rep}).verdict(&observe.Measured{})
		if rep.Valid != c.valid || len(rep.Verdict) != c.verdict {
			t.Errorf("%s: valid %t, %q", c.name, rep.Valid, rep.Verdict)
		}
	}
}

// TestALoaderThatFellBehindIsNamed expects an invalid run if one loader fell behind, even if the sum of all kept up.
func TestALoaderThatFellBehindIsNamed(t *testing.T) {
	rep := &report.Report{Plan: report.Plan{MaxLag: 50}, Balance: &report.Balance{}, Traffic: report.Traffic{Lag: report.Latency{P99: 10}}, Cost: report.Cost{Loaders: []report.Loader{{Name: "a", Lag: report.Latency{P99: 5}}, {Name: "b", Lag: report.Latency{P99: 80}}}}}
	(&timetable{rep: rep}).verdict(&observe.Measured{})
	if rep.Valid || len(rep.Verdict) != 1 || rep.Verdict[0] != "invalid: of 2 loaders these fell behind: loader 2 (b, p99 80.0 ms); allowed are 50 ms" {
		t.Errorf("%t, %q", rep.Valid, rep.Verdict)
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

// run writes the log of a run with one agent, reads it, and judges it; killed ends the log before the ledgers.
func run(t *testing.T, killed bool, change func(list []observe.Line) []observe.Line) *report.Report {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	log := observe.NewLog(path)
	head := &report.Report{Schema: report.Schema, Plan: report.Plan{MaxLag: 50}, Goals: []report.Goal{{Name: "p99", Want: 100}}}
	head.Scenario = &scenario.Scenario{Phases: []scenario.Phase{{Steady: 60e9, Warmup: 1e9, Objectives: map[string]scenario.Limit{"p99": "30ms"}}}}
	lines := []observe.Line{{Checked: &observe.Checked{Version: observe.Version, Report: head, Seconds: 60}},
		{Score: []plan.Part{{To: 1e9, Rate: 1}, {From: 1e9, To: 60e9, Rate: 1, Measured: true}}}}
	for second := range 4 {
		tally := &observe.Tally{Results: 3, Acked: 3, InTime: 3, Current: 3}
		tally.Whole.Record(40e6, 3)
		lines = append(lines, observe.Line{Check: &observe.CheckSecond{Number: second, Parts: map[int]*observe.Tally{min(second, 1): tally}, Offered: map[int]uint64{second: 3},
			Counts: &observe.Counts{Losses: map[string]uint64{"EOF": uint64(second) + 1}}, Sample: &report.Sample{Second: second, Phase: "steady"}}})
	}
	if !killed {
		own := loader()
		lines = append(lines, own.Lines(0)...)
		var after observe.States
		after.Add(*held())
		measured := *head
		lines = append(lines, observe.Line{View: &observe.View{After: after[0]}}, observe.Line{View: &observe.View{Whole: true}}, observe.Line{Silence: &observe.Silence{}}, observe.Line{Measured: &observe.Measured{Report: &measured}})
	}
	for _, line := range change(lines) {
		log.Append(line)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	list, err := observe.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := observe.ReadChecks(list)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := Checks(c)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// same returns its argument.
func same(list []observe.Line) []observe.Line { return list }

// TestChecksOfALog judges a log that was written and read, and expects the ledgers, the goals and those of phases.
func TestChecksOfALog(t *testing.T) {
	rep := run(t, false, same)
	if rep.Lost() || len(rep.Verdict) != 1 || !strings.HasPrefix(rep.Verdict[0], "short: steady: ") || len(rep.Goals) != 2 || !rep.Goals[0].Met || rep.Balance.Compared != 1 || rep.Silent.Machines != 1 {
		t.Errorf("%q, %+v, %+v", rep.Verdict, rep.Goals, rep.Balance)
	}
	rep = run(t, false, func(list []observe.Line) []observe.Line {
		for i := range list {
			if list[i].View != nil && list[i].View.After != nil {
				var after observe.States
				after.Add(*held(func(s *observe.EventState) { s.Order = numbers(4, 4, 9) }))
				list[i].View.After = after[0]
			}
		}
		return list
	})
	if !rep.Lost() || !strings.Contains(rep.Verdict[0], "1 of 1 event states differ") {
		t.Errorf("a lie: %q", rep.Verdict)
	}
	rep = run(t, false, func(list []observe.Line) []observe.Line {
		return append(slices.DeleteFunc(list, func(l observe.Line) bool { return l.View != nil || l.Measured != nil }),
			observe.Line{Measured: &observe.Measured{Report: list[0].Checked.Report, Unread: "no answer", Fell: "signal: killed"}})
	})
	if rep.OK() || rep.Lost() || rep.Balance.Sent != 4 || len(rep.Failed()) != 2 {
		t.Errorf("states that could not be read: %q, %+v", rep.Verdict, rep.Balance)
	}
}

// TestChecksOfAKilledLoader judges the log of a killed loader, also with an incomplete last line, and expects the
// figures of its seconds.
func TestChecksOfAKilledLoader(t *testing.T) {
	rep := run(t, true, same)
	if rep.Lost() || rep.Stopped == nil || rep.Stopped.After != 4 || rep.Stopped.Of != 60 || rep.Rate != 3 || rep.Latency.P99 < 39 || rep.Latency.P99 > 41 || rep.Balance.Sent != 12 || rep.Balance.WasCompared() || len(rep.Samples) != 4 || rep.Losses["EOF"] != 4 {
		t.Errorf("%q, %+v, %+v, rate %v", rep.Verdict, rep.Stopped, rep.Balance, rep.Rate)
	}
	if !strings.Contains(rep.Verdict[0], "killed") {
		t.Errorf("%q", rep.Verdict)
	}
}
