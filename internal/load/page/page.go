// Package page shows the findings of a run as one HTML file. It needs no other file and asks no host for anything; its
// few lines of script show values under the pointer. Every chart has a table of the same data.
//
// Start reading at HTML; charts.go has the drawings.
package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // the template, the style and the script
	"encoding/base64"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/chart"
	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

var (
	//go:embed page.html
	source string
	//go:embed page.css
	style string
	//go:embed page.js
	script string
)

// view is the content of the template.
type view struct {
	*report.Findings
	Began    string
	Tiles    []tile
	Charts   []chart.Drawing
	Legend   []sign
	Scenario string // the file, as it was played
	Answers  string
	Files    map[string]string
	Again    string // commands
	Typed    string

	Policy string
	Style  template.CSS
	Script template.JS
}

// HTML returns the report as one HTML file. The report is not changed.
func HTML(rep *report.Report) ([]byte, error) {
	set, err := template.New("page").Funcs(template.FuncMap{"sign": signOf, "gauge": newGauge}).Parse(source)
	if err == nil {
		_, err = set.Parse(chart.Template())
	}
	if err != nil {
		return nil, fmt.Errorf("BUG: the template of the report: %w", err)
	}
	sum := sha256.Sum256([]byte(script))
	v := &view{Findings: rep.Findings(), Tiles: tiles(rep), Files: rep.Files, Again: again(rep), Typed: shell(rep.Command), Style: template.CSS(style), Script: template.JS(script),
		Policy: "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"}
	if !rep.Began.IsZero() {
		v.Began = rep.Began.UTC().Format("2 January 2006, 15:04 UTC")
	}
	if v.Charts, v.Legend = charts(rep); len(v.Charts) == 0 {
		v.Legend = nil
	}
	if rep.Scenario != nil {
		file, err := rep.Scenario.File().YAML()
		if err != nil {
			return nil, err
		}
		v.Scenario, v.Answers = string(file), rep.Scenario.Answers
	}
	var out bytes.Buffer
	if err := set.ExecuteTemplate(&out, "page", v); err != nil {
		return nil, fmt.Errorf("write the page of the report: %w", err)
	}
	return out.Bytes(), nil
}

// signOf returns the check mark or cross of a state.
func signOf(state string) string {
	return map[string]string{"passed": "✓", "reached": "✓", "failed": "✕", "missed": "✕"}[state]
}

// gauge shows the distance of a value from its limit, in percent of its length.
type gauge struct{ Got, Limit float64 }

// newGauge returns the gauge of an objective, or nil if it has no value.
func newGauge(o report.Objective) *gauge {
	if o.Limit <= 0 || o.Value < 0 || math.IsNaN(o.Value) || math.IsInf(o.Value, 0) {
		return nil
	}
	full := 1.15 * max(o.Limit, min(o.Value, 4*o.Limit))
	return &gauge{math.Round(1000*min(1, o.Value/full)) / 10, math.Round(1000*o.Limit/full) / 10}
}

// tile is one key figure.
type tile struct{ Name, Value, Unit, Note string }

// tiles returns the key figures that the run measured.
func tiles(rep *report.Report) (list []tile) {
	figures, alone := rep.Figures(), rep.InUnit("result") != "result"
	done, beyond, linger := "Acknowledged", "Beyond linger", "the linger is "+number.Bare(number.Millis(rep.Plan.Linger))
	if rep.Asked() {
		done = "Left"
	}
	if alone {
		beyond, linger = "Latency", "to the acknowledgement"
	}
	_, _, offered := rep.Offered()
	for _, t := range [...]struct{ figure, name, note string }{
		{"rate", done, "of " + number.Count(offered) + " offered"}, {"beyond-p50", beyond + " p50", linger}, {"beyond-p99", beyond + " p99", linger}, {"server-cpu", "Server CPU", "per result"},
		{"agent-memory", "Memory per agent", "on the server, before any result"}, {"state-memory", "Memory per state", "of " + number.Count(rep.States) + " event states"}, {"back", "All back", "after the longest outage"},
	} {
		if v, ok := figures[t.figure]; ok {
			f, _ := scenario.FigureOf(t.figure)
			value, unit, _ := strings.Cut(number.In(v, f.Unit), " ")
			if t.figure == "rate" {
				unit = "/s"
			}
			list = append(list, tile{t.name, value, unit, rep.InUnit(t.note)})
		}
	}
	if alone {
		return append(list, tile{"Lost or wrong", number.Count(rep.Wrong().Of(report.WrongSignals)), "", "of " + number.Count(rep.Balance.Acknowledged) + " acknowledged"})
	}
	return append(list, tile{"Lost", number.Count(rep.Balance.Missing), "", "of " + number.Count(rep.Balance.Sent) + " sent"})
}

// again returns the commands that repeat the run, by the file of the played scenario, because a scenario's name would
// be scaled again.
func again(rep *report.Report) string {
	text := ""
	if rep.Commit != "" {
		text = fmt.Sprintf("git checkout %s\nmake build\n", shell([]string{rep.Commit}))
	}
	words := rep.Command
	if sc := rep.Scenario; sc != nil {
		program := "muster"
		if len(words) > 0 {
			program = words[0]
		}
		words = []string{program, "load", "run", cmp.Or(sc.Name, "scenario") + "-played.yaml", "--seed", strconv.FormatUint(sc.Seed, 10)}
	}
	return text + shell(words)
}

// shell quotes words for a shell.
func shell(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if quoted[i] = w; w == "" || strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-") != "" {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
