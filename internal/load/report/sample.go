package report

import (
	"maps"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Sample is one second of a run, for the progress line and the report.
type Sample struct {
	Second    int     `json:"second"` // when it ended, since the measurement began; negative: warming up
	Sent      uint64  `json:"sent"`   // results and keepalives that left their agents' frames, per second
	Acked     uint64  `json:"acked"`  // per second
	Connected int     `json:"connected"`
	ServerCPU float64 `json:"serverCpu,omitempty"` // cores
	LoaderCPU float64 `json:"loaderCpu,omitempty"`
	OthersCPU float64 `json:"othersCpu,omitempty"` // what everybody else on the machine used
	ServerRSS int64   `json:"serverRss,omitempty"` // bytes
	LoaderRSS int64   `json:"loaderRss,omitempty"`

	// Of a scenario. Latencies in milliseconds, of what was acknowledged in this second.
	Phase   string             `json:"phase,omitempty"`
	Nth     int                `json:"-"`                 // of the scenario's phases, from 1; 0: none. Phase is for people: that of a step names its rate
	Offered uint64             `json:"offered,omitempty"` // meant to be sent in this second
	Refused uint64             `json:"refused,omitempty"`
	Failed  uint64             `json:"failed,omitempty"` // connections that were not opened
	Latency *Latency           `json:"latencyMs,omitempty"`
	Beyond  float64            `json:"beyondP99Ms,omitempty"` // p99 beyond the linger
	Waits   map[string]float64 `json:"waitsMs,omitempty"`     // p99 of who waits beside the results, by figure: list-p99, apply-p99, watch-p99, holds-p99
	Lag     float64            `json:"lagMs,omitempty"`       // of the generator, p99

	Internals
}

// Internals has the figures that the server tells of itself in a second, and the waits for locks of both.
type Internals struct {
	Heap       float64            `json:"serverHeap,omitempty"` // bytes in use
	Goroutines float64            `json:"serverGoroutines,omitempty"`
	GC         float64            `json:"serverGcMs,omitempty"` // pauses in this second
	Commits    float64            `json:"commits,omitempty"`    // of the journal
	Syncs      float64            `json:"syncs,omitempty"`
	CommitMs   float64            `json:"commitMs,omitempty"`      // mean
	Written    float64            `json:"written,omitempty"`       // bytes sent to storage by the server
	Locks      float64            `json:"serverLocks,omitempty"`   // share of time that its goroutines waited for locks, see Usage.LockShare …
	OwnLocks   float64            `json:"loaderLocks,omitempty"`   // … and the loader's
	Behind     *float64           `json:"historyBehind,omitempty"` // seconds: age of the oldest change that history did not hold
	Queues     map[string]float64 `json:"queues,omitempty"`        // depths, by name
}

// Figures returns the figures that one second shows, by their names and in their units, to compare with objectives. The
// rate is not among them, because results come in bursts.
func (s *Sample) Figures() map[string]float64 {
	all := maps.Clone(s.Waits)
	if all == nil {
		all = map[string]float64{}
	}
	if l := s.Latency; l != nil {
		all["p50"], all["p99"], all["p999"], all["max"] = l.P50, l.P99, l.P999, l.Max
	}
	if s.Beyond > 0 {
		all["beyond-p99"] = s.Beyond
	}
	if s.Behind != nil {
		all[HistoryBehind] = *s.Behind
	}
	return all
}

// Within returns the seconds that ended in a phase.
func Within(samples []Sample, from, to float64) (list []Sample) {
	for _, s := range samples {
		if float64(s.Second) > from && float64(s.Second) <= to {
			list = append(list, s)
		}
	}
	return list
}

// Enough is the share of the offered results of a step that must be acknowledged while it lasts.
const Enough = 0.98

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
