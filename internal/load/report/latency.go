package report

import (
	"github.com/HdrHistogram/hdrhistogram-go"
)

// LatencyOf sums up a histogram of microseconds.
func LatencyOf(h *hdrhistogram.Histogram) Latency {
	q := func(p float64) float64 { return float64(h.ValueAtQuantile(p)) / 1000 }
	return Latency{P50: q(50), P90: q(90), P99: q(99), P999: q(99.9), Max: float64(h.Max()) / 1000}
}

// CurveOf returns the latency by percentile, with denser points towards 100 %, for a plot with the axis 1/(1-p).
func CurveOf(h *hdrhistogram.Histogram) (points []Point) {
	if h.TotalCount() == 0 {
		return nil
	}
	for _, b := range h.CumulativeDistributionWithTicks(8) {
		points = append(points, Point{Percentile: b.Quantile, Ms: float64(b.ValueAt) / 1000})
		if b.Quantile > 99.9999 {
			break
		}
	}
	return points
}

// MaxLatency is the top of the histograms, in microseconds: ten minutes.
const MaxLatency = 600_000_000

// Record counts a time in a histogram of microseconds.
func Record(h *hdrhistogram.Histogram, ns, times int64) {
	_ = h.RecordValues(min(max(ns/1000, 1), MaxLatency), times) // clamped into the range: never an error
}
