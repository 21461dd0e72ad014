package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/queue"
)

// Queues shows the queues of a registry; it is a prometheus.Collector.
type Queues struct{ Of *queue.Registry }

var (
	depthDesc    = prometheus.NewDesc("muster_queue_depth", "What waits in the queue now.", []string{"queue", "unit"}, nil)
	capacityDesc = prometheus.NewDesc("muster_queue_capacity", "What the queue can hold.", []string{"queue", "unit"}, nil)
	passedDesc   = prometheus.NewDesc("muster_queue_passed_total", "What the queue ever accepted.", []string{"queue"}, nil)
	overflowDesc = prometheus.NewDesc("muster_queue_overflow_total", "What met a full queue, by what became of it.", []string{"queue", "policy"}, nil)
)

// Describe implements prometheus.Collector.
func (q Queues) Describe(ch chan<- *prometheus.Desc) {
	ch <- depthDesc
	ch <- capacityDesc
	ch <- passedDesc
	ch <- overflowDesc
}

// Collect implements prometheus.Collector.
func (q Queues) Collect(ch chan<- prometheus.Metric) {
	for _, i := range q.Of.List() {
		ch <- prometheus.MustNewConstMetric(depthDesc, prometheus.GaugeValue, float64(i.Depth), i.Name, i.Unit)
		ch <- prometheus.MustNewConstMetric(capacityDesc, prometheus.GaugeValue, float64(i.Capacity), i.Name, i.Unit)
		ch <- prometheus.MustNewConstMetric(passedDesc, prometheus.CounterValue, float64(i.Passed), i.Name)
		ch <- prometheus.MustNewConstMetric(overflowDesc, prometheus.CounterValue, float64(i.Overflow), i.Name, string(i.Policy))
	}
}
