//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/compare"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/test/harness"
)

// Folders of runs are compared by the program itself, which ends with the verdict: 20 only
// for what --gate asks for, 21 for what was lost.
func TestLoadCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, change := range map[string]func(*report.Report){"old": func(*report.Report) {}, "slow": func(r *report.Report) { r.BeyondLinger.P99 *= 2 }, "lossy": func(r *report.Report) { r.Balance.Missing = 1 }} {
		for i := range compare.Enough {
			rep, err := report.Read("../bench/results/sensu-4000x40x5s.json")
			if err != nil {
				t.Fatal(err)
			}
			rep.Samples, rep.Server.MicrosPerItem = nil, rep.Server.MicrosPerItem*(1+float64(i)/100)
			change(rep)
			if err := rep.Save(filepath.Join(dir, name, fmt.Sprint(i), "run.json")); err != nil {
				t.Fatal(err)
			}
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	page := at("page.html")
	for _, x := range []struct {
		args []string
		code int
		says string // on the first line
	}{
		{[]string{at("old"), at("slow"), "--html", page}, 20, "Regression in slow: beyond-p99 +100 %"},
		{[]string{at("old"), at("slow"), "--gate", "count,relative"}, 0, "Regression in slow: beyond-p99 +100 %"},
		{[]string{at("slow"), at("old")}, 0, "No regression"},
		{[]string{at("old"), at("lossy"), "--gate", "relative"}, 21, "Regression in lossy: imbalance 0 → 1"},
		{[]string{at("old/0"), at("slow/0")}, 0, "No verdict: 1 run of "},
	} {
		ran := harness.Run(t, nil, append([]string{"load", "compare"}, x.args...)...)
		first, _, _ := strings.Cut(ran.Out, "\n")
		if ran.Code != x.code || !strings.Contains(first, x.says) || (x.code != 0) != strings.HasPrefix(ran.Errors, "muster: regression: ") {
			t.Errorf("%q ended with %d:\n%s%s", x.args, ran.Code, ran.Out, ran.Errors)
		}
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "✕</span> Regression") {
		t.Errorf("the page: %v", err)
	}
	var got struct {
		Schema      string
		Comparisons []compare.Comparison
	}
	ran := harness.Run(t, nil, "load", "compare", at("old"), at("slow"), at("lossy"), "-o", "json")
	if err := json.Unmarshal([]byte(ran.Out), &got); err != nil || ran.Code != 21 || got.Schema != "muster.load.compare/1" || len(got.Comparisons) != 2 || got.Comparisons[1].Rows[0].Figure != "imbalance" {
		t.Errorf("%v, code %d\n%s", err, ran.Code, ran.Errors)
	}
}
