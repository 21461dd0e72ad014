package loadcmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/compare"
	"github.com/muster-fleet/muster/internal/load/page"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/sizing"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

const results = "../../../bench/results"

// runs writes a folder of reports like a kept one, each with a change.
func runs(t *testing.T, name string, change func(i int, r *report.Report)) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	for i := range compare.Enough {
		rep, err := report.Read(filepath.Join(results, "sensu-4000x40x5s.json"))
		testenv.NoError(t, err)
		rep.Samples = nil
		change(i, rep)
		testenv.NoError(t, rep.Save(filepath.Join(dir, fmt.Sprint(i), "run.json")))
	}
	return dir
}

// TestCompareResultsWithThemselves compares bench/results with itself, and expects no difference.
func TestCompareResultsWithThemselves(t *testing.T) {
	text, err := loadCommand(t, "", "compare", results, results, "-o", "json")
	testenv.NoError(t, err)
	var got struct {
		Schema      string
		Comparisons []compare.Comparison
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.Schema != compareSchema {
		t.Fatalf("%v %q", err, got.Schema)
	}
	files, _ := filepath.Glob(filepath.Join(results, "*.json"))
	if len(got.Comparisons) != len(files) || len(files) < 10 {
		t.Errorf("%d comparisons of %d files", len(got.Comparisons), len(files))
	}
	for _, c := range got.Comparisons {
		c.Differences = slices.DeleteFunc(c.Differences, func(d string) bool { return strings.HasPrefix(d, "other programs used the machine") }) // as it was
		if len(c.Rows) < 15 || !strings.Contains(c.Verdict[0], "No verdict: 1 run") || len(c.Differences) > 0 {
			t.Errorf("%s: %d rows, %q, %q", c.Scenario, len(c.Rows), c.Verdict, c.Differences)
		}
	}
}

// TestCompareEndsWithItsVerdict compares runs, and expects the exit code of a regression.
func TestCompareEndsWithItsVerdict(t *testing.T) {
	old := runs(t, "old", func(i int, r *report.Report) { r.Inside.Allocs += float64(i) / 1000 })
	slow := runs(t, "slow", func(i int, r *report.Report) { r.Inside.Allocs += float64(i) / 1000; r.BeyondLinger.P99 *= 2 })
	greedy := runs(t, "greedy", func(_ int, r *report.Report) { r.Inside.Allocs *= 1.5 })
	loses := runs(t, "loses", func(i int, r *report.Report) {
		if i == 3 {
			r.Balance.Missing = 1
		}
	})
	late := runs(t, "late", func(_ int, r *report.Report) { r.Valid = false })
	for _, x := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{old, late}, model.Limited.Exit(), "Nothing to compare"},
		{[]string{old, old}, 0, "No regression: none of "},
		{[]string{old, slow}, exitMissed, "Regression in slow: beyond-p99 +100 %; 1 of "},
		{[]string{old, slow, "--gate", "count,relative"}, 0, "Regression in slow: beyond-p99"},
		{[]string{old, greedy, "--gate", "count"}, exitMissed, "Regression in greedy: allocs +50 %"},
		{[]string{greedy, old}, 0, "Better: allocs -33 %"},
		{[]string{old, loses, "--gate", "relative"}, exitLost, "Regression in loses: imbalance 0 → 1"},
		{[]string{old, slow, loses}, exitLost, "Regression in slow: beyond-p99 +100 %"},
		{[]string{loses, old}, 0, "imbalance"},
		{[]string{old, slow, greedy}, exitMissed, "Regression in greedy"},
		{[]string{old, results}, 0, "5 runs of old beside 1 run of results"},
		{[]string{filepath.Join(old, "0"), filepath.Join(slow, "0", "run.json")}, 0, "No verdict: 1 run of "},
	} {
		text, err := loadCommand(t, "", append([]string{"compare"}, x.args...)...)
		code := 0
		if coded := (*failed)(nil); errors.As(err, &coded) {
			code = coded.ExitCode()
		} else if err != nil {
			t.Errorf("%q: %v", x.args, err)
		}
		if code != x.code || !strings.Contains(text, x.says) {
			t.Errorf("%q ended with %d (%v), want %d, and said, without %q:\n%s", x.args, code, err, x.code, x.says, text)
		}
	}
}

// TestWhateverIsWrongIsWrongEverywhere expects each kind of wrong result in the verdict, the comparison, the size, the
// page and the table, also after the report was saved and read.
func TestWhateverIsWrongIsWrongEverywhere(t *testing.T) {
	base := runs(t, "base", func(int, *report.Report) {})
	var kinds []string
	for name, c := range map[string]struct {
		change func(*report.Report)
		kind   string
	}{
		"missing":         {func(r *report.Report) { r.Balance.Missing = 1 }, report.WrongResults},
		"imbalance":       {func(r *report.Report) { r.Balance.Imbalances = 1 }, report.WrongResults},
		"taken":           {func(r *report.Report) { r.WrongSent, r.WrongTaken = 9, 1 }, report.WrongTaken},
		"alert missing":   {func(r *report.Report) { r.Faults = []report.Struck{{Alerts: 9, Missing: 1}} }, report.WrongAlerts},
		"alert too many":  {func(r *report.Report) { r.Faults = []report.Struck{{Alerts: 9, Extra: 1}} }, report.WrongAlerts},
		"called silent":   {func(r *report.Report) { r.Silent = &report.Silent{Machines: 9, Extra: 1} }, report.WrongSilence},
		"no message":      {func(r *report.Report) { r.Notifications = &report.Notifications{Due: 9, Missing: 1} }, report.WrongMessages},
		"message":         {func(r *report.Report) { r.Notifications = &report.Notifications{Due: 9, Extra: 1} }, report.WrongMessages},
		"no line":         {func(r *report.Report) { r.Streamed = &report.Streamed{Lines: 8, Missing: 1} }, report.WrongLines},
		"line unread":     {func(r *report.Report) { r.Streamed = &report.Streamed{Lines: 9, Unread: 1} }, report.WrongLines},
		"line extra":      {func(r *report.Report) { r.Streamed = &report.Streamed{Lines: 9, Extra: 1} }, report.WrongLines},
		"line of another": {func(r *report.Report) { r.Streamed = &report.Streamed{Lines: 9, Other: 1} }, report.WrongLines},
		"line disordered": {func(r *report.Report) { r.Streamed = &report.Streamed{Lines: 9, Disorder: 1} }, report.WrongLines},
		"turn":            {func(r *report.Report) { r.Turns = &report.Turned{Due: 9, Ran: 8, Missed: 1} }, report.WrongTurns},
		"value lost": {func(r *report.Report) {
			r.Signals = &report.Signals{Unit: report.Value, Items: 9, Compared: "all", Findings: []report.Finding{{Kind: "values lost", Count: 1, Example: "node 1"}}}
		}, report.WrongSignals},
		"turn twice": {func(r *report.Report) { r.Turns = &report.Turned{Due: 9, Ran: 9, Twice: 1} }, report.WrongTurns},
	} {
		kinds = append(kinds, c.kind)
		t.Run(name, func(t *testing.T) {
			rep, err := report.Read(filepath.Join(results, "sensu-4000x40x5s.json"))
			testenv.NoError(t, err)
			c.change(rep)
			rep.Verdict = rep.Wrong().Sentences()
			file := filepath.Join(t.TempDir(), "run.json")
			testenv.NoError(t, rep.Save(file))
			read, err := report.Read(file)
			testenv.NoError(t, err)
			for _, r := range []*report.Report{rep, read} {
				if wrong := r.Wrong(); len(wrong) != 1 || wrong[0].Kind != c.kind || wrong.Of(c.kind) != 1 || r.OK() || !r.Lost() {
					t.Errorf("%+v, OK %t, lost %t", wrong, r.OK(), r.Lost())
				}
				if err, _ := verdict(r).(*failed); err == nil || err.code != exitLost {
					t.Errorf("verdict %v", err)
				}
				tries := []sizing.Try{{Factor: 1, Report: r}}
				if text := sizing.Text(tries); !strings.Contains(text, strings.TrimSuffix(r.Wrong()[0].Says[0], ".")) || tries[0].Carried() {
					t.Errorf("size: %s", text)
				}
			}
			html, err := page.HTML(read)
			if text := string(html); err != nil || !strings.Contains(text, "<title>Failed: ") || !strings.Contains(text, "1 of ") {
				t.Errorf("%v, the page does not say it", err)
			}
			if text, err := report.Markdown([]string{file}); err != nil || !strings.Contains(text, " wrong | **missed** |") {
				t.Errorf("%v\n%s", err, text)
			}
			other := runs(t, "other", func(i int, r *report.Report) {
				if i == 1 {
					c.change(r)
				}
			})
			_, err = loadCommand(t, "", "compare", base, other)
			var bad *failed
			if !errors.As(err, &bad) || bad.code != exitLost {
				t.Errorf("compare: %v", err)
			}
		})
	}
	slices.Sort(kinds)
	if want := slices.Sorted(slices.Values(report.WrongKinds())); !slices.Equal(slices.Compact(kinds), want) {
		t.Errorf("tried %v of %v", kinds, want)
	}
}
