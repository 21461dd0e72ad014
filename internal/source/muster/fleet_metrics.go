package muster

import (
	"github.com/prometheus/client_golang/prometheus"
)

// fleetMetrics sums the reports of connected agents over the fleet, because a label per node would be a series per node.
// It is computed at each scrape.
type fleetMetrics struct {
	server *Server

	reports    *prometheus.Desc
	maxSpooled *prometheus.Desc
	spooled    *prometheus.Desc
	memory     *prometheus.Desc
	sums       *prometheus.Desc
}

func newFleetMetrics(s *Server) *fleetMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("muster_agents_"+name, help, labels, nil)
	}
	return &fleetMetrics{server: s,
		reports:    desc("told", "Connected agents that have sent a report on themselves; the other metrics here are of these."),
		maxSpooled: desc("spooled_signals_max", "Signals in the fullest spool."),
		spooled:    desc("spooled_signals", "Signals in the spools."),
		memory:     desc("resident_bytes", "Resident memory of agents that measure it."),
		sums:       desc("counts", "Sums of the agents' counters since each agent started; an agent that disconnects is subtracted.", "what"),
	}
}

// Describe implements prometheus.Collector.
func (m *fleetMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.reports, m.maxSpooled, m.spooled, m.memory, m.sums} {
		ch <- d
	}
}

// histogram counts values by upper bounds.
type histogram struct {
	bounds []float64
	within map[float64]uint64
	n      uint64
	sum    float64
}

func newHistogram(bounds ...float64) *histogram {
	h := &histogram{bounds: bounds, within: map[float64]uint64{}}
	for _, b := range bounds {
		h.within[b] = 0
	}
	return h
}

func (h *histogram) add(v float64) {
	h.n++
	h.sum += v
	for _, b := range h.bounds {
		if v <= b {
			h.within[b]++
		}
	}
}

// Collect implements prometheus.Collector.
func (m *fleetMetrics) Collect(ch chan<- prometheus.Metric) {
	spooled, memory := newHistogram(0, 10, 100, 1000, 10_000, 100_000), newHistogram(10<<20, 20<<20, 40<<20, 80<<20, 160<<20)
	most := uint64(0)
	counts := [...]struct {
		what string
		n    float64
	}{{what: "runs"}, {what: "forks"}, {what: "skipped"}, {what: "late"}, {what: "bytes_sent"}, {what: "gave_way"}, {what: "refused"}, {what: "lost"}}
	m.server.registry.ForEach(func(x *session) {
		r := x.report.Load()
		if r == nil {
			return
		}
		most = max(most, r.Spooled)
		spooled.add(float64(r.Spooled))
		if r.ResidentBytes > 0 {
			memory.add(float64(r.ResidentBytes))
		}
		for i, n := range [...]uint64{r.Runs, r.Forks, r.Skipped, r.Late, r.BytesSent, r.Evicted, r.Refused, r.Lost} {
			counts[i].n += float64(n)
		}
	})
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(m.reports, float64(spooled.n))
	gauge(m.maxSpooled, float64(most))
	ch <- prometheus.MustNewConstHistogram(m.spooled, spooled.n, spooled.sum, spooled.within)
	ch <- prometheus.MustNewConstHistogram(m.memory, memory.n, memory.sum, memory.within)
	for _, c := range counts {
		gauge(m.sums, c.n, c.what)
	}
}
