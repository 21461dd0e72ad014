package prep

import (
	"math"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// ValueMap is a compiled value map, which converts values to texts. It is immutable.
type ValueMap struct {
	mappings []mapping
	rest     string // the text of the default
	hasRest  bool
}

// mapping is one compiled entry of a value map, which has a condition and a text. It has a condition on the
// value, and a text.
type mapping struct {
	matches func(v item.Value, number float64) bool // number is NaN for a text
	text    string
}

// CompileValueMap compiles a value map, which converts values to texts. The error names the mapping by its number,
// from 1.
func CompileValueMap(m *model.ValueMap) (*ValueMap, error) {
	out := &ValueMap{}
	for i := range m.Mappings {
		of := &m.Mappings[i]
		if of.Type == "default" {
			if out.hasRest {
				return nil, model.Errorf(model.Invalid, "mapping %d: the value map already has a default", i+1).WithHint("keep one of them")
			}
			out.rest, out.hasRest = of.Text, true
			continue
		}
		matches, err := compileMapping(of)
		if err != nil {
			return nil, model.Errorf(model.Invalid, "value mapping %d: %w", i+1, err)
		}
		out.mappings = append(out.mappings, mapping{matches, of.Text})
	}
	return out, nil
}

// compileMapping compiles one mapping to a function that reports whether the mapping applies to a value.
func compileMapping(m *model.ValueMapping) (func(item.Value, float64) bool, error) {
	bound, err := strconv.ParseFloat(strings.TrimSpace(m.Value), 64)
	switch m.Type {
	case "", "equal":
		if err != nil {
			bound = math.NaN()
		}
		return func(v item.Value, n float64) bool {
			return n == bound || v.Kind() == item.TextValue && v.String() == m.Value
		}, nil
	case "greaterOrEqual", "lessOrEqual":
		if err != nil {
			return nil, model.Errorf(model.Invalid, "mapping type %s needs a number, got %q", m.Type, m.Value)
		}
		if m.Type == "lessOrEqual" {
			return func(_ item.Value, n float64) bool { return n <= bound }, nil
		}
		return func(_ item.Value, n float64) bool { return n >= bound }, nil
	case "inRange":
		ranges, err := parseRanges(m.Value)
		return func(_ item.Value, n float64) bool {
			for _, r := range ranges {
				if r[0] <= n && n <= r[1] {
					return true
				}
			}
			return false
		}, err
	case "regexp":
		p, err := compilePattern(m.Value, matchLines)
		if err != nil {
			return nil, err
		}
		return func(v item.Value, _ float64) bool {
			if v.Kind() != item.TextValue {
				return false
			}
			ok, err := p.match(v.String())
			return ok && err == nil
		}, nil
	}
	return nil, model.Errorf(model.Invalid, "unknown mapping type %q; write equal, greaterOrEqual, lessOrEqual, inRange, regexp or default", m.Type)
}

// parseRanges parses ranges of numbers such as 1-5,8,-3--1.
func parseRanges(text string) (list [][2]float64, err error) {
	for _, one := range strings.Split(text, ",") {
		one = strings.TrimSpace(one)
		from, to := one, one
		if dash := strings.Index(one[min(1, len(one)):], "-"); dash >= 0 {
			from, to = strings.TrimSpace(one[:dash+1]), strings.TrimSpace(one[dash+2:])
		}
		low, errLow := strconv.ParseFloat(from, 64)
		high, errHigh := strconv.ParseFloat(to, 64)
		if errLow != nil || errHigh != nil || !(low <= high) {
			return nil, model.Errorf(model.Invalid, "expected ranges of numbers such as 1-5,8, got %q", text)
		}
		list = append(list, [2]float64{low, high})
	}
	return list, nil
}

// Text returns the text that the value map has for a value. A nil map has none.
func (m *ValueMap) Text(v item.Value) (text string, ok bool) {
	if m == nil || v.Kind() == item.None {
		return "", false
	}
	n := v.Float()
	for i := range m.mappings {
		if m.mappings[i].matches(v, n) {
			return m.mappings[i].text, true
		}
	}
	return m.rest, m.hasRest
}
