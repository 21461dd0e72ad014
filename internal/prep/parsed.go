package prep

import "github.com/muster-fleet/muster/internal/item"

// Parsed is one value with its parsed forms (JSON, Prometheus), each made when the first step asks for it. The dependents
// of a master item share it.
type Parsed struct {
	sample item.Sample
}

// NewParsed returns a value that nothing has parsed yet.
func NewParsed(in item.Sample) *Parsed { return &Parsed{sample: in} }

// Reset makes p the holder of another value, so that a caller needs one Parsed.
func (p *Parsed) Reset(in item.Sample) { *p = Parsed{sample: in} }
