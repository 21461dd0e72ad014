package live

import (
	"math"

	"github.com/muster-fleet/muster/internal/load/report"
)

// mean combines several seconds of one phase into one sample: the mean of rates, shares and p50, refused and failed
// rounded up, and the p99 of the worst second. Other values are from the last second.
func mean(seconds []report.Sample) report.Sample {
	last := seconds[len(seconds)-1]
	n := float64(len(seconds))
	var acked, offered, refused, failed, commits, waited, server, loader float64
	var told, median, worst float64
	for i := range seconds {
		s := &seconds[i]
		acked, offered = acked+float64(s.Acked), offered+float64(s.Offered)
		refused, failed = refused+float64(s.Refused), failed+float64(s.Failed)
		commits, waited = commits+s.Commits, waited+s.Commits*s.CommitMs
		server, loader = server+s.ServerCPU, loader+s.LoaderCPU
		if s.Latency != nil {
			told, median, worst = told+1, median+s.Latency.P50, max(worst, s.Latency.P99)
		}
	}
	last.Acked, last.Offered = uint64(math.Round(acked/n)), uint64(math.Round(offered/n))
	last.Refused, last.Failed = uint64(math.Ceil(refused/n)), uint64(math.Ceil(failed/n))
	last.ServerCPU, last.LoaderCPU, last.Commits = server/n, loader/n, commits/n
	if commits > 0 {
		last.CommitMs = waited / commits
	}
	if told > 0 {
		last.Latency = &report.Latency{P50: median / told, P99: worst}
	}
	return last
}
