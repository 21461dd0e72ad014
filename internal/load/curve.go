package load

import "github.com/HdrHistogram/hdrhistogram-go"

// curve is a latency by percentile, denser towards 100 %: enough points for a plot whose
// axis is 1/(1-p), down to one in a million.
func curve(h *hdrhistogram.Histogram) (points []Point) {
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
