// Package measure parses the metrics in a check's output, in the formats of parse_metric_formats.go, and compares them with
// the check's thresholds. It skips and counts lines that do not have the format, because plug-ins also print text for
// people; it also skips NaN and infinity. Agents use this package for their checks, the server for the checks of
// Sensu agents. In: output and thresholds. Out: values, status and messages. Pure functions: no goroutines, no locks.
// Start reading at parse_check_output.go.
package measure

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Parse parses measured values from a check's output in a metric format such as nagios or graphite. It adds
// tags to the tags of each value, which win over them. cut means that the end of the output is missing: Parse
// skips the last line or word, which may be half a number. bad counts the entries of other form and the values
// beyond model.MaxValues.
func Parse(format string, output []byte, cut bool, tags map[string]string) (values []model.Value, bad int) {
	s := &valueScan{tags: tags}
	if format == "nagios" {
		s.parseNagios(completeLines(output, cut, " \n"))
		return s.values, s.bad
	}
	line := map[string]func(*valueScan, string) bool{
		"graphite": (*valueScan).parseGraphite, "influxdb": (*valueScan).parseInfluxdb, "opentsdb": (*valueScan).parseOpentsdb, "prometheus": (*valueScan).parsePrometheus,
	}[format]
	if line == nil {
		return nil, 0
	}
	for text := range bytes.Lines(completeLines(output, cut, "\n")) {
		if text = bytes.TrimSpace(text); len(text) > 0 && text[0] != '#' && !line(s, string(text)) {
			s.bad++
		}
	}
	return s.values, s.bad
}

// Perfdata parses the performance data in an output. cut means that the end of the output is missing, as in Parse.
func Perfdata(output []byte, cut bool) []model.Perfdatum {
	return model.ParseOutput(completeLines(output, cut, " \n")).PerfData
}

// completeLines returns a truncated output up to the last of the given separators, such as a line break. An
// output that was not cut stays whole.
func completeLines(output []byte, cut bool, ends string) []byte {
	if !cut {
		return output
	}
	if mark := bytes.LastIndex(output, []byte("… [cut ")); mark >= 0 {
		output = output[:mark]
	}
	return output[:bytes.LastIndexAny(output, ends)+1]
}

// valueScan collects the measured values that the parsers find in one output
type valueScan struct {
	tags   map[string]string
	values []model.Value
	bad    int
}

// add appends a parsed value to the list, unless the value is invalid or exceeds a limit. It returns false for
// an invalid value and for one beyond model.MaxValues.
func (s *valueScan) add(name string, value float64, at time.Time, own map[string]string) bool {
	if len(s.values) == model.MaxValues {
		return false
	}
	v, ok := NewValue(name, value, at, own, s.tags)
	if ok {
		s.values = append(s.values, v)
	}
	return ok
}

// parseAndAdd parses a value's number and time from text, and adds the value to the list. perSecond says how
// many units of the time make a second, such as 1000 for milliseconds.
func (s *valueScan) parseAndAdd(name, number, when string, perSecond float64, tags map[string]string) bool {
	value, err := strconv.ParseFloat(number, 64)
	at, ok := parseTime(when, perSecond)
	return ok && err == nil && s.add(name, value, at, tags)
}

// NewValue makes a measured value from a number, its tags, and the tags common to all values. If both have a
// tag, the value's own tag wins. ok is false for NaN, infinity and names or tags beyond the limits of the
// protocol.
func NewValue(name string, value float64, at time.Time, own, others map[string]string) (v model.Value, ok bool) {
	if name == "" || len(name) > maxText || math.IsNaN(value) || math.IsInf(value, 0) {
		return v, false
	}
	for k, v := range own {
		if k == "" || len(k) > maxText || len(v) > maxText {
			return model.Value{}, false
		}
	}
	tags := maps.Clone(others)
	if tags == nil {
		tags = own
	} else {
		maps.Copy(tags, own)
	}
	if len(tags) > model.MaxValueTags {
		return model.Value{}, false
	}
	return model.Value{Name: name, Tags: tags, Value: value, At: at}, true
}

// maxText limits names and tags, in bytes, as the protocol does.
const maxText = 255

// parseTime parses the time of a value, such as seconds or milliseconds since 1970. perSecond says how many units of
// the time make a second, such as 1000 for milliseconds. A number outside of the years 1970 to 6429, such as -1, is
// the zero time: the value then has the time of the run.
func parseTime(text string, perSecond float64) (at time.Time, ok bool) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) {
		return time.Time{}, false
	}
	ms := n / perSecond * 1000
	if ms <= 0 || ms > 1<<47 {
		return time.Time{}, true
	}
	return time.UnixMilli(int64(ms)).UTC(), true
}

// ApplyThresholds compares measured values with thresholds, and raises the check's status for each exceeded threshold. Each
// exceeded threshold gives a line. It returns the worst of status and all exceeded thresholds, and a line for each
// exceeded threshold.
func ApplyThresholds(status model.Status, values []model.Value, thresholds []model.Threshold) (_ model.Status, lines []string) {
	for i := range thresholds {
		if raised, line := thresholdStatus(values, &thresholds[i]); raised != model.OK {
			lines = append(lines, line)
			if worseStatus(raised, status) {
				status = raised
			}
		}
	}
	return status, lines
}

// worseStatus reports whether status a is worse than status b, where UNKNOWN counts between WARNING and
// CRITICAL.
func worseStatus(a, b model.Status) bool {
	rank := [4]int{model.Warning: 1, model.Unknown: 2, model.Critical: 3}
	return rank[a&3] > rank[b&3]
}

// thresholdStatus compares all values of a metric with its threshold and returns the worst status.
func thresholdStatus(values []model.Value, t *model.Threshold) (status model.Status, line string) {
	found := false
	for i := range values {
		v := &values[i]
		if v.Name != t.Metric || !containsTags(v.Tags, t.Tags) {
			continue
		}
		found = true
		for _, rule := range []struct {
			status model.Status
			*model.Bounds
		}{{model.Critical, t.Critical}, {model.Unknown, t.Unknown}, {model.Warning, t.Warning}} {
			if excess := violatedBound(v.Value, rule.Bounds); excess != "" && worseStatus(rule.status, status) {
				status, line = rule.status, fmt.Sprintf("%s: %s is %v, %s", rule.status, nameWithTags(v.Name, v.Tags), v.Value, excess)
			}
		}
	}
	if !found && t.Missing != "" {
		status, _ = model.ParseStatus(t.Missing)
		return status, fmt.Sprintf("%s: the output has no %s", status, nameWithTags(t.Metric, t.Tags))
	}
	return status, line
}

// containsTags reports whether a value's tags include all the given tags.
func containsTags(tags, want map[string]string) bool {
	for k, v := range want {
		if got, ok := tags[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// violatedBound says that a value is above the threshold's maximum or below its minimum, or returns "". It
// returns "" if the value is within both.
func violatedBound(v float64, b *model.Bounds) string {
	switch {
	case b == nil:
	case b.Max != nil && v > *b.Max:
		return fmt.Sprintf("more than %v", *b.Max)
	case b.Min != nil && v < *b.Min:
		return fmt.Sprintf("less than %v", *b.Min)
	}
	return ""
}

// nameWithTags returns a value's name with its tags sorted by key, such as NAME{KEY=VALUE,…}.
func nameWithTags(name string, tags map[string]string) string {
	if len(tags) == 0 {
		return name
	}
	var list []string
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, k+"="+tags[k])
	}
	return name + "{" + strings.Join(list, ",") + "}"
}
