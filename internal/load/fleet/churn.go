package fleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// coming counts how the nodes of a class come and go.
type coming struct {
	begun, booted int           // sessions that began since the server knows of sessions, and those of them that began with their agent
	seen          time.Duration // the known time of all sessions of the class
	outages       []time.Duration
	watched       time.Duration // node time in which outages were counted
}

// add counts the session and outages of a node.
func (c *coming) add(n *Node, f *Fleet) {
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

// churn returns the rates. Sessions end by chance: the number that began in a time, divided by the time that all present
// sessions lasted in it, is the rate. A session that began after an outage counts once.
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

// usual returns the median length of the ended outages.
func (c *coming) usual() time.Duration {
	over := slices.DeleteFunc(slices.Clone(c.outages), func(d time.Duration) bool { return d <= 0 })
	if len(over) == 0 {
		return 10 * time.Minute
	}
	slices.Sort(over)
	return min(max(time.Second, over[len(over)/2].Round(time.Second)), day)
}

// rate returns a rate in percent of the class per hour, or an empty rate if it is negligible.
func rate(percent float64) scenario.Rate {
	if percent < 0.0001 {
		return ""
	}
	return scenario.Rate(fmt.Sprintf("%.3g%%/h", percent))
}
