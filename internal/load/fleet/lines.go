package fleet

import (
	"math"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// linesOfClass bounds the checks of a class: people read the file.
const linesOfClass = 5

// line is one entry of the checks of a class: one kind, or several whose intervals are near each other.
type line struct {
	Tally
	first       Kind
	mixed       bool    // it has other kinds, too
	count, rate float64 // checks and results per second of one node
}

// lines returns the lines of a class. A server accepts a limited number of checks of each node.
func (c *class) lines() []*line {
	var list []*line
	for _, k := range c.held.kinds() {
		n := float64(c.held[k].States) / float64(len(c.nodes))
		list = append(list, &line{Tally: *c.held[k], first: k, count: n, rate: n * k.rate()})
	}
	list = condense(list, linesOfClass, func(a, b *line) float64 { return min(a.rate, b.rate) }, func(to, other *line) {
		to.Tally.add(&other.Tally)
		to.mixed, to.count, to.rate = true, to.count+other.count, to.rate+other.rate
	})
	whole := 0.0
	for _, l := range list {
		whole += max(1, math.Round(l.count))
	}
	for _, l := range list {
		if whole > model.DefaultStatesPerNode {
			l.count *= (model.DefaultStatesPerNode - linesOfClass) / whole
		}
		l.count = max(1, math.Round(l.count))
	}
	return list
}

// times returns interval and TTL of the line's checks: those of its one kind, or an interval that keeps the rate.
func (l *line) times() (interval, ttl model.Duration) {
	interval, ttl = l.first.Interval, l.first.TTL
	if exact := l.count / l.rate; l.mixed || math.Abs(exact*l.first.rate()-1) > 0.005 {
		interval = model.Duration(time.Duration(exact * float64(time.Second)).Round(100 * time.Millisecond))
	}
	interval = min(max(interval, model.Duration(time.Second)), model.Duration(300*day))
	if ttl > 0 && interval != l.first.Interval {
		ratio := max(1.5, float64(ttl)/float64(l.first.Interval))
		ttl = model.Duration(time.Duration(ratio * float64(interval)).Round(time.Second))
	}
	return interval, min(ttl, model.Duration(360*day))
}

// check returns the check of this line in the scenario file.
func (l *line) check(name string) scenario.Check {
	out := scenario.Check{Name: name, Count: int(l.count)}
	out.Output.Bytes = model.Size(min(max(l.Bytes/max(1, l.States), 48), scenario.MaxOutput))
	out.Interval, out.TTL = l.times()
	status, failing := map[string]float64{}, 0.0
	for s, name := range []string{"", "warning", "critical", "unknown"} {
		if share := share(float64(l.Status[s]), float64(l.States)); s > 0 && share > 0 {
			status[name] = share
			failing += share
		}
	}
	out.Flapping = share(float64(l.Flapping), float64(l.States))
	out.Changes = min(1, share(float64(l.Changes), float64(l.Results)))
	if least := 0.6 * out.Changes; failing < least { // a status can change so often only if as many states are not OK at times
		status["critical"] = share(status["critical"]+least-failing, 1)
	}
	if len(status) > 0 {
		out.Status = status
	}
	return out
}

// share returns part/whole, rounded down to four digits or more, so that shares add up to one at most.
func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	digits := 1e4
	if part/whole < 0.001 {
		digits = 1e6
	}
	return math.Floor(part/whole*digits+1e-9) / digits
}
