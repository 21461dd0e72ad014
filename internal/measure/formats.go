package measure

import (
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// parseGraphite reads a line "path value time", where time counts seconds and -1 or nothing means now;
// tags stand in the path: disk.used;server=web01;mount=/ 42 1764007200.
func (s *valueScan) parseGraphite(line string) bool {
	words := strings.Fields(line)
	if len(words) != 2 && len(words) != 3 {
		return false
	}
	parts := strings.Split(words[0], ";")
	tags, ok := parsePairs(parts[1:])
	return ok && s.parseAndAdd(parts[0], words[1], append(words, "0")[2], 1, tags)
}

// parsePairs reads words of the form key=value.
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

// parseInfluxdb reads a line "measurement,tag=value field=1,other=2i time", where time counts
// nanoseconds. Each numeric field gives a value named measurement.field; text fields give no value, true
// and false count as 1 and 0.
func (s *valueScan) parseInfluxdb(line string) bool {
	key, rest := cutAtAny(line, " ")
	set, when := cutAtAny(strings.TrimLeft(rest, " "), " ")
	at, ok := parseTime("0", 1)
	if when = strings.TrimSpace(when); when != "" {
		at, ok = parseTime(when, 1e9)
	}
	measurement, list := cutAtAny(key, ",")
	if !ok || measurement == "" || set == "" {
		return false
	}
	var tags map[string]string
	for list != "" {
		var one string
		one, list = cutAtAny(list[1:], ",")
		k, v := cutAtAny(one, "=")
		if k == "" || len(v) < 2 {
			return false
		}
		if tags == nil {
			tags = map[string]string{}
		}
		tags[unescape(k)] = unescape(v[1:])
	}
	for set = "," + set; set != ""; {
		var one string
		one, set = cutAtAny(set[1:], ",")
		k, v := cutAtAny(one, "=")
		if k == "" || len(v) < 2 {
			return false
		}
		value, number, ok := influxValue(v[1:])
		if !ok || number && !s.add(unescape(measurement)+"."+unescape(k), value, at, tags) {
			return false
		}
	}
	return true
}

// influxValue parses 1.5, 3i, 3u, true or "text"; number is true if the text has a numeric value.
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

// cutAtAny cuts a text before the first character of ends that is neither quoted nor escaped; rest begins with that
// character.
func cutAtAny(text, ends string) (head, rest string) {
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

// unescape removes the backslashes that escape characters of the line protocol of InfluxDB.
func unescape(text string) string {
	if strings.IndexByte(text, '\\') < 0 {
		return text
	}
	return strings.NewReplacer(`\,`, ",", `\=`, "=", `\ `, " ", `\\`, `\`).Replace(text)
}

// parseNagios reads the performance data of an output: 'label'=value[unit];[warn];[crit];[min];[max] behind a |. The unit
// becomes the tag unit.
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

// parseOpentsdb reads a line "[put] metric time value tag=value …", where time counts seconds, or
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

// parsePrometheus reads a line in the text format of exporters: name{label="value",…} value [time], where
// time counts milliseconds. The caller has skipped comment lines.
func (s *valueScan) parsePrometheus(line string) bool {
	end := strings.IndexAny(line, "{ \t")
	if end <= 0 {
		return false
	}
	name, rest := line[:end], line[end:]
	var tags map[string]string
	if rest[0] == '{' {
		var ok bool
		if tags, rest, ok = parseLabels(rest[1:]); !ok {
			return false
		}
	}
	words := strings.Fields(rest)
	if len(words) != 1 && len(words) != 2 {
		return false
	}
	return s.parseAndAdd(name, words[0], append(words, "0")[1], 1000, tags)
}

// parseLabels reads name="value" pairs up to the closing brace, and returns the rest behind the brace.
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

// parseQuoted reads a text up to the closing quote; n is the number of bytes read, negative if the closing quote is
// missing.
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
