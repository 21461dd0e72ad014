package muster

import (
	"fmt"
	"time"
)

// load is a kind of cost that has rate limits of its own.
type load uint8

const (
	loadResults load = iota // results, keepalives, refused signals and other frames
	loadValues              // rows of value blocks, by their headers
	loadReports             // reports and inventories
	loadBytes               // bytes of batches, whatever their signals
	loads
)

var loadNames = [loads]struct{ unit, limit string }{
	loadResults: {"results", ""}, loadValues: {"values", "values_"}, loadReports: {"reports", "reports_"}, loadBytes: {"bytes", "bytes_"},
}

// charge is the cost of a batch against the rate limits of its node and namespace.
type charge [loads]int

// buckets are those of a node or of a namespace.
type buckets [loads]bucket

// rates are tokens per second of each load; zero: no limit.
type rates [loads]float64

func (l *TeamLimits) nodeRates() rates {
	return rates{l.NodeResultsPerSec, l.NodeValuesPerSec, l.NodeReportsPerSec, l.NodeBytesPerSec}
}

func (l *TeamLimits) namespaceRates() rates {
	return rates{l.ResultsPerSec, l.ValuesPerSec, l.ReportsPerSec, l.BytesPerSec}
}

// takeTokens takes the tokens of c from all buckets. It returns the longest wait until a debt is paid,
// and the load that it is of.
func (b *buckets) takeTokens(c *charge, r rates, burst time.Duration, now int64) (wait time.Duration, of load) {
	for i := range b {
		if r[i] <= 0 { // no limit, as most
			continue
		}
		if w := b[i].take(c[i], r[i], burst, now); w > wait {
			wait, of = w, load(i)
		}
	}
	return wait, of
}

// debt is a wait, and the limit that it is owed to.
type debt struct {
	wait   time.Duration
	scope  string // node or namespace
	load   load
	perSec float64
}

// limit is the name of a rate limit in metrics and in Hit.
func (d *debt) limit() string { return d.scope + "_" + loadNames[d.load].limit + "rate" }

func (d *debt) reason() string {
	subject := "this node"
	if d.scope == "namespace" {
		subject = "the namespace"
	}
	return fmt.Sprintf("%s is at its limit of %g %s per second", subject, d.perSec, loadNames[d.load].unit)
}
