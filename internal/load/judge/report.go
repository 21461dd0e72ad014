package judge

import (
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// Units of a report.
const (
	Value     = "value"
	Component = "component"
)

// Report is what a run shows: findings, figures, and the limits that the scenario sets.
type Report struct {
	Title    string            `json:"title"`
	At       time.Time         `json:"at"`
	Commit   string            `json:"commit"`
	Command  string            `json:"command"`
	Unit     string            `json:"unit"`     // of the figures: value or component
	Compared string            `json:"compared"` // what of the values or runs was compared
	Findings []Finding         `json:"findings"`
	Missed   []string          `json:"missed"`            // objectives
	Stopped  string            `json:"stopped,omitempty"` // reason why nothing was compared
	Figures  Figures           `json:"figures"`
	Files    map[string]string `json:"files,omitempty"`
}

// figures returns the figures that an objective can limit, by name.
func (g *Figures) byName() map[string]float64 {
	return map[string]float64{
		"held": 100 * g.Acked / max(g.Offered, 1), "rate": g.Acked, "server-cpu": g.Micros, "server-memory": float64(g.RSS) / 1e6, "connect": g.Ready,
		"p50": g.P50, "p99": g.P99, "beyond-p50": g.P50, "beyond-p99": g.P99, "serving": g.Restart, "back": g.Back, "acknowledging": g.Back,
		"holds-p99": g.Held, "apply-p99": g.Applied,
	}
}

// Hold compares the figures with the objectives of a scenario.
func (r *Report) Hold(objectives map[string]scenario.Limit) error {
	for name, limit := range objectives {
		figure, known := scenario.FigureOf(name)
		got, measured := r.Figures.byName()[name]
		if !known || !measured {
			return model.Errorf(model.Unsupported, "objective %s: a run of values does not measure it", name).WithHint("leave it out of the scenario")
		}
		most, err := limit.In(figure.Unit)
		if err != nil {
			return err
		}
		if figure.Least && got < most || !figure.Least && got > most {
			r.Missed = append(r.Missed, fmt.Sprintf("%s: %.4g %s, asked %s", figure.What, got, figure.Unit, limit))
		}
	}
	return nil
}

// Text writes the report for a terminal: the verdict first.
func (r *Report) Text() string {
	var b strings.Builder
	switch {
	case r.Stopped != "":
		fmt.Fprintf(&b, "STOPPED  nothing was compared: %s\n", r.Stopped)
	case len(r.Findings) == 0:
		fmt.Fprintf(&b, "OK     nothing is lost, doubled or wrong: %s\n", r.Compared)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "WRONG  %s: %s (%s)\n", f.Kind, number.Count(f.Count), f.Example)
	}
	for _, m := range r.Missed {
		fmt.Fprintf(&b, "MISSED %s\n", m)
	}
	g := &r.Figures
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-16s %s\n", name, fmt.Sprintf(format, args...))
	}
	item := "item"
	if r.Unit == Component {
		item = "directive"
	}
	line(item+"s", "%s on %s nodes", number.Count(g.Items), number.Count(g.Nodes))
	if s := &g.Startup; s.RSS > 0 {
		line("startup", "%.1f s, %.1f s of CPU, %s resident", s.Seconds, s.CPU, model.Size(s.RSS).Approximate())
	}
	line(r.Unit+"s", "%s/s acknowledged of %s/s offered (%d s)", number.Count(int(g.Acked)), number.Count(int(g.Offered)), g.Seconds)
	line("latency", "p50 %.0f ms, p99 %.0f ms from due to acknowledged; the generator was late by %.0f ms at most", g.P50, g.P99, g.Lag)
	line("server", "%.3f µs of CPU per %s, %.2f cores, %s resident", g.Micros, r.Unit, g.Cores, model.Size(g.RSS).Approximate())
	if g.Heap > 0 {
		line("heap", "%s, %.0f B per %s", model.Size(g.Heap).Approximate(), g.Heap/float64(g.Items), item)
	}
	line("loader", "%.2f cores; load of the machine %.1f", g.Own, g.Load)
	if g.QueryMax > 0 {
		line("queries", "p50 %.0f ms, slowest %.0f ms meanwhile", g.QueryP50, g.QueryMax)
	}
	if g.Held > 0 {
		line("change", "a directive that all nodes have: applied after %.0f ms, held by all after %.0f ms at most", g.Applied, g.Held)
	}
	if g.Restart > 0 {
		line("kill", "ready after %.1f s, all sessions back after %.1f s, latency below 1 s after %.1f s", g.Restart, g.Back, g.Caught)
	}
	return b.String()
}
