package metric

import (
	"bytes"
	"math"

	"github.com/muster-fleet/muster/internal/model"
)

// bound is a threshold of a number in a check result, or a bound of its value range. It has a series beside the
// number's.
type bound struct {
	suffix string // of the metric name
	label  string // value of the label bound; empty: none
	value  float64
}

// perfdataReader finds the performance datum of each value of a check result, in order.
type perfdataReader struct{ rest []model.Perfdatum }

// reset makes the reader begin with the performance data (Nagios metrics) in the output of another check. Other
// outputs have no bounds.
func (r *perfdataReader) reset(check *model.CheckDefinition, output []byte) {
	r.rest = nil
	if check.Metrics != nil && check.Metrics.Format == "nagios" && bytes.IndexByte(output, ';') >= 0 {
		r.rest = model.ParseOutput(output).PerfData
	}
}

// next returns the performance datum of the next value, or nil if the output has none.
func (r *perfdataReader) next(value *model.Value) *model.Perfdatum {
	for i := range r.rest {
		if d := &r.rest[i]; d.Label == value.Name && d.Value == value.Value {
			r.rest = r.rest[i+1:]
			return d
		}
	}
	r.rest = nil
	return nil
}

// findBounds finds the thresholds and the value range of a number in a check result. They come from its performance
// datum and from the check. The thresholds of the check win.
func (x *numberWriter) findBounds(check *model.CheckDefinition, value *model.Value, d *model.Perfdatum) {
	x.bounds = x.bounds[:0]
	if d != nil {
		x.addPerfdataBounds(d)
	}
	for i := range check.Thresholds {
		t := &check.Thresholds[i]
		applies := t.Metric == value.Name
		for name, text := range t.Tags {
			applies = applies && value.Tags[name] == text
		}
		if applies {
			x.setBounds("_warning", t.Warning)
			x.setBounds("_critical", t.Critical)
			x.setBounds("_unknown", t.Unknown)
		}
	}
}

// addPerfdataBounds adds the bounds in a performance datum.
func (x *numberWriter) addPerfdataBounds(d *model.Perfdatum) {
	x.setRange("_warning", d.Warn)
	x.setRange("_critical", d.Crit)
	x.setBound("_min", "", d.Min)
	x.setBound("_max", "", d.Max)
}

// setRange adds the lower and upper limits of a threshold range, as given in performance data. An end of zero
// below another one is not written there.
func (x *numberWriter) setRange(suffix string, r *model.Range) {
	if r == nil {
		return
	}
	prefix := ""
	if r.AlertInside {
		prefix = "inside_"
	}
	if r.Start != 0 || math.IsInf(r.End, 1) {
		x.setBound(suffix, prefix+"min", r.Start)
	}
	x.setBound(suffix, prefix+"max", r.End)
}

// setBounds adds the lower and upper limits of a threshold range that the check declares. An end with tokens
// has its value on the agent only.
func (x *numberWriter) setBounds(suffix string, b *model.Bounds) {
	if b == nil {
		return
	}
	if b.Min != nil {
		x.setBound(suffix, "min", *b.Min)
	}
	if b.Max != nil {
		x.setBound(suffix, "max", *b.Max)
	}
}

// setBound adds one threshold as a series, or replaces an earlier threshold of the same series.
func (x *numberWriter) setBound(suffix, label string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	for i := range x.bounds {
		if of := &x.bounds[i]; of.suffix == suffix && of.label == label {
			of.value = value
			return
		}
	}
	x.bounds = append(x.bounds, bound{suffix, label, value})
}
