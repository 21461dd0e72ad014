package loadcmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/compare"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

const results = "../../../bench/results"

// runs writes a folder of reports like a kept one, each with a change.
func runs(t *testing.T, name string, change func(i int, r *report.Report)) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	for i := range compare.Enough {
		rep, err := report.Read(filepath.Join(results, "sensu-4000x40x5s.json"))
		if err != nil {
			t.Fatal(err)
		}
		rep.Samples = nil
		change(i, rep)
		if err := rep.Save(filepath.Join(dir, fmt.Sprint(i), "run.json")); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestCompareResultsWithThemselves compares bench/results with itself, and expects no difference.
func TestCompareResultsWithThemselves(t *testing.T) {
	text, err := loadCommand(t, "", "compare", results, results, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
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

// TestCompareSaysWhatItWants expects errors that name wrong arguments.
func TestCompareSaysWhatItWants(t *testing.T) {
	empty := t.TempDir()
	broken := filepath.Join(t.TempDir(), "run.json")
	if err := os.WriteFile(broken, []byte(`{"schema": "other/1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	rate := filepath.Join(results, "rate-16k.json")
	for _, x := range []struct {
		args  []string
		class model.Class
		says  string
	}{
		{[]string{rate}, model.Invalid, "needs two runs or more, the base first, and has 1"},
		{[]string{rate, "missing"}, model.NotFound, "there is no missing"},
		{[]string{rate, empty}, model.NotFound, "there is no run in " + empty},
		{[]string{rate, broken}, model.Invalid, "is not a report of muster.load/1"},
		{[]string{rate, rate, "--gate", "counts"}, model.Invalid, `--gate "counts": want count, relative, absolute`},
	} {
		_, err := loadCommand(t, "", append([]string{"compare"}, x.args...)...)
		if model.ClassOf(err) != x.class || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%q: %v", x.args, err)
		}
	}
}
