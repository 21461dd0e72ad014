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

// report collects the lines and performance data that a probe prints, in the format of Monitoring Plugins.
type report struct {
	name     string
	status   model.Status
	findings []reportLine
	perf     []byte
}

// reportLine is one line of a probe's report, with a status and a text.
type reportLine struct {
	status model.Status
	text   string
}

// statusOrder lists the statuses from the best to the worst.
var statusOrder = [...]model.Status{model.OK, model.Unknown, model.Warning, model.Critical}

// worseStatus returns the worse of two statuses.
func worseStatus(a, b model.Status) model.Status {
	return statusOrder[max(slices.Index(statusOrder[:], a), slices.Index(statusOrder[:], b))]
}

// addFinding adds one line with a status to the report.
func (r *report) addFinding(status model.Status, format string, a ...any) {
	r.status = worseStatus(r.status, status)
	r.findings = append(r.findings, reportLine{status, strings.ReplaceAll(fmt.Sprintf(format, a...), "|", "/")})
}

// addPerformanceData adds one value to the report's performance data (the numbers after the vertical bar). An unknown
// bound is NaN.
func (r *report) addPerformanceData(label string, value float64, unit string, l thresholds, low, high float64) {
	if len(r.perf) > 0 {
		r.perf = append(r.perf, ' ')
	}
	r.perf = model.Perfdatum{Label: label, Value: value, Unit: unit, Warn: l.warn, Crit: l.crit, Min: low, Max: high}.Append(r.perf)
}

// statusAndOutput returns the worst status of all findings, and the output of the probe.
func (r *report) statusAndOutput() (model.Status, []byte) {
	var b strings.Builder
	b.WriteString(strings.ToUpper(r.name) + " " + r.status.String() + " - ")
	var head []string
	for _, l := range r.findings {
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
	if len(r.findings) > 1 {
		for _, l := range r.findings {
			b.WriteString("\n" + l.status.String() + " " + l.text)
		}
	}
	return r.status, []byte(b.String())
}

// thresholds holds the warning and critical ranges of one measured value. A nil range is not checked.
type thresholds struct{ warn, crit *model.Range }

// status returns OK, WARNING or CRITICAL for a value.
func (l thresholds) status(v float64) model.Status {
	return statusOfExceeded(l.crit != nil && l.crit.Violates(v), l.warn != nil && l.warn.Violates(v))
}

// freeThresholds has the warning and critical thresholds for a free amount, such as free disk space.
type freeThresholds struct{ warn, crit freeThreshold }

// status returns OK, WARNING or CRITICAL for a free amount.
func (l freeThresholds) status(avail, total float64) model.Status {
	return statusOfExceeded(l.crit.exceededBy(avail, total), l.warn.exceededBy(avail, total))
}

// usedThresholds converts the thresholds to ranges of the used amount, for performance data.
func (l freeThresholds) usedThresholds(total float64) thresholds {
	return thresholds{l.warn.usedRange(total), l.crit.usedRange(total)}
}

// statusOfExceeded returns CRITICAL if the critical threshold is exceeded, WARNING if only the warning threshold is,
// else OK.
func statusOfExceeded(critical, warning bool) model.Status {
	switch {
	case critical:
		return model.Critical
	case warning:
		return model.Warning
	}
	return model.OK
}

// rangeAtMost returns the range of values from 0 to v, for a threshold.
func rangeAtMost(v float64) *model.Range { return &model.Range{End: v} }

// rangeAtLeast returns the range of all values of at least v, for a threshold.
func rangeAtLeast(v float64) *model.Range { return &model.Range{Start: v, End: math.Inf(1)} }

// rangeAround returns the range of values from -v to v, for a threshold.
func rangeAround(v float64) *model.Range { return &model.Range{Start: -v, End: v} }

// noBound returns NaN, for a missing minimum or maximum in performance data.
func noBound() float64 { return math.NaN() }

// bytesText formats a size in bytes for people, such as 1.0 MiB.
func bytesText(v float64) string { return model.Size(v).Approximate() }

// ageText formats a duration for people, such as 60 minutes.
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

// ReferencePage returns the text of the reference page of all probes, docs/reference/probes.md.
func ReferencePage() []byte {
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
	for i, p := range All() {
		if i > 0 {
			b.WriteString(" · ")
		}
		fmt.Fprintf(&b, "[%s](#%s)", p.Name, p.Name)
	}
	b.WriteString("\n")
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

// SavedState has the values that a probe saves between the runs of one check. Such a value is the previous
// counter for a rate. The zero value is ready.
type SavedState struct {
	mu            sync.Mutex
	trends        map[string]*freeSamples
	hangingMounts map[string]bool
	counters      map[string]uint64
}

// lock locks the saved state of a probe, and returns the function that unlocks the state.
func (m *SavedState) lock() (unlock func()) {
	m.mu.Lock()
	if m.trends == nil {
		m.trends, m.hangingMounts, m.counters = map[string]*freeSamples{}, map[string]bool{}, map[string]uint64{}
	}
	return m.mu.Unlock
}

// counterGrowth returns the growth of a counter since the previous run of the check.
func (m *SavedState) counterGrowth(counter string, now uint64) uint64 {
	defer m.lock()()
	before := m.counters[counter]
	m.counters[counter] = now
	return now - before
}

// freeSamples has samples of a free amount over time, such as free disk space. The probe extrapolates them to
// the time at which nothing is free.
type freeSamples struct {
	sampleTimes []time.Duration // of each sample, since the time zero
	freeAmounts []float64       // the amount of each sample
	zero        time.Time       // of the first sample
}

// daysUntilUsedUp adds a sample of a free amount, and predicts the days until nothing is left. The amount is for
// example disk space. ok is false in the first hour, and where the amount does not shrink.
func (m *SavedState) daysUntilUsedUp(key string, now time.Time, left float64) (days float64, ok bool) {
	defer m.lock()()
	t := m.trends[key]
	if t == nil {
		t = &freeSamples{zero: now}
		m.trends[key] = t
	}
	at := now.Sub(t.zero)
	if n := len(t.sampleTimes); n > 0 && at < t.sampleTimes[n-1] {
		*t = freeSamples{zero: now} // the clock was set back
		at = 0
	}
	if n := len(t.sampleTimes); n == 0 || at-t.sampleTimes[n-1] >= sampleEvery {
		if n == sampleCount {
			t.sampleTimes, t.freeAmounts = slices.Delete(t.sampleTimes, 0, 1), slices.Delete(t.freeAmounts, 0, 1)
		}
		t.sampleTimes, t.freeAmounts = append(t.sampleTimes, at), append(t.freeAmounts, left)
	}
	if at-t.sampleTimes[0] < minTrend {
		return 0, false
	}
	// Least squares over the samples and now.
	var n, sx, sy, sxx, sxy float64
	add := func(x, y float64) { n++; sx += x; sy += y; sxx += x * x; sxy += x * y }
	for i := range t.sampleTimes {
		add(t.sampleTimes[i].Hours()/24, t.freeAmounts[i])
	}
	add(at.Hours()/24, left)
	perDay := (n*sxy - sx*sy) / (n*sxx - sx*sx)
	if !(perDay < 0) {
		return 0, false
	}
	return left / -perDay, true
}

// markCallStarted records the start of a system call that may hang. Such a call is statfs on a dead NFS mount. It
// returns false while an earlier call of the same kind hangs.
func (m *SavedState) markCallStarted(what string) bool {
	defer m.lock()()
	if m.hangingMounts[what] {
		return false
	}
	m.hangingMounts[what] = true
	return true
}

// markCallEnded records that a system call has returned, after markCallStarted recorded its start.
func (m *SavedState) markCallEnded(what string) {
	defer m.lock()()
	delete(m.hangingMounts, what)
}
