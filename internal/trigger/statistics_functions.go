package trigger

import (
	"math"
	"slices"
	"strconv"
	"time"
)

// point is a value with its time in seconds relative to the evaluation (zero or negative).
type point struct{ at, value float64 }

// compileOverPoints compiles a function that needs all values of its period as floats. The function needs at least `least`
// values.
func (h *historyCall) compileOverPoints(least int, compute func(w *Windows, points []point) operand) evaluator {
	i, truncated := h.storeAll(keepLast, ""), h.truncated()
	s, empty := h.program.spec(i), h.unknownWithoutValues()
	few := unknownBecause("fewer than " + strconv.Itoa(least) + " values of " + h.key + " in " + h.period)
	return func(w *Windows) operand {
		v := &w.list[i]
		switch {
		case v.frontLen == 0 && least > 0:
			return empty
		case v.frontLen < least:
			return few
		case truncated(v):
			return tooMany
		}
		points := make([]point, v.frontLen)
		for rank := range points {
			points[rank] = point{float64(v.at(rank).at-w.now) / float64(time.Second), s.float(v, rank)}
		}
		return compute(w, points).number()
	}
}

// sortedValues returns the values of the points in ascending order.
func sortedValues(points []point) []float64 {
	out := make([]float64, len(points))
	for i, p := range points {
		out[i] = p.value
	}
	slices.Sort(out)
	return out
}

// compilePercentile compiles calls of percentile over an item's values, by the method of nearest rank.
func compilePercentile(c *compiler, n *node) evaluator {
	h := c.historyArguments(n, 3, numeric...).requirePeriod()
	p := ofText(h.argument(n, 2)).number()
	if p.isUnknown() || p.Float() < 0 || p.Float() > 100 {
		c.fail(n, "percentile needs a percentage from 0 to 100: percentile(//key,5m,95)")
	}
	share := p.Float() / 100
	return h.compileOverPoints(1, func(_ *Windows, points []point) operand {
		sorted := sortedValues(points)
		return ofFloat(sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)])
	})
}

// compileStatistic compiles functions such as stddevpop and kurtosis over all values of a period.
func compileStatistic(c *compiler, n *node) evaluator {
	h := c.historyArguments(n, 2, numeric...).requirePeriod()
	least := 1
	if n.name == "stddevsamp" || n.name == "varsamp" {
		least = 2
	}
	compute := statistics[n.name]
	return h.compileOverPoints(least, func(_ *Windows, points []point) operand { return ofFloat(compute(points)) })
}

// statistics has the functions over all values of a period, such as kurtosis.
var statistics = map[string]func([]point) float64{
	"sumofsquares": func(p []point) float64 { return moment(p, 0, 2) },
	"varpop":       func(p []point) float64 { return moment(p, mean(p), 2) / float64(len(p)) },
	"varsamp":      func(p []point) float64 { return moment(p, mean(p), 2) / float64(len(p)-1) },
	"stddevpop":    func(p []point) float64 { return math.Sqrt(moment(p, mean(p), 2) / float64(len(p))) },
	"stddevsamp":   func(p []point) float64 { return math.Sqrt(moment(p, mean(p), 2) / float64(len(p)-1)) },
	"skewness": func(p []point) float64 {
		m, n := mean(p), float64(len(p))
		return moment(p, m, 3) / n / math.Pow(moment(p, m, 2)/n, 1.5)
	},
	"kurtosis": func(p []point) float64 {
		m, n := mean(p), float64(len(p))
		return moment(p, m, 4) / n / math.Pow(moment(p, m, 2)/n, 2)
	},
	"mad": func(p []point) float64 {
		center := median(sortedValues(p))
		distances := make([]float64, len(p))
		for i := range p {
			distances[i] = math.Abs(p[i].value - center)
		}
		slices.Sort(distances)
		return median(distances)
	},
}

// mean returns the arithmetic mean of the points' values.
func mean(points []point) float64 {
	var sum float64
	for _, p := range points {
		sum += p.value
	}
	return sum / float64(len(points))
}

// moment returns the sum of the values' distances from a center, each raised to a power.
func moment(points []point, center float64, power int) float64 {
	var sum float64
	for _, p := range points {
		d, product := p.value-center, 1.0
		for range power {
			product *= d
		}
		sum += product
	}
	return sum
}

// median returns the median of sorted numbers.
func median(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// compileRate compiles calls of rate, the increase of a counter per second as PromQL defines. It is the
// increase of a counter despite resets, extrapolated to the whole period, per second.
func compileRate(c *compiler, n *node) evaluator {
	h := c.historyArguments(n, 2, numeric...).requirePeriod()
	p := h.spec.period
	return h.compileOverPoints(2, func(w *Windows, points []point) operand {
		first, last := points[0], points[len(points)-1]
		increase := last.value - first.value
		for i := 1; i < len(points); i++ {
			if points[i].value < points[i-1].value {
				increase += points[i-1].value
			}
		}
		sampled := last.at - first.at
		if sampled <= 0 {
			return unknownBecause("all values of " + h.key + " in " + h.period + " have the same time")
		}
		if p.count > 0 {
			return ofFloat(increase / sampled)
		}
		end := p.end(w.now)
		toEnd := float64(end-w.now)/float64(time.Second) - last.at
		toBegin := first.at - float64(p.startOf(end)-w.now)/float64(time.Second)
		between := sampled / float64(len(points)-1)
		if increase > 0 && first.value >= 0 {
			toBegin = min(toBegin, sampled*first.value/increase) // a counter began at 0 or above
		}
		if toBegin >= between*1.1 {
			toBegin = between / 2
		}
		if toEnd >= between*1.1 {
			toEnd = between / 2
		}
		return ofFloat(increase * (sampled + toBegin + toEnd) / sampled / p.span.Seconds())
	})
}
