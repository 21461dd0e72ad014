package chart

import "math"

// tick is one division line across a chart's axis, with or without a label.
type tick struct {
	at    float64
	label bool
}

// axisScale maps the values of an axis to positions between 0 and 1. It also holds the division lines.
type axisScale struct {
	scale    Scale
	from, to float64 // as projected
	ticks    []tick
}

// newAxisScale divides the range of an axis into about n parts. If widen is set, the range grows to whole parts.
func newAxisScale(a Axis, s span, n int, widen bool) axisScale {
	if math.IsInf(s.from, 0) || math.IsInf(s.to, 0) {
		s = span{0, 1}
	}
	r := axisScale{scale: a.Scale}
	switch a.Scale {
	case Log:
		r.divideLogarithmically(s)
	case Nines:
		r.divideByPercentiles(s)
	case Seconds:
		r.divideEvenly(s, clockStep((s.to-s.from)/float64(n)), widen)
	default:
		r.divideEvenly(s, niceStep((s.to-s.from)/float64(n)), widen)
	}
	return r
}

// transform converts a value to the unit of the axis scale, such as to its logarithm.
func (r *axisScale) transform(v float64) float64 {
	switch r.scale {
	case Log:
		return math.Log10(max(v, 1e-9))
	case Nines:
		return -math.Log10(max(1-v/100, 1e-9))
	}
	return v
}

// position returns the position of a value on the axis, between 0 (start) and 1 (end).
func (r *axisScale) position(v float64) float64 {
	if r.to == r.from {
		return 0.5
	}
	return min(1, max(0, (r.transform(v)-r.from)/(r.to-r.from)))
}

// divideEvenly places the division lines of a linear axis at equal round steps.
func (r *axisScale) divideEvenly(s span, step float64, widen bool) {
	if s.to <= s.from {
		s.to = s.from + step
	}
	r.from, r.to = s.from, s.to
	if widen {
		r.from, r.to = math.Floor(s.from/step)*step, math.Ceil(s.to/step-1e-9)*step
	}
	for i := math.Ceil(r.from/step-1e-9) + 0; i*step <= r.to+step*1e-9; i++ { // + 0: never −0
		r.ticks = append(r.ticks, tick{i * step, true})
	}
}

// divideLogarithmically divides a logarithmic axis at powers of ten. A short range is also divided at 2 and 5 times each power of
// ten.
func (r *axisScale) divideLogarithmically(s span) {
	s.from = max(s.from, 1e-6)
	s.to = max(s.to, s.from*1.01)
	steps := []float64{1, 2, 5, 10}
	r.from, r.to = math.Inf(-1), math.Inf(1)
	few := math.Log10(s.to/s.from) < 2.5
	for e := math.Floor(math.Log10(s.from)); e <= math.Ceil(math.Log10(s.to)); e++ {
		for _, m := range steps[:3] {
			v := m * math.Pow(10, e)
			if p := r.transform(v); v <= s.from*1.0001 {
				r.from, r.ticks = p, r.ticks[:0]
			} else if v >= s.to*0.9999 && math.IsInf(r.to, 1) {
				r.to = p
			} else if !math.IsInf(r.to, 1) {
				continue
			}
			r.ticks = append(r.ticks, tick{v, m == 1 || few})
		}
	}
}

// divideByPercentiles places the division lines of a percentile axis at 50, 90, 99, 99.9 and so on.
func (r *axisScale) divideByPercentiles(s span) {
	r.from, r.to = 0, r.transform(s.to)
	for _, p := range []float64{0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999, 99.99999} {
		if p <= s.to && (p > 0 || s.to < 99.9995) { // beside so many nines 50 has the room of 0
			r.ticks = append(r.ticks, tick{p, true})
		}
	}
}

// niceStep returns the smallest round axis step, such as 2.5 or 50, not smaller than the given step. Round
// steps are 1, 2, 2.5 and 5 times a power of ten.
func niceStep(about float64) float64 {
	if about <= 0 || math.IsNaN(about) || math.IsInf(about, 0) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(about)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*unit >= about*0.999 {
			return m * unit
		}
	}
	return 10 * unit
}

// clockStep returns the smallest usual time step, such as 15 minutes, that is at least the given seconds. Usual
// steps are whole seconds, minutes, hours and days.
func clockStep(about float64) float64 {
	steps := []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 6 * 3600, 12 * 3600, 86400}
	for _, s := range steps {
		if s >= about {
			return s
		}
	}
	return niceStep(about/86400) * 86400
}
