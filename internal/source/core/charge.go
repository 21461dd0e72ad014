package core

import (
	"fmt"
	"time"
)

// Load is a kind of cost with rate limits of its own.
type Load uint8

const (
	LoadResults Load = iota // results, keepalives, refused signals and other frames
	LoadValues              // rows of value blocks, by their headers
	LoadReports             // reports and inventories
	LoadBytes               // bytes of batches, whatever their signals
	loads
)

var loadNames = [loads]struct{ unit, limit string }{
	LoadResults: {"results", ""}, LoadValues: {"values", "values_"}, LoadReports: {"reports", "reports_"}, LoadBytes: {"bytes", "bytes_"},
}

// Charge is the cost of a batch against the rate limits of its node and namespace.
type Charge [loads]int

// buckets are the buckets of a node or of a namespace.
type buckets [loads]Bucket

// rates are tokens per second of each load; zero: no limit.
type rates [loads]float64

func (l *NamespaceLimits) nodeRates() rates {
	return rates{l.NodeResultsPerSec, l.NodeValuesPerSec, l.NodeReportsPerSec, l.NodeBytesPerSec}
}

func (l *NamespaceLimits) namespaceRates() rates {
	return rates{l.ResultsPerSec, l.ValuesPerSec, l.ReportsPerSec, l.BytesPerSec}
}

// spend takes the tokens of c from all buckets. It returns the longest wait until a debt is paid, and its load.
func (b *buckets) spend(c *Charge, r rates, burst time.Duration, now int64) (wait time.Duration, of Load) {
	for i := range b {
		if r[i] <= 0 { // no limit, as most
			continue
		}
		if w := b[i].Spend(c[i], r[i], burst, now); w > wait {
			wait, of = w, Load(i)
		}
	}
	return wait, of
}

// Debt is the time that a session has to wait before it reads on, and the limit that it met.
type Debt struct {
	Wait   time.Duration
	scope  string // node or namespace
	load   Load
	perSec float64
}

// Limit returns the name of the limit in metrics and in Hit.
func (d *Debt) Limit() string { return d.scope + "_" + loadNames[d.load].limit + "rate" }

// Reason returns a sentence for people.
func (d *Debt) Reason() string {
	subject := "this node"
	if d.scope == "namespace" {
		subject = "the namespace"
	}
	return fmt.Sprintf("%s is at its limit of %g %s per second", subject, d.perSec, loadNames[d.load].unit)
}
