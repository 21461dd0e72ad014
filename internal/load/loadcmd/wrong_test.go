package loadcmd

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/page"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/sizing"
)

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
			if err != nil {
				t.Fatal(err)
			}
			c.change(rep)
			rep.Verdict = rep.Wrong().Sentences()
			file := filepath.Join(t.TempDir(), "run.json")
			if err := rep.Save(file); err != nil {
				t.Fatal(err)
			}
			read, err := report.Read(file)
			if err != nil {
				t.Fatal(err)
			}
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
			var html strings.Builder
			if err := page.Write(&html, read); err != nil || !strings.Contains(html.String(), "<title>Failed: ") || !strings.Contains(html.String(), "1 of ") {
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
