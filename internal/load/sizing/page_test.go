package sizing

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/testenv"
)

//go:generate go test . -run TestPageIsUpToDate -update

// TestPageIsUpToDate compares docs/sizing.md with the text from the reports.
func TestPageIsUpToDate(t *testing.T) {
	const name = "muster-sizing"
	sizes := []int{1000, 4000, 10_000}
	read := func(name string) (*report.Report, error) {
		return report.Read(filepath.Join("../../../bench/results", name+".json"))
	}
	shape, err := scenario.Load(name)
	testenv.NoError(t, err)
	var rows []usage
	for _, agents := range sizes {
		rep, err := read(fmt.Sprint("sizing-", agents))
		testenv.NoError(t, err)
		rows = append(rows, usageOf(rep, 0))
	}
	first, last := rows[0], rows[len(rows)-1]
	functions := template.FuncMap{
		"run":  read,
		"link": func(name string) string { return fmt.Sprintf("[%s](../bench/results/%s.json)", name, name) },
		"count": func(v any) string {
			f, _ := strconv.ParseFloat(fmt.Sprint(v), 64) // of numbers alone
			return number.Count(f)
		},
		"three":   number.Three,
		"bytes":   number.Bytes,
		"per":     func(part int64, of uint64) float64 { return float64(part) / float64(max(1, of)) },
		"usage":   func(rep *report.Report) map[string]float64 { return usageOf(rep, 0).byName() },
		"machine": machine,
		"scale":   func(agents, nodes int) string { return number.Round(float64(agents)/float64(nodes), 3) },
		"rule": func(figure string) []float64 { // a straight line through the smallest and the largest size
			a, b := first.byName()[figure], last.byName()[figure]
			each := (b - a) / (last.agents - first.agents) * 1000
			return []float64{max(0, a-each*first.agents/1000), max(0, each), max(0, each) * last.agents / last.results}
		},
	}
	var b strings.Builder
	page := template.Must(template.New("sizing.md.tmpl").Funcs(functions).ParseFiles("sizing.md.tmpl"))
	testenv.NoError(t, page.Execute(&b, map[string]any{"Scenario": name, "Sizes": sizes, "Shape": describe(shape), "Nodes": shape.Nodes("")}))
	testenv.Golden(t, "../../../docs/sizing.md", b.String())
}

// byName returns the figures by name.
func (u usage) byName() map[string]float64 {
	return map[string]float64{"results": u.results, "cores": u.cores, "memory": u.memory, "written": u.written, "syncs": u.syncs, "in": u.in, "out": u.out, "p99": u.p99}
}

// describe names the checks of the shape.
func describe(shape *scenario.Scenario) string {
	c := &shape.Agents[0]
	var intervals, parts []string
	checks := map[string]int{}
	for _, k := range shape.Held(c) {
		interval := k.Interval.String()
		if !slices.Contains(intervals, interval) {
			intervals = append(intervals, interval)
		}
		checks[interval] += max(1, k.Count)
	}
	for _, interval := range intervals {
		parts = append(parts, fmt.Sprintf("%d checks every %s", checks[interval], interval))
	}
	return fmt.Sprintf("mutual TLS, %s with outputs of real plug-ins, and %s of the machines reconnect every minute", strings.Join(parts, " and "), number.Percent(60*c.Churn.Reconnects.PerSecond(1)))
}

// machine names the machine of a run.
func machine(rep *report.Report) string {
	text := fmt.Sprintf("%d cores of %s, %s of memory, Linux %s, at commit %.10s", rep.Machine.Cores, rep.Machine.CPU, number.Bytes(float64(rep.Machine.Memory)), rep.Machine.Kernel, rep.Commit)
	if e := rep.Environment; e != nil && e.Fsync.P99 > 0 {
		text += fmt.Sprintf("; an fsync takes %s (p99 %s)", number.Millis(e.Fsync.P50), number.Millis(e.Fsync.P99))
	}
	return text
}
