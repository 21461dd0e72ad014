package model

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Perfdatum is one value of a plug-in's performance data, by the Nagios conventions. Its form is
// 'label'=value[unit];[warn];[crit];[min];[max].
type Perfdatum struct {
	Label string
	Value float64 // NaN where the plug-in wrote U: could not be determined
	Unit  string  // unit as written: s, ms, %, B, KB, c, …
	Warn  *Range  // threshold of WARNING; nil: not given
	Crit  *Range
	Min   float64 // NaN: none given
	Max   float64 // NaN: none given
}

// Output is the output of a plug-in, split into summary, details and performance data.
type Output struct {
	Summary   []byte // first line, without perfdata
	Details   []byte // the lines after it, without perfdata
	PerfData  []Perfdatum
	Malformed int // malformed words of the performance data
}

// ParseOutput splits the output of a plug-in into summary, details and performance data. The slices alias the input.
//
// The first line is the summary, with performance data behind a |. Lines that
// follow are details up to one that holds a |; all after it is perfdata again.
func ParseOutput(output []byte) Output {
	var out Output
	first, rest, _ := bytes.Cut(output, []byte("\n"))
	summary, perf, _ := bytes.Cut(first, []byte("|"))
	out.Summary = bytes.TrimSpace(summary)
	out.PerfData, out.Malformed = appendPerfdata(nil, perf)
	details, perf, _ := bytes.Cut(rest, []byte("|"))
	out.Details = bytes.TrimRight(details, " \t\r\n")
	var bad int
	out.PerfData, bad = appendPerfdata(out.PerfData, perf)
	out.Malformed += bad
	return out
}

// appendPerfdata parses the Nagios performance data in a text, and appends the parsed values to a list. bad is
// the number of malformed words.
func appendPerfdata(perf []Perfdatum, text []byte) (_ []Perfdatum, bad int) {
	for {
		text = bytes.TrimLeft(text, " \t\r\n")
		if len(text) == 0 {
			return perf, bad
		}
		label, after, ok := perfLabel(text)
		end := bytes.IndexAny(after, " \t\r\n")
		if end < 0 {
			end = len(after)
		}
		word := after[:end]
		text = after[end:]
		if !ok || len(perf) == MaxValues {
			bad++
			continue
		}
		d, err := parsePerfValue(word)
		if err != nil {
			bad++
			continue
		}
		d.Label = label
		perf = append(perf, d)
	}
}

// perfLabel parses the name of one value in performance data, up to the = sign. A label with blanks stands in single
// quotes, and two quotes in it mean one. Without a label, rest is the text from the blank on.
func perfLabel(text []byte) (label string, rest []byte, ok bool) {
	if text[0] != '\'' {
		blank := bytes.IndexAny(text, " \t\r\n") // first: each byte of the text is read a bounded number of times
		if blank < 0 {
			blank = len(text)
		}
		equal := bytes.IndexByte(text[:blank], '=')
		if equal <= 0 {
			return "", text[blank:], false
		}
		return string(text[:equal]), text[equal+1:], true
	}
	var b []byte
	for i := 1; i < len(text); i++ {
		if text[i] != '\'' {
			b = append(b, text[i])
			continue
		}
		if i+1 < len(text) && text[i+1] == '\'' {
			b = append(b, '\'')
			i++
			continue
		}
		if i+1 < len(text) && text[i+1] == '=' && len(b) > 0 {
			return string(b), text[i+2:], true
		}
		return "", text[i+1:], false
	}
	return "", nil, false
}

var errNotPerfdata = errors.New("not perfdata")

// parsePerfValue parses one value of performance data with its thresholds, after the = sign.
func parsePerfValue(word []byte) (Perfdatum, error) {
	d := Perfdatum{Min: math.NaN(), Max: math.NaN()}
	fields := bytes.Split(word, []byte(";"))
	if len(fields) > 5 {
		fields = fields[:5] // some plug-ins end with one ; too many
	}
	end := numberPrefix(fields[0])
	switch {
	case string(fields[0]) == "U":
		d.Value = math.NaN()
	case end == 0:
		return d, errNotPerfdata
	default:
		v, err := parseNumber(fields[0][:end])
		if err != nil {
			return d, err
		}
		if !isPerfdataUnit(fields[0][end:]) {
			return d, errNotPerfdata
		}
		d.Value, d.Unit = v, string(fields[0][end:])
	}
	for i, f := range fields[1:] {
		if len(f) == 0 {
			continue
		}
		switch i {
		case 0, 1:
			r, err := ParseRange(string(f))
			if err != nil {
				return d, err
			}
			if i == 0 {
				d.Warn = &r
			} else {
				d.Crit = &r
			}
		default:
			v, err := parseNumber(f[:numberPrefix(f)]) // a unit behind it is tolerated
			if err != nil {
				return d, err
			}
			if i == 2 {
				d.Min = v
			} else {
				d.Max = v
			}
		}
	}
	return d, nil
}

// isPerfdataUnit reports whether a text can be the unit of a value in performance data. Such rests are ",0" and "E5".
func isPerfdataUnit(unit []byte) bool {
	if len(unit) == 0 {
		return true
	}
	switch c := unit[0]; {
	case c >= '0' && c <= '9', c == '.', c == ',', c == '+', c == '-':
		return false
	case c == 'e' || c == 'E':
		return numberPrefix(unit[1:]) == 0
	}
	return true
}

// numberPrefix returns how many bytes at the start of a text form a decimal number. A comma counts as decimal point:
// plug-ins print it under some locales.
func numberPrefix(text []byte) int {
	i, digits := 0, false
	if i < len(text) && (text[i] == '-' || text[i] == '+') {
		i++
	}
	for i < len(text) && (text[i] >= '0' && text[i] <= '9' || text[i] == '.' || text[i] == ',') {
		digits = digits || text[i] >= '0' && text[i] <= '9'
		i++
	}
	if !digits {
		return 0
	}
	if i+1 < len(text) && (text[i] == 'e' || text[i] == 'E') {
		j := i + 1
		if text[j] == '-' || text[j] == '+' {
			j++
		}
		k := j
		for k < len(text) && text[k] >= '0' && text[k] <= '9' {
			k++
		}
		if k > j {
			i = k
		}
	}
	return i
}

// parseNumber parses a decimal number. A comma counts as decimal point.
func parseNumber(text []byte) (float64, error) {
	v, err := strconv.ParseFloat(string(bytes.ReplaceAll(text, []byte(","), []byte("."))), 64)
	if err != nil {
		return 0, errNotPerfdata
	}
	return v, nil
}

// Append appends the value of performance data to dst in the syntax of Nagios.
func (d Perfdatum) Append(dst []byte) []byte {
	if bytes.ContainsAny([]byte(d.Label), " \t\r\n'=|") {
		dst = append(dst, '\'')
		for i := range len(d.Label) {
			switch c := d.Label[i]; c {
			case '\'':
				dst = append(dst, '\'', '\'')
			case '\n', '\r', '|':
				dst = append(dst, '_') // this character would end the line or begin the performance data
			default:
				dst = append(dst, c)
			}
		}
		dst = append(dst, '\'')
	} else {
		dst = append(dst, d.Label...)
	}
	dst = append(dst, '=')
	if math.IsNaN(d.Value) || math.IsInf(d.Value, 0) {
		dst = append(dst, 'U')
	} else {
		dst = append(appendNumber(dst, d.Value), d.Unit...)
	}
	end := len(dst)
	for _, r := range [...]*Range{d.Warn, d.Crit} {
		dst = append(dst, ';')
		if r != nil {
			dst = r.append(dst)
			end = len(dst)
		}
	}
	for _, v := range [...]float64{d.Min, d.Max} {
		dst = append(dst, ';')
		if !math.IsNaN(v) {
			dst = appendNumber(dst, v)
			end = len(dst)
		}
	}
	return dst[:end]
}

// appendNumber appends a number to dst in decimal notation, never as 1e6.
func appendNumber(dst []byte, v float64) []byte { return strconv.AppendFloat(dst, v, 'f', -1, 64) }

// Range is a Nagios threshold, which raises an alert for values outside (or inside) a range. If AlertInside is true,
// values inside raise the alert.
type Range struct {
	Start, End  float64 // may be infinite
	AlertInside bool
}

// ParseRange parses a Nagios threshold, such as "10", "10:", "~:10", "10:20" or "@10:20". "10" alerts below 0 or above
// 10, "10:" below 10, "~:10" above 10, "10:20" outside, "@10:20" inside of both numbers.
func ParseRange(text string) (Range, error) {
	r := Range{Start: 0, End: math.Inf(1)}
	bad := func() (Range, error) {
		return Range{}, fmt.Errorf("threshold %q: expected 10, 10:, ~:10, 10:20 or @10:20", text)
	}
	body := text
	if len(body) > 0 && body[0] == '@' {
		r.AlertInside, body = true, body[1:]
	}
	start, end, both := "", body, false
	for i := range len(body) {
		if body[i] == ':' {
			start, end, both = body[:i], body[i+1:], true
			break
		}
	}
	number := func(s string, into *float64) bool {
		if len(s) == 0 || numberPrefix([]byte(s)) != len(s) {
			return false
		}
		v, err := parseNumber([]byte(s))
		*into = v
		return err == nil
	}
	switch {
	case start == "~":
		r.Start = math.Inf(-1)
	case start != "" && !number(start, &r.Start):
		return bad()
	}
	if end != "" || !both {
		if !number(end, &r.End) {
			return bad()
		}
	}
	if r.Start > r.End {
		return bad()
	}
	return r, nil
}

// Violates reports whether a value raises an alert under the Nagios threshold
func (r Range) Violates(v float64) bool {
	within := v >= r.Start && v <= r.End
	return within == r.AlertInside
}

// String formats the threshold in the syntax of Nagios.
func (r Range) String() string { return string(r.append(nil)) }

// append appends the threshold to dst in the syntax of Nagios
func (r Range) append(dst []byte) []byte {
	if r.AlertInside {
		dst = append(dst, '@')
	}
	switch {
	case math.IsInf(r.Start, -1):
		dst = append(dst, '~', ':')
	case r.Start != 0 || math.IsInf(r.End, 1):
		dst = append(appendNumber(dst, r.Start), ':')
	}
	if !math.IsInf(r.End, 1) {
		dst = appendNumber(dst, r.End)
	}
	return dst
}
