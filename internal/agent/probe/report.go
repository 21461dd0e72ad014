package probe

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// report collects the findings of a probe and prints them like a plug-in: the worst ones with the
// performance data on the first line, then all, one a line.
type report struct {
	name   string
	status model.Status
	lines  []line
	perf   []byte
}

type line struct {
	status model.Status
	text   string
}

// badness orders statuses from well to bad.
var badness = [...]model.Status{model.OK, model.Unknown, model.Warning, model.Critical}

// worse returns the worse one of two statuses.
func worse(a, b model.Status) model.Status {
	return badness[max(slices.Index(badness[:], a), slices.Index(badness[:], b))]
}

// add adds a finding.
func (r *report) add(status model.Status, format string, a ...any) {
	r.status = worse(r.status, status)
	r.lines = append(r.lines, line{status, strings.ReplaceAll(fmt.Sprintf(format, a...), "|", "/")})
}

// measure adds perfdata. A bound that is unknown is NaN.
func (r *report) measure(label string, value float64, unit string, l levels, low, high float64) {
	if len(r.perf) > 0 {
		r.perf = append(r.perf, ' ')
	}
	r.perf = model.Perfdatum{Label: label, Value: value, Unit: unit, Warn: l.warn, Crit: l.crit, Min: low, Max: high}.Append(r.perf)
}

// text returns the status and the output of the probe.
func (r *report) text() (model.Status, []byte) {
	var b strings.Builder
	b.WriteString(strings.ToUpper(r.name) + " " + r.status.String() + " - ")
	var head []string
	for _, l := range r.lines {
		if l.status == r.status {
			head = append(head, l.text)
		}
	}
	switch {
	case r.status == model.OK && len(head) > 3:
		head = []string{fmt.Sprintf("all %d are OK", len(head))}
	case len(head) > 5:
		head = append(head[:5:5], fmt.Sprintf("and %d more", len(head)-5))
	}
	b.WriteString(strings.ReplaceAll(strings.Join(head, "; "), "\n", " "))
	if len(r.perf) > 0 {
		b.WriteString(" | ")
		b.Write(r.perf)
	}
	if len(r.lines) > 1 {
		for _, l := range r.lines {
			b.WriteString("\n" + l.status.String() + " " + l.text)
		}
	}
	return r.status, []byte(b.String())
}

// levels are the thresholds of one value; nil: none.
type levels struct{ warn, crit *model.Range }

func (l levels) status(v float64) model.Status {
	return statusIf(l.crit != nil && l.crit.Violates(v), l.warn != nil && l.warn.Violates(v))
}

// freeLevels are the thresholds of the amount that is free.
type freeLevels struct{ warn, crit free }

func (l freeLevels) status(avail, total float64) model.Status {
	return statusIf(l.crit.exceeds(avail, total), l.warn.exceeds(avail, total))
}

// usedLevels returns the thresholds of the used amount, for performance data.
func (l freeLevels) usedLevels(total float64) levels {
	return levels{l.warn.usedAt(total), l.crit.usedAt(total)}
}

// statusIf returns the status of a value that exceeds its thresholds or not.
func statusIf(critical, warning bool) model.Status {
	switch {
	case critical:
		return model.Critical
	case warning:
		return model.Warning
	}
	return model.OK
}

func atMost(v float64) *model.Range    { return &model.Range{End: v} }
func atLeast(v float64) *model.Range   { return &model.Range{Start: v, End: math.Inf(1)} }
func symmetric(v float64) *model.Range { return &model.Range{Start: -v, End: v} }

// noBound returns the bound of performance data that has none.
func noBound() float64 { return math.NaN() }

// bytesText writes a size in bytes for people.
func bytesText(v float64) string { return model.Size(v).Approximate() }

// ageText writes a duration for people.
func ageText(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + ageText(-d)
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.0f days", math.Round(d.Hours()/24))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.0f hours", math.Round(d.Hours()))
	case d >= 2*time.Minute:
		return fmt.Sprintf("%.0f minutes", math.Round(d.Minutes()))
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d)/1e6)
}

// Markdown writes docs/probes.md.
func Markdown() []byte {
	var b bytes.Buffer
	b.WriteString(`# Probes

*Made from the probes' own descriptions; do not edit.*

A probe is a check that is built into the agent: nothing to install, no process to
start. A check names one instead of a command:

` + "```yaml" + `
kind: Check
metadata: {name: disk}
spec:
  interval: 60s
  probe: {name: disk, args: {warn: "15%", crit: "5%"}}
` + "```" + `

Arguments are strings and may hold ` + "`{{ .props.name | default \"…\" }}`" + `. Thresholds of
disk, memory and swap are what must stay free, as a share or an amount; all others are
what must not be exceeded. ` + "`muster-agent --probe disk warn=15%`" + ` tries one by hand.
Probes know Linux; where another system lacks what they read they are UNKNOWN and say so.
`)
	for _, p := range All() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| argument | type | default | meaning |\n|---|---|---|---|\n", p.Name, p.Summary)
		for _, a := range p.Args {
			value := "–"
			switch {
			case a.Must:
				value = "required"
			case a.Default != "":
				value = "`" + a.Default + "`"
			}
			help := a.Help
			if a.Unit != "" {
				help += " (" + a.Unit + ")"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", a.Name, a.Type, value, strings.ReplaceAll(help, "|", `\|`))
		}
	}
	return b.Bytes()
}

const (
	sampleEvery = 10 * time.Minute
	sampleCount = 144       // samples of one day
	minTrend    = time.Hour // shorter trends are not extrapolated
)

// Memory is the state of one check between its runs, until the agent stops. The zero value is ready.
type Memory struct {
	mu      sync.Mutex
	trends  map[string]*trend
	hanging map[string]bool
	counted map[string]uint64
}

// lock locks the memory and returns the function that unlocks it.
func (m *Memory) lock() (unlock func()) {
	m.mu.Lock()
	if m.trends == nil {
		m.trends, m.hanging, m.counted = map[string]*trend{}, map[string]bool{}, map[string]uint64{}
	}
	return m.mu.Unlock
}

// counterGrowth returns the growth of a counter since the last call.
func (m *Memory) counterGrowth(counter string, now uint64) uint64 {
	defer m.lock()()
	before := m.counted[counter]
	m.counted[counter] = now
	return now - before
}

// trend has samples of a free amount, ascending by time.
type trend struct {
	at   []time.Duration // of each sample, since zero
	left []float64       // the amount of each sample
	zero time.Time       // of the first sample
}

// daysUntilNone adds a sample of the free amount and extrapolates the days until none is left, from the
// slope over at most a day. ok is false in the first hour, and where the amount does not shrink.
func (m *Memory) daysUntilNone(key string, now time.Time, left float64) (days float64, ok bool) {
	defer m.lock()()
	t := m.trends[key]
	if t == nil {
		t = &trend{zero: now}
		m.trends[key] = t
	}
	at := now.Sub(t.zero)
	if n := len(t.at); n > 0 && at < t.at[n-1] {
		*t = trend{zero: now} // the clock was set back
		at = 0
	}
	if n := len(t.at); n == 0 || at-t.at[n-1] >= sampleEvery {
		if n == sampleCount {
			t.at, t.left = slices.Delete(t.at, 0, 1), slices.Delete(t.left, 0, 1)
		}
		t.at, t.left = append(t.at, at), append(t.left, left)
	}
	if at-t.at[0] < minTrend {
		return 0, false
	}
	// Least squares over the samples and now.
	var n, sx, sy, sxx, sxy float64
	add := func(x, y float64) { n++; sx += x; sy += y; sxx += x * x; sxy += x * y }
	for i := range t.at {
		add(t.at[i].Hours()/24, t.left[i])
	}
	add(at.Hours()/24, left)
	perDay := (n*sxy - sx*sy) / (n*sxx - sx*sx)
	if !(perDay < 0) {
		return 0, false
	}
	return left / -perDay, true
}

// startCall marks a call that may hang; false: an earlier one still hangs.
func (m *Memory) startCall(what string) bool {
	defer m.lock()()
	if m.hanging[what] {
		return false
	}
	m.hanging[what] = true
	return true
}

// endCall ends a call of startCall.
func (m *Memory) endCall(what string) {
	defer m.lock()()
	delete(m.hanging, what)
}
