package judge

import (
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/load/report"
)

// A second has a stall if a commit of the server took this many times as long as in the median second, and this many ms.
const (
	stallTimes = 5
	stallMs    = 20
)

// Stalls names the seconds with slow commits of the server, which wait for the disk, and the latency that they caused;
// empty if there are none, or they caused none.
func Stalls(samples []report.Sample) string {
	var commits, latencies []float64
	for i := range samples {
		if s := &samples[i]; s.Second >= 0 && s.CommitMs > 0 {
			commits, latencies = append(commits, s.CommitMs), append(latencies, s.Beyond)
		}
	}
	usual, usualLatency := median(slices.Clone(commits)), median(slices.Clone(latencies))
	n, commit, latency, others := 0, 0.0, 0.0, 0.0
	for i := range commits {
		near := slices.Max(latencies[i:min(i+2, len(latencies))]) // results of a stall are acknowledged after it
		switch stalled := commits[i] >= max(stallMs, stallTimes*usual); {
		case stalled && near > 2*usualLatency:
			n, commit, latency = n+1, max(commit, commits[i]), max(latency, near)
		case i == 0 || commits[i-1] < max(stallMs, stallTimes*usual):
			others = max(others, latencies[i])
		}
	}
	if n == 0 || latency <= others {
		return ""
	}
	return fmt.Sprintf("the server's commits stalled in %d of %d seconds: a commit took up to %.0f ms on average, usually %.1f ms, and results up to %.0f ms beyond the linger (p99); in the other seconds at most %.0f ms",
		n, len(commits), commit, usual, latency, others)
}
