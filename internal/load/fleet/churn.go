package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// coming is how the nodes of a class come and go.
type coming struct {
	begun, booted int           // sessions of which the server knows that they began, and those of them that began with their agent
	seen          time.Duration // for how long all sessions of the class together were seen
	outages       []time.Duration
	watched       time.Duration // node time in which outages were counted
}

func (c *coming) take(n *Node, f *Fleet) {
	if window := f.At.Sub(f.Since); n.Connected && window > 0 {
		c.seen += min(n.Age, window)
		if n.Age < window {
			c.begun++
			if n.Booted {
				c.booted++
			}
		}
	}
	c.outages = append(c.outages, n.Outages...)
	c.watched += f.Day
}

// churn makes rates of it. Sessions end as if by chance, so that those which began in a
// time, divided by how long all that are there have lasted in it, is how often one begins:
// the oldest, which say only that nothing happened, count as such. What began after an
// outage is not counted twice.
func (c *coming) churn() (out scenario.Churn) {
	perHour := func(n int, in time.Duration) float64 {
		if n <= 0 || in <= 0 {
			return 0
		}
		return float64(n) / in.Hours() * 100
	}
	offline := perHour(len(c.outages), c.watched)
	restarts := perHour(c.booted, c.seen)
	out.Offline, out.Restarts = rate(offline), rate(restarts)
	out.Reconnects = rate(perHour(c.begun-c.booted, c.seen) - offline)
	if out.Offline != "" {
		out.OfflineFor = model.Duration(c.usual())
	}
	return out
}

// usual is how long the outages that are over lasted, median.
func (c *coming) usual() time.Duration {
	over := slices.DeleteFunc(slices.Clone(c.outages), func(d time.Duration) bool { return d <= 0 })
	if len(over) == 0 {
		return 10 * time.Minute
	}
	slices.Sort(over)
	return min(max(time.Second, over[len(over)/2].Round(time.Second)), day)
}

// rate is so many percent of the class in an hour; less than a hundredth is none.
func rate(percent float64) scenario.Rate {
	if percent < 0.0001 {
		return ""
	}
	return scenario.Rate(fmt.Sprintf("%.3g%%/h", percent))
}
