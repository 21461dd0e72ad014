package prep

import "github.com/muster-fleet/muster/internal/item"

// Parsed is one value whose JSON and Prometheus forms are parsed when a step first needs them, so that several items
// can share the work. The dependents of a master item share it.
type Parsed struct {
	sample     item.Sample
	json       jsonTree
	jsonErr    error
	hasJSON    bool
	metrics    metricRows
	metricsErr error
	hasMetrics bool
}

// NewParsed returns a Parsed for a value that is not parsed yet
func NewParsed(in item.Sample) *Parsed { return &Parsed{sample: in} }

// maxKeptNodes bounds the nodes whose memory a Parsed keeps for the next value: 1 MiB.
const maxKeptNodes = 1 << 16

// Reset replaces the value in p, so that one Parsed serves many values. It keeps the memory of the last value, unless
// that was large.
func (p *Parsed) Reset(in item.Sample) {
	if cap(p.json.nodes) > maxKeptNodes {
		p.json.nodes = nil
	}
	p.sample, p.hasJSON, p.hasMetrics = in, false, false
}

// jsonOf returns the value's JSON document, which p stores after the first parsing; with a nil p it parses at each call
func (p *Parsed) jsonOf(v item.Value) (*jsonTree, error) {
	if p == nil {
		tree := &jsonTree{}
		return tree, tree.parseJSON(textOf(v))
	}
	if !p.hasJSON {
		p.hasJSON, p.jsonErr = true, p.json.parseJSON(textOf(v))
	}
	return &p.json, p.jsonErr
}

// metricsOf parses a value in Prometheus's text format, or returns the rows that p already has
func (p *Parsed) metricsOf(v item.Value) (*metricRows, error) {
	if p == nil {
		rows := &metricRows{}
		return rows, rows.parseMetrics(textOf(v))
	}
	if !p.hasMetrics {
		p.hasMetrics, p.metricsErr = true, p.metrics.parseMetrics(textOf(v))
	}
	return &p.metrics, p.metricsErr
}
