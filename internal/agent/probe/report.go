package probe

import (
	"fmt"
	"math"
	"strings"
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
	brief  string // first line when all is well; default: the only line, or how many
}

type line struct {
	status model.Status
	text   string
}

// rank orders statuses from well to bad.
func rank(s model.Status) int {
	switch s {
	case model.OK:
		return 0
	case model.Unknown:
		return 1
	case model.Warning:
		return 2
	}
	return 3
}

func worse(a, b model.Status) model.Status {
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// add adds a finding.
func (r *report) add(status model.Status, format string, a ...any) {
	r.status = worse(r.status, status)
	r.lines = append(r.lines, line{status, strings.ReplaceAll(fmt.Sprintf(format, a...), "|", "/")})
}

// measure adds perfdata. A bound that is unknown is NaN.
func (r *report) measure(label string, value float64, unit string, warn, crit *model.Range, low, high float64) {
	if len(r.perf) > 0 {
		r.perf = append(r.perf, ' ')
	}
	r.perf = model.Perfdatum{Label: label, Value: value, Unit: unit, Warn: warn, Crit: crit, Min: low, Max: high}.Append(r.perf)
}

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
	case r.status == model.OK && r.brief != "":
		head = []string{r.brief}
	case r.status == model.OK && len(head) > 3:
		head = []string{fmt.Sprintf("all %d are well", len(head))}
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

// statusAbove compares a value with its upper thresholds.
func statusAbove[T int | int64 | float64 | time.Duration](v T, warn T, hasWarn bool, crit T, hasCrit bool) model.Status {
	switch {
	case hasCrit && v > crit:
		return model.Critical
	case hasWarn && v > warn:
		return model.Warning
	}
	return model.OK
}

// byRanges judges a value against Nagios thresholds.
func byRanges(v float64, warn, crit *model.Range) model.Status {
	switch {
	case crit != nil && crit.Violates(v):
		return model.Critical
	case warn != nil && warn.Violates(v):
		return model.Warning
	}
	return model.OK
}

// upTo is a threshold for perfdata from the most that is allowed.
func upTo(v float64, ok bool) *model.Range {
	if !ok {
		return nil
	}
	return &model.Range{End: v}
}

func nan() float64 { return math.NaN() }

// bytesText is a size for people.
func bytesText(v float64) string { return model.Size(v).Approximate() }

// ageText is a span for people.
func ageText(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + ageText(-d)
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(math.Round(d.Hours()/24)))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", int(math.Round(d.Hours())))
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d minutes", int(math.Round(d.Minutes())))
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d)/1e6)
}
