package promapi

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// appendResult appends the result of a query, with its type, as JSON. Reflection would take longer than the query.
func appendResult(b []byte, value parser.Value) ([]byte, error) {
	b = append(b, `{"resultType":"`...)
	b = append(b, value.Type()...)
	b = append(b, `","result":`...)
	var err error
	switch v := value.(type) {
	case promql.Vector:
		b = append(b, '[')
		for i := range v {
			b = appendComma(b, i)
			if b, err = appendSample(b, &v[i]); err != nil {
				return nil, err
			}
		}
		b = append(b, ']')
	case promql.Matrix:
		b = append(b, '[')
		for i := range v {
			b = appendComma(b, i)
			if b, err = appendSeries(b, &v[i]); err != nil {
				return nil, err
			}
		}
		b = append(b, ']')
	case promql.Scalar:
		b = appendPoint(b, v.T, v.V)
	default:
		if b, err = appendJSON(b, v); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendSample appends a series with one value as JSON.
func appendSample(b []byte, s *promql.Sample) ([]byte, error) {
	b = append(b, `{"metric":`...)
	b = appendLabels(b, s.Metric)
	if s.H != nil {
		b = append(b, `,"histogram":`...)
		b, err := appendJSON(b, promql.HPoint{T: s.T, H: s.H})
		return append(b, '}'), err
	}
	b = append(b, `,"value":`...)
	return append(appendPoint(b, s.T, s.F), '}'), nil
}

// appendSeries appends a series with its values as JSON.
func appendSeries(b []byte, s *promql.Series) (_ []byte, err error) {
	b = append(b, `{"metric":`...)
	b = appendLabels(b, s.Metric)
	if len(s.Floats) > 0 {
		b = append(b, `,"values":[`...)
		for i, p := range s.Floats {
			b = appendPoint(appendComma(b, i), p.T, p.F)
		}
		b = append(b, ']')
	}
	if len(s.Histograms) > 0 {
		b = append(b, `,"histograms":`...)
		if b, err = appendJSON(b, s.Histograms); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendLabels appends labels as a JSON object.
func appendLabels(b []byte, l labels.Labels) []byte {
	b = append(b, '{')
	i := 0
	l.Range(func(l labels.Label) {
		b = appendText(appendComma(b, i), l.Name)
		b = appendText(append(b, ':'), l.Value)
		i++
	})
	return append(b, '}')
}

// appendComma appends a comma before an element of a JSON list, unless the element's index is 0.
func appendComma(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}

// appendPoint appends a point as JSON, such as [1435781451.781,"1"]. The point is a time in ms and a value.
func appendPoint(b []byte, ms int64, value float64) []byte {
	b = append(b, '[')
	if ms < 0 {
		b, ms = append(b, '-'), -ms
	}
	b = strconv.AppendInt(b, ms/1000, 10)
	if rest := ms % 1000; rest != 0 {
		b = append(b, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
	}
	b = append(b, `,"`...)
	form := byte('f')
	if size := math.Abs(value); size != 0 && (size < 1e-6 || size >= 1e21) {
		form = 'e'
	}
	b = strconv.AppendFloat(b, value, form, -1, 64)
	return append(b, `"]`...)
}

// appendText appends a JSON string.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			b, _ = appendJSON(b, text) // a string has a form in JSON
			return b
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// appendJSON appends a value as JSON, in the form of encoding/json.
func appendJSON(b []byte, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	return append(b, text...), err
}
