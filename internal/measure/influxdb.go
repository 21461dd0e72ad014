package measure

import (
	"strconv"
	"strings"
)

// influxdb reads "measurement,tag=value field=1,other=2i time", where time counts
// nanoseconds. Each field with a number is a value measurement.field; texts are none, true
// and false are 1 and 0.
func (s *scan) influxdb(line string) bool {
	key, rest := until(line, " ")
	set, when := until(strings.TrimLeft(rest, " "), " ")
	at, ok := clock("0", 1)
	if when = strings.TrimSpace(when); when != "" {
		at, ok = clock(when, 1e9)
	}
	measurement, list := until(key, ",")
	if !ok || measurement == "" || set == "" {
		return false
	}
	var tags map[string]string
	for list != "" {
		var one string
		one, list = until(list[1:], ",")
		k, v := until(one, "=")
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
		one, set = until(set[1:], ",")
		k, v := until(one, "=")
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

// until cuts a text before the first of the ends that stands outside quotes and is not
// escaped; rest begins with it.
func until(text, ends string) (head, rest string) {
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
