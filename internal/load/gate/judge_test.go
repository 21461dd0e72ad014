package gate

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// cost returns the report of a run with these allocations and journal bytes per result.
func cost(allocs, journal float64) *report.Report {
	return &report.Report{Schema: report.Schema, Valid: true, Balance: &report.Balance{}, Traffic: report.Traffic{Results: 1000, Rate: 100},
		Cost: report.Cost{Inside: &report.Inside{Allocs: allocs, AllocBytes: 170, WireBytes: 118, JournalBytes: journal}}}
}

// runs returns its arguments as a list.
func runs(list ...*report.Report) []*report.Report { return list }

// TestJudge compares runs with a baseline, and expects the figures above their limits.
func TestJudge(t *testing.T) {
	base := runs(cost(2, 80))
	for name, c := range map[string]struct {
		base, runs []*report.Report
		want       []string
	}{
		"the same":            {base, base, nil},
		"less":                {base, runs(cost(1, 40)), nil},
		"a little more":       {base, runs(cost(2.01, 80.5)), nil},
		"an allocation more":  {base, runs(cost(3, 80)), []string{"allocs (allocations of the server) grew by 50 %, from 2000 to 3000 per 1,000 results; "}},
		"both":                {base, runs(cost(3, 100)), []string{"allocs ", "journal-bytes (written by the journal per result) grew by 25 %, from 80 to 100 B; "}},
		"one of three":        {base, runs(cost(3, 80), cost(2, 80), cost(2, 80)), nil},
		"two of three":        {base, runs(cost(3, 80), cost(2, 80), cost(3, 80)), []string{"allocs "}},
		"a baseline of three": {runs(cost(2, 80), cost(9, 80), cost(2, 80)), runs(cost(3, 80)), []string{"allocs "}},
		"not measured any more": {base, runs(&report.Report{Balance: &report.Balance{}}),
			[]string{"allocs ", "alloc-bytes ", "wire-bytes ", "journal-bytes (written by the journal per result) was not measured; the baseline has 80 B"}},
		"never measured": {runs(&report.Report{Balance: &report.Balance{}}), base, nil},
	} {
		got := Judge(c.base, c.runs)
		all := map[string]bool{}
		for _, e := range got {
			all[e.String()] = true
		}
		for _, want := range c.want {
			found := false
			for s := range all {
				found = found || strings.HasPrefix(s, want)
			}
			if !found {
				t.Errorf("%s: no %q in %v", name, want, got)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %d", name, got, len(c.want))
		}
	}
}

// TestLimits expects that every limit is of a known figure that does not depend on the speed of the machine.
func TestLimits(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range Limits() {
		f, ok := scenario.FigureOf(l.Figure)
		if !ok || f.Kind == scenario.Absolute || f.Least || seen[l.Figure] || l.Share <= 0 || l.Share > 0.5 {
			t.Errorf("%+v of %+v", l, f)
		}
		seen[l.Figure] = true
	}
	if len(seen) < 5 {
		t.Errorf("only %v decide", seen)
	}
}

// TestText expects one line per figure, with the spread of several runs.
func TestText(t *testing.T) {
	text := Text(runs(cost(2, 80)), runs(cost(3, 80), cost(3.3, 80), cost(3, 80)))
	lines := strings.Split(text, "\n")
	find := func(figure string) string {
		for _, l := range lines {
			if strings.HasPrefix(l, "  "+figure+" ") {
				return strings.Join(strings.Fields(l), " ")
			}
		}
		return ""
	}
	if got := find("allocs"); !strings.HasPrefix(got, "allocs 2000 3000 ± 5 % +50.0 % +") || !strings.HasSuffix(got, "allocations of the server, per 1,000 results") {
		t.Errorf("%q in\n%s", got, text)
	}
	if got := find("rate"); got != "rate 100 100 ± 0 % +0.0 % informs acknowledged, results/s" {
		t.Errorf("%q in\n%s", got, text)
	}
	if find("fsyncs") != "" {
		t.Errorf("nobody measured fsyncs:\n%s", text)
	}
	measured := cost(2, 80)
	measured.Calls = &report.Calls{Reads: 300}
	text = Text(runs(cost(2, 80)), runs(measured))
	lines = strings.Split(text, "\n")
	if got := find("reads"); !strings.HasPrefix(got, "reads – 3000 – not in the baseline read calls") {
		t.Errorf("%q in\n%s", got, text)
	}
	measured.Machine.CPU = "b"
	if text = Text(runs(cost(2, 80)), runs(measured)); !strings.Contains(text, "  the baseline is of another processor (, this is b): times differ") || !strings.HasSuffix(text, "  4 of 4 figures that decide are within their limits\n") {
		t.Error(text)
	}
	if wide := Wide(runs(cost(2, 80), cost(3, 80))); len(wide) != 1 || !strings.HasPrefix(wide[0], "allocs: the runs are 40 % apart, and ") {
		t.Errorf("%q", wide)
	}
}
