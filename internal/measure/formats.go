package measure

import (
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// graphite reads "path value time", where time counts seconds and -1 or nothing means now;
// tags stand in the path: disk.used;server=web01;mount=/ 42 1764007200.
func (s *scan) graphite(line string) bool {
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

// influxdb reads "measurement,tag=value field=1,other=2i time", where time counts
// nanoseconds. Each field with a number is a value measurement.field; texts are none, true
// and false are 1 and 0.
func (s *scan) influxdb(line string) bool {
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

// influxValue reads 1.5, 3i, 3u, true or "text"; number: it is one.
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

// cutAtAny cuts a text before the first of the ends that stands outside quotes and is not
// escaped; rest begins with it.
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

func unescape(text string) string {
	if strings.IndexByte(text, '\\') < 0 {
		return text
	}
	return strings.NewReplacer(`\,`, ",", `\=`, "=", `\ `, " ", `\\`, `\`).Replace(text)
}

// nagios reads perfdata: 'label'=value[unit];[warn];[crit];[min];[max] behind a |. The unit
// becomes the tag unit.
func (s *scan) nagios(output []byte) {
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

// opentsdb reads "[put] metric time value tag=value …", where time counts seconds, or
// milliseconds if it has more than ten digits.
func (s *scan) opentsdb(line string) bool {
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

// prometheus reads the text form of exporters: name{label="value",…} value [time], where
// time counts milliseconds. Comments are passed over before.
func (s *scan) prometheus(line string) bool {
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

// parseLabels reads name="value" pairs up to the closing brace, and what follows it.
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

// parseQuoted reads up to the closing quote; n is how many bytes that took, negative: there is
// none.
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
