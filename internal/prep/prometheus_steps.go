package prep

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// metricRows has the samples of a text in Prometheus's exposition format
type metricRows struct {
	rows   []metricRow
	labels []metricLabel      // of all rows
	byName map[string][]int32 // rows of a metric
	types  map[string]string  // of a metric: counter, gauge, …
	helps  map[string]string  // of a metric
}

// metricRow is one sample of a Prometheus text
type metricRow struct {
	name, value, raw string
	first, last      int32 // labels[first:last] are its labels
}

// metricLabel is one label of a sample.
type metricLabel struct{ name, value string }

// parseMetrics parses a Prometheus text into the rows of m, and reuses their memory
func (m *metricRows) parseMetrics(text string) error {
	m.rows, m.labels = m.rows[:0], m.labels[:0]
	m.byName, m.types, m.helps = map[string][]int32{}, map[string]string{}, map[string]string{}
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		line = strings.Trim(line, " \t\r")
		switch {
		case line == "":
			continue
		case line[0] == '#':
			m.parseComment(line)
			continue
		}
		if err := m.parseRow(line); err != nil {
			return fmt.Errorf("data parsing error at row %d %q: %w", number, shorten(line, 64), err)
		}
	}
	return nil
}

// parseComment stores the type or help text of a metric from a # line
func (m *metricRows) parseComment(line string) {
	word, rest := cutSpace(strings.TrimLeft(line[1:], " \t"))
	name, text := cutSpace(rest)
	switch {
	case name == "":
	case word == "TYPE":
		m.types[name] = text
	case word == "HELP":
		m.helps[name] = text
	}
}

// cutSpace splits a text after its first word and the white space that follows
func cutSpace(s string) (word, rest string) {
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimLeft(s[i:], " \t")
}

// parseRow parses one sample of a Prometheus text, such as name{label="value"} 1. A timestamp may follow the value.
func (m *metricRows) parseRow(line string) error {
	r := metricReader{source: line}
	row := metricRow{name: r.name(true), raw: line, first: int32(len(m.labels))}
	if row.name == "" {
		return errors.New("expected metric name")
	}
	if r.skipSpace(); r.accept("{") {
		for r.skipSpace(); !r.accept("}"); {
			label, operator, err := r.label()
			if err == nil && operator != "=" {
				err = fmt.Errorf("expected = after the name of a label")
			}
			if err != nil {
				return err
			}
			m.labels = append(m.labels, label)
			if r.skipSpace(); r.accept(",") {
				r.skipSpace()
			} else if !r.startsWith("}") {
				return errors.New("expected , or } after a label")
			}
		}
	}
	row.last = int32(len(m.labels))
	var stamp string
	row.value, stamp = cutSpace(strings.TrimLeft(r.rest(), " \t"))
	if _, ok := parseMetricNumber(row.value); !ok {
		return errors.New("invalid metric value")
	}
	if stamp != "" {
		if _, err := strconv.ParseInt(stamp, 10, 64); err != nil {
			return errors.New("invalid timestamp")
		}
	}
	m.byName[row.name] = append(m.byName[row.name], int32(len(m.rows)))
	m.rows = append(m.rows, row)
	return nil
}

// parseMetricNumber parses a number of Prometheus, also NaN, Inf, +Inf and -Inf.
func parseMetricNumber(s string) (float64, bool) {
	switch strings.ToLower(s) {
	case "nan":
		return math.NaN(), true
	case "inf", "+inf":
		return math.Inf(1), true
	case "-inf":
		return math.Inf(-1), true
	}
	return parseFloat(s)
}

// metricReader parses a Prometheus sample or pattern from left to right
type metricReader struct {
	source   string
	position int
}

// rest returns the text that the reader has not read yet
func (r *metricReader) rest() string { return r.source[r.position:] }

// startsWith reports whether the unread text starts with a given text
func (r *metricReader) startsWith(text string) bool { return strings.HasPrefix(r.rest(), text) }

// accept skips the given text and returns true, if the unread part starts with the given text
func (r *metricReader) accept(text string) bool {
	if !r.startsWith(text) {
		return false
	}
	r.position += len(text)
	return true
}

// skipSpace skips white space in the reader's text
func (r *metricReader) skipSpace() {
	r.position = len(r.source) - len(strings.TrimLeft(r.rest(), " \t"))
}

// name parses the name of a label or a metric. The name of a metric may contain colons.
func (r *metricReader) name(colons bool) string {
	start := r.position
	for r.position < len(r.source) {
		c := r.source[r.position]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || colons && c == ':'
		if !letter && (c < '0' || c > '9' || r.position == start) {
			break
		}
		r.position++
	}
	return r.source[start:r.position]
}

// label parses one label with its value, or one label condition, of a Prometheus sample or pattern. It has a
// name, an operator and a quoted value.
func (r *metricReader) label() (l metricLabel, operator string, err error) {
	if l.name = r.name(false); l.name == "" {
		return l, "", errors.New("expected the name of a label")
	}
	r.skipSpace()
	for _, o := range [...]string{"=~", "!~", "!=", "="} {
		if r.accept(o) {
			operator = o
			break
		}
	}
	if r.skipSpace(); operator == "" || !r.accept(`"`) {
		return l, "", errors.New("expected an operator and a value in quotes behind the name of a label")
	}
	end := r.position
	escaped := false
	for ; end < len(r.source) && r.source[end] != '"'; end++ {
		if r.source[end] == '\\' {
			escaped = true
			end++
		}
	}
	if end >= len(r.source) {
		return l, "", errors.New("expected a quote at the end of the value of a label")
	}
	l.value = r.source[r.position:end]
	r.position = end + 1
	if escaped {
		l.value = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(l.value)
	}
	return l, operator, nil
}

// metricPattern selects Prometheus samples by name, labels and value, all optional. Its text is
// name{label="value",label=~"expression"} == value.
type metricPattern struct {
	labels []labelCondition
	name   string   // the metric; empty: any
	value  *float64 // nil: any
}

// labelCondition is the condition of a Prometheus pattern on one label of a sample. The metric's name counts as the
// label __name__.
type labelCondition struct {
	name    string
	value   string
	pattern *pattern // nil: the label equals value
	negated bool
}

// parseMetricPattern parses a Prometheus pattern in Zabbix's syntax, such as name{label="value"} == 1
func parseMetricPattern(source string) (*metricPattern, error) {
	r := metricReader{source: strings.TrimSpace(source)}
	p := &metricPattern{name: r.name(true)}
	named := p.name != ""
	if r.skipSpace(); r.accept("{") {
		for r.skipSpace(); !r.accept("}"); {
			label, operator, err := r.label()
			if err != nil {
				return nil, model.Errorf(model.Invalid, "invalid pattern %q: %w", source, err)
			}
			c := labelCondition{name: label.name, value: label.value, negated: operator[0] == '!'}
			if strings.HasSuffix(operator, "~") {
				if c.pattern, err = compilePattern(label.value, matchLines); err != nil {
					return nil, err
				}
			}
			if c.name == "__name__" {
				if named {
					return nil, model.Errorf(model.Invalid, "invalid pattern %q: it has two names of a metric", source)
				}
				named = true
			}
			if c.name == "__name__" && operator == "=" {
				p.name = c.value
			} else {
				p.labels = append(p.labels, c)
			}
			if r.skipSpace(); r.accept(",") {
				r.skipSpace()
			} else if !r.startsWith("}") {
				return nil, model.Errorf(model.Invalid, "invalid pattern %q: expected , or } after a label", source)
			}
		}
	}
	if r.skipSpace(); r.accept("==") {
		f, ok := parseMetricNumber(strings.TrimLeft(r.rest(), " \t"))
		if !ok {
			return nil, model.Errorf(model.Invalid, "invalid pattern %q: expected a number after ==", source)
		}
		p.value = &f
	} else if r.rest() != "" {
		return nil, model.Errorf(model.Invalid, "invalid pattern %q: unexpected %q", source, r.rest())
	}
	return p, nil
}

// label returns the value of a sample's label. Label __name__ is the metric.
func (m *metricRows) label(row *metricRow, name string) (string, bool) {
	if name == "__name__" {
		return row.name, true
	}
	for _, l := range m.labels[row.first:row.last] {
		if l.name == name {
			return l.value, true
		}
	}
	return "", false
}

// matches reports whether the Prometheus pattern selects a sample. A label that a row does not have matches no
// condition but a negated one.
func (p *metricPattern) matches(m *metricRows, row *metricRow) (bool, error) {
	if p.name != "" && row.name != p.name {
		return false, nil
	}
	for i := range p.labels {
		c := &p.labels[i]
		value, ok := m.label(row, c.name)
		if ok && c.pattern != nil {
			var err error
			if ok, err = c.pattern.match(value); err != nil {
				return false, err
			}
		} else if ok {
			ok = value == c.value
		}
		if ok == c.negated {
			return false, nil
		}
	}
	if p.value != nil {
		f, _ := parseMetricNumber(row.value)
		return f == *p.value || math.IsNaN(f) && math.IsNaN(*p.value), nil
	}
	return true, nil
}

// selectRows returns all samples that match the Prometheus pattern.
func (p *metricPattern) selectRows(m *metricRows) ([]*metricRow, error) {
	var found []*metricRow
	check := func(row *metricRow) error {
		ok, err := p.matches(m, row)
		if ok {
			found = append(found, row)
		}
		return err
	}
	if p.name != "" {
		for _, i := range m.byName[p.name] {
			if err := check(&m.rows[i]); err != nil {
				return nil, err
			}
		}
		return found, nil
	}
	for i := range m.rows {
		if err := check(&m.rows[i]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// compilePrometheusPattern compiles the step prometheusPattern, which outputs a value from the selected samples. It is
// the value or a label of one selected sample, or a function of several.
func compilePrometheusPattern(params []string, _ item.Type) (stepFunc, error) {
	pattern, err := parseMetricPattern(params[0])
	if err != nil {
		return nil, err
	}
	request, output := "value", ""
	if len(params) > 1 && params[1] != "" {
		request = params[1]
	}
	if len(params) > 2 {
		output = params[2]
	}
	switch {
	case !slices.Contains([]string{"value", "label", "function"}, request):
		return nil, model.Errorf(model.Invalid, "the second parameter is %q, expected \"value\", \"label\" or \"function\"", request)
	case request == "function" && !slices.Contains([]string{"sum", "min", "max", "avg", "count"}, output):
		return nil, model.Errorf(model.Invalid, "unknown function %q: expected \"sum\", \"min\", \"max\", \"avg\" or \"count\"", output)
	case request == "label" && output == "":
		return nil, model.Errorf(model.Invalid, "the third parameter, the name of the label, is empty")
	}
	return func(v item.Value, _ int64, _ *rememberedValue, p *ParsedValue) (item.Value, error) {
		m, err := p.metricsOf(v)
		var out string
		if err == nil {
			out, err = pattern.formatOutput(m, request, output)
		}
		if err != nil {
			return v, fmt.Errorf("cannot apply Prometheus pattern: %w", err)
		}
		return item.FromText(out), nil
	}, nil
}

// formatOutput returns the output of a prometheusPattern step, a value, a label or a computed number. It is a value, a label
// or a function of several values.
func (p *metricPattern) formatOutput(m *metricRows, request, output string) (string, error) {
	rows, err := p.selectRows(m)
	switch {
	case err != nil:
		return "", err
	case len(rows) == 0:
		return "", errors.New("no matching metrics found")
	case request == "function":
		return aggregateRows(rows, output), nil
	case len(rows) > 1:
		return "", errors.New("multiple matching metrics found")
	case request == "value":
		return rows[0].value, nil
	}
	value, ok := m.label(rows[0], output)
	if !ok {
		return "", fmt.Errorf("no label matches the specified name %q", output)
	}
	return value, nil
}

// aggregateRows applies a function such as sum or avg to the values of several Prometheus samples
func aggregateRows(rows []*metricRow, function string) string {
	if function == "count" {
		return strconv.Itoa(len(rows))
	}
	var sum float64
	low, high := math.Inf(1), math.Inf(-1)
	for _, row := range rows {
		f, _ := parseMetricNumber(row.value)
		sum += f
		low, high = min(low, f), max(high, f)
	}
	switch function {
	case "min":
		sum = low
	case "max":
		sum = high
	case "avg":
		sum /= float64(len(rows))
	}
	return textOf(item.FromFloat(sum))
}

// compilePrometheusToJSON compiles the step prometheusToJson, which outputs the selected samples as a JSON array
func compilePrometheusToJSON(params []string, _ item.Type) (stepFunc, error) {
	pattern := &metricPattern{}
	if len(params) > 0 {
		var err error
		if pattern, err = parseMetricPattern(params[0]); err != nil {
			return nil, err
		}
	}
	return func(v item.Value, _ int64, _ *rememberedValue, p *ParsedValue) (item.Value, error) {
		m, err := p.metricsOf(v)
		var rows []*metricRow
		if err == nil {
			rows, err = pattern.selectRows(m)
		}
		text := ""
		if err == nil {
			text, err = m.encode(rows)
		}
		if err != nil {
			return v, fmt.Errorf("cannot convert Prometheus data to JSON: %w", err)
		}
		return item.FromText(text), nil
	}, nil
}

// encode encodes Prometheus samples as a JSON array, or fails at the limit of the output.
func (m *metricRows) encode(rows []*metricRow) (string, error) {
	out := []byte{'['}
	field := func(name, value string) {
		out = append(appendJSONString(out, name), ':')
		out = appendJSONString(out, value)
	}
	for i, row := range rows {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '{')
		field("name", row.name)
		out = append(out, ',')
		field("value", row.value)
		out = append(out, ',')
		field("line_raw", row.raw)
		for j, l := range m.labels[row.first:row.last] {
			if j == 0 {
				out = append(out, `,"labels":{`...)
			} else {
				out = append(out, ',')
			}
			field(l.name, l.value)
		}
		if row.last > row.first {
			out = append(out, '}')
		}
		kind, help := m.metadata(row.name)
		out = append(out, ',')
		field("type", kind)
		if help != "" {
			out = append(out, ',')
			field("help", help)
		}
		if out = append(out, '}'); len(out) > maxOutput {
			return "", errOutput
		}
	}
	return string(append(out, ']')), nil
}

// metadata returns the type and help text of a Prometheus metric. A histogram or summary has them under the name
// without _bucket, _sum and _count.
func (m *metricRows) metadata(name string) (kind, help string) {
	for _, suffix := range [...]string{"", "_bucket", "_sum", "_count"} {
		base, ok := strings.CutSuffix(name, suffix)
		kind, typed := m.types[base]
		if ok && typed && (suffix == "" || kind == "histogram" || kind == "summary") {
			return kind, m.helps[base]
		}
	}
	return "untyped", m.helps[name]
}
