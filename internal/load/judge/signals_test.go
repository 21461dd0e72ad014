package judge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/testenv"
)

// signalLog returns the log of a run of three seconds, each with a tally, in which all was acknowledged.
func signalLog(t *testing.T, text string, tally observe.Tally, members map[int]*observe.Ledger) []observe.Line {
	t.Helper()
	sc, err := scenario.Parse("x.yaml", []byte("scenario: muster.load/v1\nseed: 7\nphases: [{steady: 3s}]\n"+text))
	testenv.NoError(t, err)
	sc.Defaults()
	start := &report.Report{Schema: report.Schema, Scenario: sc, Plan: report.Plan{MaxLag: 500}}
	list := []observe.Line{{Checked: &observe.Checked{Version: observe.Version, Report: start, Seconds: 3, Startup: report.Startup{Seconds: 1.5, CPU: 2, RSS: 1e6}}},
		{Score: []plan.Part{{Phase: 1, To: 3e9, Rate: 1, Measured: true}}}, {Heap: 800}}
	for n := range 3 {
		list = append(list, observe.Line{At: 1e9, Check: &observe.CheckSecond{Number: n, Sample: &report.Sample{}, Parts: map[int]*observe.Tally{0: &tally}}})
	}
	for member := range len(members) {
		l := *members[member]
		l.Set = -1
		list = append(list, observe.Line{Kept: &observe.Kept{Ledger: &l}})
	}
	return append(list, observe.Line{Measured: &observe.Measured{}})
}

// judged returns the report of a log.
func judged(t *testing.T, list []observe.Line) *report.Report {
	t.Helper()
	c, err := observe.ReadChecks(list)
	testenv.NoError(t, err)
	rep, err := Checks(c)
	testenv.NoError(t, err)
	return rep
}

// tallyOf counts items that were acknowledged in time, 5 ms after they were due.
func tallyOf(items uint64) (tally observe.Tally) {
	tally.Results, tally.Acked, tally.InTime, tally.Current = items, items, items, items
	tally.Whole.Record(5e6, int64(items))
	return tally
}

const (
	valuesAlone  = "agents: [{name: a, count: 4, values: [{name: item, count: 20, interval: 1s, triggerEvery: 2, scriptEvery: 4}]}]\n"
	valuesBeside = "agents: [{name: a, count: 4, checks: [{name: c, interval: 1s}], values: [{name: item, count: 20, interval: 1s, triggerEvery: 2, scriptEvery: 4}]}]\n"
)

// TestSignals judges values alone and values beside checks, and expects figures of values in the first case, and of
// results and values in the second. A lie about values fails both.
func TestSignals(t *testing.T) {
	_, members, state := planned(t)
	alone := signalLog(t, valuesAlone, tallyOf(80), members)
	if rep := judged(t, alone); len(rep.Signals.Findings) > 0 || rep.Signals.Compared != "" || rep.Wrong().Of(report.WrongSignals) > 0 {
		t.Errorf("without the state of the server: %+v", rep.Signals)
	}
	rep := judged(t, append(alone, observe.Line{State: state}))
	if rep.Rate != 80 || *rep.InTime != 1 || rep.Balance.Acknowledged != 240 || rep.Signals.Items != 80 || rep.Signals.Unit != report.Value || rep.Lost() {
		t.Errorf("%+v %+v, %q", rep.Balance, rep.Signals, rep.Verdict)
	}
	text := rep.Text()
	for _, want := range []string{"values: all of 240, asked none lost, doubled or wrong", "240 values acknowledged in all; compared: count", "the server was ready after 1.50 s with 2.00 s of CPU", "800 B, 10 B for each item"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	results := tallyOf(4)
	values := tallyOf(80)
	results.Signals = map[report.Unit]*observe.Tally{report.Value: &values}
	beside := append(signalLog(t, valuesBeside, results, members), observe.Line{State: state})
	rep = judged(t, beside)
	if f := rep.Signals.Flows; rep.Rate != 4 || len(f) != 1 || f[0].Rate != 80 || f[0].Latency.P50 < 4.9 || rep.Signals.Unit != "" || rep.Lost() || !strings.Contains(rep.Text(), "80 values acknowledged in a second") {
		t.Errorf("%+v, %q", rep.Signals, rep.Verdict)
	}
	members[2].Signals, members[2].Taken = 0, 0
	for text, want := range map[string]int{"": 1, "faults: [{at: 1s, hang: {count: 1}}]\n": 0} {
		rep := judged(t, signalLog(t, valuesAlone+text, tallyOf(80), members))
		if f := rep.Signals.Findings; len(f) != want || rep.Lost() != (want > 0) || want > 0 && (f[0].Kind != NoSignals || f[0].Count != 1) {
			t.Errorf("node 2 sent nothing, %q: %+v", text, f)
		}
	}
	members[2].Signals, members[2].Taken = members[1].Signals, members[1].Taken
	values.Dropped = 5
	values.Results, values.InTime = 75, 60
	values.Lag.Record(600e6, 10)
	full := judged(t, append(signalLog(t, valuesBeside, results, members), observe.Line{State: state}))
	if full.OK() || full.SpoolFull != 15 || *full.InTime != 0.75 || full.Lag.P99 < 590 || full.Valid || !strings.Contains(strings.Join(full.Verdict, "\n"), "15 results or values were not made") {
		t.Errorf("spools were full: %d, %v, %q", full.SpoolFull, *full.InTime, full.Verdict)
	}
	values = tallyOf(80)
	state.Counts[3][4]--
	for name, list := range map[string][]observe.Line{"alone": append(alone, observe.Line{State: state}), "beside checks": beside} {
		if rep := judged(t, list); !rep.Lost() || rep.Wrong().Of(report.WrongSignals) != 1 || !strings.Contains(rep.Text(), "failed: values lost: 1 (node 3, ") || !strings.Contains(rep.Text(), "\n  values lost  1 ") {
			t.Errorf("%s: %q\n%s", name, rep.Verdict, rep.Text())
		}
	}
}

// TestSignalsOfSeveralLoaders judges values of which two loaders played every second node each, and expects that count and sum
// of all nodes are compared: the server may lie about the nodes of either.
func TestSignalsOfSeveralLoaders(t *testing.T) {
	for name, c := range map[string]struct {
		lie  func(s *observe.State, members map[int]*observe.Ledger)
		want report.Kind
	}{
		"no lie":                       {func(*observe.State, map[int]*observe.Ledger) {}, ""},
		"a value of the first loader":  {func(s *observe.State, _ map[int]*observe.Ledger) { s.Counts[2][4]-- }, Lost},
		"a value of the second loader": {func(s *observe.State, _ map[int]*observe.Ledger) { s.Counts[3][4]-- }, Lost},
		"a sum of the second loader":   {func(s *observe.State, _ map[int]*observe.Ledger) { s.Sums[1][4]++ }, Wrong},
		"a tick without an answer":     {func(_ *observe.State, members map[int]*observe.Ledger) { members[1].Taken-- }, Unacknowledged},
	} {
		_, members, state := planned(t)
		c.lie(state, members)
		list := signalLog(t, valuesAlone, tallyOf(40), members)
		list[0].Checked.Report.Loaders = []report.Loader{{Name: "a", Here: true, Agents: 2}, {Name: "b", Agents: 2}}
		var second []observe.Line
		for i := range list {
			switch l := &list[i]; {
			case l.Check != nil: // each played half of the values
				twin := *l
				twin.Loader = 1
				second = append(second, twin)
			case l.Kept != nil:
				l.Loader = l.Kept.Ledger.Member % 2
			}
		}
		list = append(list, second...)
		rep := judged(t, append(list, observe.Line{State: state}))
		if rep.Rate != 80 || rep.Balance.Acknowledged != 240 || len(rep.Loaders) != 2 || rep.Loaders[1].Results != 120 || rep.Signals.Compared == "" {
			t.Errorf("%s: rate %v, %+v, %+v", name, rep.Rate, rep.Balance, rep.Loaders)
		}
		if f := rep.Signals.Findings; rep.Lost() != (c.want != "") || c.want != "" && (len(f) != 1 || f[0].Kind != c.want) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestSignalsOfDirectives judges a run of directives, also of a killed loader, and expects no findings without its
// ledgers. A lie about runs of directives fails the run.
func TestSignalsOfDirectives(t *testing.T) {
	runs, members, nodes := plannedRuns(t)
	text := fmt.Sprintf("agents: [{name: other, count: %d, keepalive: {interval: 20s}}, {name: a, count: 30, inventory: 1kB, policies: [{name: p, components: 150, directives: 26, policies: 9, groups: 12, interval: 10s, failing: 0.1, changes: 0.5}]}]\n", runs.First)
	for member := range runs.First {
		members[member] = &observe.Ledger{Member: member}
	}
	list := append(signalLog(t, text, tallyOf(80), members), observe.Line{Runs: nodes})
	if rep := judged(t, list); rep.Lost() || len(rep.Signals.Findings) > 0 || rep.Signals.Unit != report.Component {
		t.Errorf("%q, %+v", rep.Verdict, rep.Signals)
	}
	if rep := judged(t, list[:6]); rep.Stopped == nil || rep.Lost() || len(rep.Signals.Findings) > 0 {
		t.Errorf("killed: %q", rep.Verdict)
	}
	nodes.Directives[plan.DirectiveName(0)]--
	if rep := judged(t, list); !rep.Lost() || !strings.Contains(rep.Text(), "components") {
		t.Errorf("%q\n%s", rep.Verdict, rep.Text())
	}
}
