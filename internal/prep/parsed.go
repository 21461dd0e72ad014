package prep

import "github.com/muster-fleet/muster/internal/item"

// Parsed is one value with its parsed forms (JSON, Prometheus), each made when the first step asks for it. The dependents
// of a master item share it.
type Parsed struct {
	sample     item.Sample
	json       jsonTree
	jsonErr    error
	hasJSON    bool
	metrics    metricRows
	metricsErr error
	hasMetrics bool
}

// NewParsed returns a value that nothing has parsed yet.
func NewParsed(in item.Sample) *Parsed { return &Parsed{sample: in} }

// maxKeptNodes bounds the nodes whose memory a Parsed keeps for the next value: 1 MiB.
const maxKeptNodes = 1 << 16

// Reset makes p the holder of another value, so that a caller needs one Parsed. It keeps the memory of the last value,
// unless that was large.
func (p *Parsed) Reset(in item.Sample) {
	if cap(p.json.nodes) > maxKeptNodes {
		p.json.nodes = nil
	}
	p.sample, p.hasJSON, p.hasMetrics = in, false, false
}

// jsonOf returns the document in a value: the shared one of p, or without p a new one.
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

// metricsOf returns the rows of Prometheus's text format in a value, as jsonOf does.
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
