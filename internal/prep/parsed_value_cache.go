package prep

import "github.com/muster-fleet/muster/internal/item"

// ParsedValue is one value of an item, with its parsed JSON and Prometheus forms. A step that first needs a
// form parses the value. The dependents of a master item share it.
type ParsedValue struct {
	sample     item.Sample
	json       jsonTree
	jsonErr    error
	hasJSON    bool
	metrics    metricRows
	metricsErr error
	hasMetrics bool
}

// NewParsedValue returns a ParsedValue for a value, without parsing the value yet.
func NewParsedValue(in item.Sample) *ParsedValue { return &ParsedValue{sample: in} }

// maxKeptNodes bounds the JSON nodes whose memory the next value reuses. The limit is 1 MiB.
const maxKeptNodes = 1 << 16

// Reset replaces the value and discards its parsed forms, for reuse of the memory. It keeps the memory of the
// last value, unless that was large.
func (p *ParsedValue) Reset(in item.Sample) {
	if cap(p.json.nodes) > maxKeptNodes {
		p.json.nodes = nil
	}
	p.sample, p.hasJSON, p.hasMetrics = in, false, false
}

// jsonOf returns the parsed JSON document of a value, and parses the value only the first time. With a nil p it parses
// at each call.
func (p *ParsedValue) jsonOf(v item.Value) (*jsonTree, error) {
	if p == nil {
		tree := &jsonTree{}
		return tree, tree.parseJSON(textOf(v))
	}
	if !p.hasJSON {
		p.hasJSON, p.jsonErr = true, p.json.parseJSON(textOf(v))
	}
	return &p.json, p.jsonErr
}

// metricsOf returns the samples in a value in Prometheus's text format, and parses only the first time. It parses the
// value at the first call.
func (p *ParsedValue) metricsOf(v item.Value) (*metricRows, error) {
	if p == nil {
		rows := &metricRows{}
		return rows, rows.parseMetrics(textOf(v))
	}
	if !p.hasMetrics {
		p.hasMetrics, p.metricsErr = true, p.metrics.parseMetrics(textOf(v))
	}
	return &p.metrics, p.metricsErr
}
