package compare

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/testenv"
)

// oneRun returns a report whose figures differ from the usual ones by noise: 0.01 is 1 %.
func oneRun(at int, noise float64) *report.Report {
	of := func(v float64) float64 { return v * (1 + noise) }
	return &report.Report{
		Schema: report.Schema, Began: time.Unix(1_800_000_000+60*int64(at), 0), Commit: "1234567890abcdef", Valid: true, Balance: &report.Balance{Sent: 1000, Acknowledged: 1000},
		Machine:  report.Machine{CPU: "a CPU", Cores: 2, Memory: 8 << 30, Kernel: "6.1", Go: "go1.26", Load: "0.10 0.20 0.30"},
		Plan:     report.Plan{Agents: 100, Checks: 10, Offered: 1000, Duration: 60, Seed: 1, Digest: "0123456789abcdef"},
		Scenario: &scenario.Scenario{Name: "tiny", Seed: 1, Agents: []scenario.Class{{Name: "a", Count: 100}}},
		Environment: &report.Environment{FileSystem: "ext4", Device: "/dev/vda", Virtual: "kvm", Fsync: report.Latency{P50: 1, P99: 2}, Limits: map[string]string{"open files": "1024"},
			Server: map[string]string{"program": "muster", "commit": "1234567890abcdef"}},
		Span: report.Span{InTime: new(1.0), Latency: report.Latency{P50: of(300), P99: of(520), P999: of(530), Max: of(600)}, BeyondLinger: report.Latency{P50: of(10), P99: of(25)},
			Server: report.Usage{Cores: of(0.2), MicrosPerItem: of(12), RSS: int64(of(1e8))}, Loader: report.Usage{Cores: 0.1, MicrosPerItem: 8}},
		Traffic: report.Traffic{Results: 60000, Rate: 1000},
		Cost:    report.Cost{Inside: &report.Inside{Allocs: of(3), AllocBytes: of(700), WireBytes: of(120), JournalBytes: of(90), GC: 0.01}, Calls: &report.Calls{Reads: of(900), Writes: of(600), Syncs: of(50)}, Disk: &report.Disk{PerResult: of(350)}, SessionBytes: of(9000), AgentBytes: 9000, StateBytes: of(500), ConnectSeconds: of(2)},
	}
}

// set returns the runs of one side, alternating with those of the other, with this noise.
func set(name string, begin int, noise ...float64) Set {
	s := Set{Name: name}
	for i, n := range noise {
		s.Runs = append(s.Runs, oneRun(begin+2*i, n))
	}
	return s
}

// verdicts returns the verdict of each figure.
func verdicts(c *Comparison) map[string]Verdict {
	all := map[string]Verdict{}
	for _, r := range c.Rows {
		all[r.Figure] = r.Verdict
	}
	return all
}

// noises returns random differences of at most 3 %.
func noises(n int) *rapid.Generator[[]float64] {
	return rapid.SliceOfN(rapid.Float64Range(-0.03, 0.03), n, n+10)
}

// TestASetBesideItself compares random sets with themselves, and expects neither regression nor improvement.
func TestASetBesideItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := set("a", 0, rapid.SliceOfN(rapid.Float64Range(-0.9, 9), 1, 15).Draw(t, "noise")...)
		for _, r := range Compare(a, a).Rows {
			if r.Verdict == Worse || r.Verdict == Better || r.Change != 0 {
				t.Fatalf("%+v", r)
			}
		}
	})
}

// TestAShiftIsFound expects that a shift larger than the noise is found in both directions, and judged by the figure's
// better direction.
func TestAShiftIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := set("a", 0, noises(Enough).Draw(t, "a")...)
		up := noises(Enough).Draw(t, "b")
		by := rapid.Float64Range(0.3, 3).Draw(t, "shift")
		for i := range up {
			up[i] += by
		}
		b := set("b", 1, up...)
		there, back := verdicts(Compare(a, b)), verdicts(Compare(b, a))
		for _, name := range []string{"allocs", "journal-bytes", "disk-bytes", "fsyncs", "server-cpu", "cpu-ratio", "p99", "beyond-p99", "agent-memory", "state-memory", "server-memory", "connect"} {
			if there[name] != Worse || back[name] != Better {
				t.Fatalf("%s: %s there, %s back", name, there[name], back[name])
			}
		}
		for _, name := range []string{"rate", "held", "loader-cpu", "imbalance"} {
			if there[name] != Same || back[name] != Same {
				t.Fatalf("%s: %s there, %s back", name, there[name], back[name])
			}
		}
	})
}

// TestChanceHasNoSides expects the same probability for both orders of two samples, also with ties.
func TestChanceHasNoSides(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 1, 1, 1, 1, 1}, []float64{2, 2, 2, 2, 2}, 2. / 462},
		{[]float64{1, 1, 1, 1, 1}, []float64{2, 2, 2, 2, 2}, 2. / 252},
		{[]float64{1, 2, 3, 4, 5, 6}, []float64{7, 8, 9, 10, 11}, 2. / 462},
		{[]float64{1, 1, 2}, []float64{2, 2, 2, 2, 3}, 10. / 56},
		{[]float64{4, 4, 4, 4, 4}, []float64{4, 4, 4, 4, 4}, 1},
	} {
		if there, back := chance(c.a, c.b), chance(c.b, c.a); math.Abs(there-c.want) > 1e-9 || there != back {
			t.Errorf("%v and %v: %.5f there, %.5f back, want %.5f", c.a, c.b, there, back, c.want)
		}
	}
}

// TestRowsAreInOrderAndWritable expects rows in the order of importance that can be encoded as JSON, whatever the
// figures.
func TestRowsAreInOrderAndWritable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		any := rapid.SliceOfN(rapid.Float64Range(-1, 1e6), 1, 12)
		a, b := set("a", 0, any.Draw(t, "a")...), set("b", 1, any.Draw(t, "b")...)
		c := Compare(a, b)
		if _, err := json.Marshal(c); err != nil {
			t.Fatal(err)
		}
		ranks := []Verdict{Worse, Better, Untold, Same}
		if !slices.IsSortedFunc(c.Rows, func(x, y Row) int { return slices.Index(ranks, x.Verdict) - slices.Index(ranks, y.Verdict) }) {
			t.Fatalf("%v", c.Rows)
		}
		for _, r := range c.Rows {
			if !(r.Base.Low <= r.Base.Center && r.Base.Center <= r.Base.High) || r.Base.N != len(r.Base.Values) || (r.Base.Confidence > 0) != (r.Base.N >= Enough && !r.Lost()) {
				t.Fatalf("%+v", r)
			}
		}
	})
}

// TestUnit expects values as the unit of runs of values.
func TestUnit(t *testing.T) {
	a, b := set("a", 0, 0), set("b", 1, 0)
	for _, r := range append(a.Runs, b.Runs...) {
		r.Signals = &report.Signals{Unit: report.Value}
	}
	rows := Compare(a, b).Rows
	if i := slices.IndexFunc(rows, func(r Row) bool { return r.Figure == "server-cpu" }); rows[i].What != "server CPU per value" {
		t.Errorf("%+v", rows[i])
	}
	if i := slices.IndexFunc(rows, func(r Row) bool { return r.Figure == "rate" }); rows[i].Unit != "values/s" {
		t.Errorf("%+v", rows[i])
	}
}

// TestVerdicts changes the runs of one of two equal sides, and expects the figures that are worse, and that are better the other
// way round. One loss is worse without a test, also in an invalid run.
func TestVerdicts(t *testing.T) {
	doubled := func(r *report.Report) { r.Latency.P99, r.Inside.Allocs = 2*r.Latency.P99, 2*r.Inside.Allocs }
	for name, c := range map[string]struct {
		runs   int
		change func(r *report.Report)
		kinds  []scenario.Kind
		want   string
	}{
		"a lower rate":   {5, func(r *report.Report) { r.Rate, r.InTime = 0.8*r.Rate, new(0.8) }, nil, "[fsyncs gc-cpu held rate reads writes]"},
		"too few runs":   {4, doubled, nil, "[]"},
		"all kinds":      {5, doubled, nil, "[allocs p99]"},
		"counts":         {5, doubled, []scenario.Kind{scenario.Count}, "[allocs]"},
		"shares":         {5, doubled, []scenario.Kind{scenario.Relative}, "[]"},
		"times, shares":  {5, doubled, []scenario.Kind{scenario.Absolute, scenario.Relative}, "[p99]"},
		"a lost result":  {1, func(r *report.Report) { r.Balance.Missing, r.Valid = 1, false }, []scenario.Kind{scenario.Relative}, "[imbalance]"},
		"a lost alert":   {1, func(r *report.Report) { r.Faults = []report.Struck{{Alerts: 3, Missing: 1}} }, nil, "[wrong-alerts]"},
		"a turn for two": {1, func(r *report.Report) { r.Turns = &report.Turned{Due: 9, Ran: 9, Twice: 1} }, nil, "[missed-turns]"},
	} {
		a, b := set("a", 0, make([]float64, c.runs)...), set("b", 1, make([]float64, c.runs)...)
		for _, r := range b.Runs {
			c.change(r)
		}
		there, back := Compare(a, b), Compare(b, a)
		worse, better := []string{}, []string{}
		for _, r := range there.Regressed(c.kinds...) {
			worse = append(worse, r.Figure)
		}
		for _, r := range back.Rows {
			if r.Verdict == Untold && !strings.HasSuffix(r.Why, ": no interval; give at least 5, or --interleave") {
				t.Errorf("%s: %+v", name, r)
			}
			if r.Verdict == Better {
				better = append(better, r.Figure)
			}
		}
		slices.Sort(worse)
		slices.Sort(better)
		if fmt.Sprint(worse) != c.want || len(c.kinds) == 0 && fmt.Sprint(better) != c.want || len(back.Regressed()) > 0 {
			t.Errorf("%s: worse %v, and better %v, want %s", name, worse, better, c.want)
		}
	}
}

// TestInvalidRunsDoNotCount expects that figures of invalid runs are left out.
func TestInvalidRunsDoNotCount(t *testing.T) {
	a, b := set("a", 0, 0, 0, 0, 0, 0), set("b", 1, 0, 0, 0, 0, 0, 3, 3, 3, 3, 3, 3, 3)
	for _, r := range b.Runs[5:] {
		r.Valid = false
	}
	c := Compare(a, b)
	if len(c.Regressed()) > 0 || c.Other.Runs != 5 || c.Other.Invalid != 7 {
		t.Errorf("%v %+v", c.Verdict, c.Other)
	}
}

// TestFromNothing expects an infinite change from zero.
func TestFromNothing(t *testing.T) {
	f := scenario.Figure{Name: "settle", Grain: 0.05}
	nothing, something := []float64{0, 0, 0, 0, 0}, []float64{1, 2, 3, 4, 5}
	if r := judge(f, nothing, something); r.Verdict != Worse || math.IsInf(r.Change, 0) || r.Changed() != "from 0" {
		t.Errorf("%+v", r)
	}
	if r := judge(f, something, nothing); r.Verdict != Better || r.Change != -1 {
		t.Errorf("%+v", r)
	}
}

// TestRunsThatFailWithoutAFigure expects a regression for runs that refuse good results, although all their figures are
// fine.
func TestRunsThatFailWithoutAFigure(t *testing.T) {
	fails := func(s Set, runs int) Set {
		for _, r := range s.Runs[:runs] {
			r.Trouble, r.Verdict = []string{"600 results were refused: map[rate:600]"}, []string{"600 results were refused: map[rate:600]"}
		}
		return s
	}
	five := make([]float64, 5)
	for name, c := range map[string]struct {
		base, other int
		want        Verdict // empty: no row
	}{
		"none": {0, 0, ""}, "all": {0, 5, Worse}, "one": {0, 1, Same}, "as before": {5, 5, Same}, "no more": {5, 0, Better},
	} {
		list := Compare(fails(set("a", 0, five...), c.base), fails(set("b", 1, five...), c.other))
		if got := verdicts(list)["failed-runs"]; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if worse := len(list.Regressed(scenario.Count)) > 0; worse != (c.want == Worse) {
			t.Errorf("%s: regressed %t", name, worse)
		}
	}
}

// TestFalseAlarms compares random sets, and expects few regressions by chance, and that a shift above the noise is
// found.
func TestFalseAlarms(t *testing.T) {
	const rounds = 400
	for _, x := range []struct {
		runs          int
		noise, shift  float64
		least, atMost float64 // share of the figures that are worse
	}{{5, 0.01, 0, 0, 0.002}, {5, 0.2, 0, 0, 0.006}, {10, 0.2, 0, 0, 0.006}, {5, 0.02, 0.1, 0.7, 0.95}, {5, 0.02, 0.2, 0.99, 1}, {10, 0.05, 0.15, 0.95, 1}} {
		random := rand.New(rand.NewPCG(uint64(x.runs), 7))
		sample := func(middle float64) (list []float64) {
			for range x.runs {
				list = append(list, middle*(1+x.noise*random.NormFloat64()))
			}
			return list
		}
		worse, all := 0.0, 0.0
		for range rounds {
			for _, f := range scenario.Figures()[:28] {
				shift := 1 + x.shift
				if f.Least {
					shift = 1 - x.shift
				}
				base, other := sample(100), sample(100*shift)
				if all++; judge(f, base, other).Verdict == Worse {
					worse++
				}
			}
		}
		if share := worse / all; share < x.least || share > x.atMost {
			t.Errorf("%d runs, noise %g, shift %g: %.4f of the figures are worse, want %g to %g", x.runs, x.noise, x.shift, share, x.least, x.atMost)
		}
	}
}

// TestDifferences expects each difference between sets with both values.
func TestDifferences(t *testing.T) {
	for _, x := range []struct {
		change func(*report.Report)
		want   string // empty: nothing is named
	}{
		{func(*report.Report) {}, ""},
		{func(r *report.Report) { r.Machine.CPU = "another" }, "machine.cpu differs (a: a CPU; b: another)"},
		{func(r *report.Report) { r.Machine.Memory -= 4096 }, ""},
		{func(r *report.Report) { r.Machine.Memory *= 2 }, "machine.memory differs (a: 8589934592; b: 17179869184)"},
		{func(r *report.Report) { r.Environment.Fsync.P50 = 4 }, "an fsync before the runs differs (a: 1.00; b: 4.00 ms)"},
		{func(r *report.Report) { r.Environment.Fsync.P50 = 1.3 }, ""},
		{func(r *report.Report) { r.Environment.Limits = map[string]string{"open files": "4096"} }, "environment.limits.open files differs (a: 1024; b: 4096)"},
		{func(r *report.Report) { r.Others = 0.5 }, "other programs used the machine during the runs (a: 0; b: 25 %)"},
		{func(r *report.Report) { r.Environment.Server["commit"] = "fedcba9876543210" }, ""},
		{func(r *report.Report) { r.Environment.Server["flags"] = "--x" }, "environment.server.flags differs (a: none; b: --x)"},
		{func(r *report.Report) { r.Scenario.Agents[0].Linger = 5 }, "the scenarios differ in agents"},
		{func(r *report.Report) { r.Scenario.Objectives = map[string]scenario.Limit{"p99": "1s"} }, ""},
		{func(r *report.Report) { r.Scenario.Seed = 2 }, "the scenarios differ in seed"},
		{func(r *report.Report) { r.Disk = nil }, "not measured in b, and left out: disk-bytes"},
		{func(r *report.Report) { r.Began = r.Began.Add(time.Hour) }, "all runs of a came before those of b"},
		{func(r *report.Report) { r.Environment = nil }, ""},
	} {
		a, b := set("a", 0, 0, 0, 0), set("b", 1, 0, 0, 0)
		for _, r := range b.Runs {
			x.change(r)
		}
		got := Compare(a, b).Differences
		if x.want == "" && len(got) > 0 || x.want != "" && (len(got) != 1 || !strings.Contains(got[0], x.want)) {
			t.Errorf("got %q, want %q", got, x.want)
		}
	}
}

// TestStoppedIsNotFailed expects that a stopped run counts as failed only if something else is wrong.
func TestStoppedIsNotFailed(t *testing.T) {
	a, b := set("a", 0, 0, 0, 0, 0, 0), set("b", 1, 0, 0, 0, 0, 0)
	b.Runs[0].Stopped = &report.Stopped{After: 12, Of: 60, Phase: "steady"}
	b.Runs[1].Trouble, b.Runs[1].Verdict = []string{"600 results were refused"}, []string{"600 results were refused"}
	got := Compare(a, b)
	if got.Other.Failed != 1 || got.Other.Runs != 5 || !slices.Contains(got.Verdict, "1 run of b failed: 600 results were refused") || !slices.ContainsFunc(got.Differences, func(d string) bool { return strings.HasPrefix(d, "stopped differs (a: no; b: stopped after 12") }) {
		t.Errorf("%+v %q %q", got.Other, got.Verdict, got.Differences)
	}
}

// TestText compares the printed comparison with the expected one.
func TestText(t *testing.T) {
	base, worse := set("old", 0, -0.004, 0.001, 0, 0.003, -0.002), set("new", 1, 0, 0.002, -0.001, 0.004, -0.003)
	for i, r := range worse.Runs {
		r.Inside.Allocs *= 1.22
		r.BeyondLinger.P99 *= 1.4 + float64(i)/100
	}
	worse.Runs[2].Balance.Missing = 3
	c := Compare(base, worse)
	testenv.Golden(t, filepath.Join("testdata", "table.golden"), []byte(c.Text()))
	testenv.Golden(t, filepath.Join("testdata", "few.golden"), []byte(Compare(base, set("few", 1, 0.1, 0.2)).Text()))
}

// TestWithin compares runs with a baseline, and expects the figures above their limits.
func TestWithin(t *testing.T) {
	limits := []Limit{{"allocs", 0.05}, {"journal-bytes", 0.05}}
	same := set("baseline", 0, 0)
	for name, c := range map[string]struct {
		base, now Set
		want      []string
	}{
		"the same":      {same, same, nil},
		"less":          {same, set("now", 1, -0.4), nil},
		"a little more": {same, set("now", 1, 0.04), nil},
		"more":          {same, set("now", 1, 0.5), []string{"allocs (allocations of the server) grew by 50 %, from 3,000 to 4,500 per 1,000 results; 5 % are allowed", "journal-bytes (written by the journal per result) grew by 50 %, from 90.0 to 135 B; 5 % are allowed"}},
		"one of three":  {same, set("now", 1, 0.5, 0, 0), nil},
		"of three":      {set("baseline", 0, 0, 9, 0), set("now", 1, 0.5), []string{"allocs ", "journal-bytes "}},
		"not measured any more": {same, Set{Name: "now", Runs: []*report.Report{{Valid: true, Balance: &report.Balance{}}}},
			[]string{"allocs (allocations of the server) was not measured; the baseline has 3,000 per 1,000 results", "journal-bytes "}},
		"never measured": {Set{Name: "baseline", Runs: []*report.Report{{Valid: true, Balance: &report.Balance{}}}}, same,
			[]string{"allocs (allocations of the server) is not in the baseline, and was not compared", "journal-bytes "}},
	} {
		got := Within(c.base, c.now, limits)
		sentences := []string{}
		for _, r := range got.Regressed() {
			sentences = append(sentences, r.Sentence())
		}
		slices.Sort(sentences)
		if !slices.EqualFunc(sentences, c.want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", name, sentences, c.want)
		}
	}
	other := set("now", 1, 0.5)
	other.Runs[0].Machine.CPU = "another"
	text := Within(same, other, limits).Text()
	for _, want := range []string{"tiny: 0 of 2 figures that decide are within their limits\n", "+50 %", "worse, +5 % allowed", "informs", "machine.cpu differs"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
