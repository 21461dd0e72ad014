package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/journal"
)

// Consumers shows how far the consumers of a journal are behind; it is a prometheus.Collector.
// The largest value names the consumer that keeps the journal from being cut.
type Consumers struct {
	List *journal.Consumers
	// Behind returns the bytes of the journal after a position.
	Behind func(journal.Position) int64
}

var behindDesc = prometheus.NewDesc("muster_journal_consumer_behind_bytes",
	"Bytes of the journal that a consumer still needs, about.", []string{"consumer"}, nil)

// Describe implements prometheus.Collector.
func (c Consumers) Describe(ch chan<- *prometheus.Desc) { ch <- behindDesc }

// Collect implements prometheus.Collector.
func (c Consumers) Collect(ch chan<- prometheus.Metric) {
	for _, one := range c.List.List() {
		ch <- prometheus.MustNewConstMetric(behindDesc, prometheus.GaugeValue, float64(c.Behind(one.At)), one.Name)
	}
}
