package measure

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// parseGraphite parses a line "path value time" in Graphite's format, with tags in the path. The time is in seconds;
// an absent time or -1 means now.
func (s *valueScan) parseGraphite(line string) bool {
	words := strings.Fields(line)
	if len(words) != 2 && len(words) != 3 {
		return false
	}
	parts := strings.Split(words[0], ";")
	tags, ok := parsePairs(parts[1:])
	return ok && s.parseAndAdd(parts[0], words[1], append(words, "0")[2], 1, tags)
}

// parsePairs parses words of the form KEY=VALUE into a map of tags.
func parsePairs(words []string) (tags map[string]string, ok bool) {
	for _, word := range words {
		k, v, ok := strings.Cut(word, "=")
		if !ok || k == "" {
			return nil, false
		}
		if tags == nil {
			tags = map[string]string{}
		}
		tags[k] = v
	}
	return tags, true
}

// parseInfluxdb parses a line of InfluxDB, "measurement,tag=value field=1,other=2i time". The time is in nanoseconds.
// Each numeric field gives a value named measurement.field; text fields give no value, true and false count as 1 and
// 0.
func (s *valueScan) parseInfluxdb(line string) bool {
	key, rest := splitBeforeAny(line, " ")
	set, when := splitBeforeAny(strings.TrimLeft(rest, " "), " ")
	at, ok := parseTime("0", 1)
	if when = strings.TrimSpace(when); when != "" {
		at, ok = parseTime(when, 1e9)
	}
	measurement, list := splitBeforeAny(key, ",")
	if !ok || measurement == "" || set == "" {
		return false
	}
	var tags map[string]string
	for list != "" {
		var one string
		one, list = splitBeforeAny(list[1:], ",")
		k, v := splitBeforeAny(one, "=")
		if k == "" || len(v) < 2 {
			return false
		}
		if tags == nil {
			tags = map[string]string{}
		}
		tags[unescapeInflux(k)] = unescapeInflux(v[1:])
	}
	for set = "," + set; set != ""; {
		var one string
		one, set = splitBeforeAny(set[1:], ",")
		k, v := splitBeforeAny(one, "=")
		if k == "" || len(v) < 2 {
			return false
		}
		value, number, ok := influxValue(v[1:])
		if !ok || number && !s.add(unescapeInflux(measurement)+"."+unescapeInflux(k), value, at, tags) {
			return false
		}
	}
	return true
}

// influxValue parses a field value of InfluxDB, such as 1.5, 3i, true or "text". The result number is false for texts.
func influxValue(text string) (value float64, number, ok bool) {
	switch text {
	case "t", "T", "true", "True", "TRUE":
		return 1, true, true
	case "f", "F", "false", "False", "FALSE":
		return 0, true, true
	}
	if text[0] == '"' {
		return 0, false, len(text) > 1 && text[len(text)-1] == '"'
	}
	if last := text[len(text)-1]; last == 'i' || last == 'u' {
		text = text[:len(text)-1]
	}
	value, err := strconv.ParseFloat(text, 64)
	return value, true, err == nil
}

// splitBeforeAny splits a text before the first unquoted occurrence of any given character. Escaped characters count
// as quoted.
func splitBeforeAny(text, ends string) (head, rest string) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && strings.IndexByte(ends, c) >= 0:
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// unescapeInflux removes the backslashes that InfluxDB's line protocol puts before special characters.
func unescapeInflux(text string) string {
	if strings.IndexByte(text, '\\') < 0 {
		return text
	}
	return strings.NewReplacer(`\,`, ",", `\=`, "=", `\ `, " ", `\\`, `\`).Replace(text)
}

// parseNagios parses the performance data after the bar in a Nagios plug-in's output. Its form is
// 'label'=value[unit];[warn];[crit];[min];[max]. The unit becomes the tag unit.
func (s *valueScan) parseNagios(output []byte) {
	out := model.ParseOutput(output)
	s.bad += out.Malformed
	for _, d := range out.PerfData {
		var tags map[string]string
		if d.Unit != "" {
			tags = map[string]string{"unit": d.Unit}
		}
		if !s.add(d.Label, d.Value, time.Time{}, tags) {
			s.bad++
		}
	}
}

// parseOpentsdb parses a line "[put] metric time value tag=value …" of OpenTSDB. The time is in seconds, or in
// milliseconds if it has more than ten digits.
func (s *valueScan) parseOpentsdb(line string) bool {
	words := strings.Fields(line)
	if len(words) > 0 && words[0] == "put" {
		words = words[1:]
	}
	if len(words) < 3 {
		return false
	}
	perSecond := 1.0
	if len(words[1]) > 10 && !strings.Contains(words[1], ".") {
		perSecond = 1000
	}
	tags, ok := parsePairs(words[3:])
	return ok && s.parseAndAdd(words[0], words[2], words[1], perSecond, tags)
}

// parsePrometheus parses a line of Prometheus. The caller has skipped comment lines.
func (s *valueScan) parsePrometheus(line string) bool {
	v, ok := prometheusValue(line)
	return ok && s.add(v.Name, v.Value, v.At, v.Tags)
}

// prometheusValue parses a line of Prometheus, name{label="value",…} value [time]. The time is in milliseconds.
func prometheusValue(line string) (v model.Value, ok bool) {
	end := strings.IndexAny(line, "{ \t")
	if end <= 0 {
		return v, false
	}
	v.Name = line[:end]
	rest := line[end:]
	if rest[0] == '{' {
		if v.Tags, rest, ok = parseLabels(rest[1:]); !ok {
			return v, false
		}
	}
	words := strings.Fields(rest)
	if len(words) != 1 && len(words) != 2 {
		return v, false
	}
	var err error
	v.Value, err = strconv.ParseFloat(words[0], 64)
	v.At, ok = parseTime(append(words, "0")[1], 1000)
	return v, ok && err == nil
}

// Bounds of a series on the page of an exporter. The server takes no longer ones.
const (
	maxPageLine   = 64 << 10
	maxPageLabels = 64
)

// ParsePage parses the page of an exporter of Prometheus. It returns all numbers, also NaN and infinity. keep selects series by
// their text on the page, name{label="value",…}; nil selects all. The error names the first line of another form, and says
// that more than `most` series are selected. A hostile page takes little more memory than these.
func ParsePage(page []byte, most int, keep func(series []byte) bool) (values []model.Value, err error) {
	number := 0
	for line := range bytes.Lines(page) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' || keep != nil && !keep(seriesText(line)) {
			continue
		}
		if len(line) > maxPageLine {
			return nil, fmt.Errorf("line %d has %d bytes, at most %d: %.80q", number, len(line), maxPageLine, line)
		}
		v, ok := prometheusValue(string(line))
		switch {
		case !ok:
			return nil, fmt.Errorf("line %d has not the format of Prometheus: %.80q", number, line)
		case len(v.Tags) > maxPageLabels:
			return nil, fmt.Errorf("line %d has %d labels, at most %d: %.80q", number, len(v.Tags), maxPageLabels, line)
		case len(values) == most:
			return nil, fmt.Errorf("more than %d series: choose some with keep or drop", most)
		}
		values = append(values, v)
	}
	return values, nil
}

// seriesText returns the name and the labels of a line, as text.
func seriesText(line []byte) []byte {
	if end := bytes.LastIndexByte(line, '}'); end >= 0 {
		return line[:end+1]
	}
	if end := bytes.IndexAny(line, " \t"); end >= 0 {
		return line[:end]
	}
	return line
}

// parseLabels parses name="value" pairs up to the closing brace, and returns the remaining text.
func parseLabels(text string) (tags map[string]string, rest string, ok bool) {
	for {
		text = strings.TrimLeft(text, " \t,")
		if strings.HasPrefix(text, "}") {
			return tags, text[1:], true
		}
		k, after, found := strings.Cut(text, "=")
		k, after = strings.TrimSpace(k), strings.TrimLeft(after, " \t")
		if !found || k == "" || !strings.HasPrefix(after, `"`) {
			return nil, "", false
		}
		value, n := parseQuoted(after[1:])
		if n < 0 {
			return nil, "", false
		}
		if tags == nil {
			tags = map[string]string{}
		}
		tags[k], text = value, after[1+n:]
	}
}

// parseQuoted parses a text up to its closing quote. It returns the number of bytes read, which is negative if the
// quote is missing.
func parseQuoted(text string) (value string, n int) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			return b.String(), i + 1
		case '\\':
			if i++; i == len(text) {
				return "", -1
			}
			if c = text[i]; c == 'n' {
				c = '\n'
			}
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return "", -1
}
