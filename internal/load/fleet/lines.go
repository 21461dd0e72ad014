package fleet

import (
	"math"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// linesOfClass is how many lines of checks a class has at most: a page is to be read.
const linesOfClass = 5

// line is some kinds of checks of a class that are shown as one.
type line struct {
	kinds    []kind
	count    float64 // of checks, on one node
	rate     float64 // results per second of them, on one node
	interval model.Duration
	ttl      model.Duration

	// Of all states of the class's nodes that are of these kinds.
	states, flapping int
	status           [4]int
	changed, results float64 // states that changed in the day and do not flap; results of all that do not
	bytes            int     // of all outputs
	checks           map[model.CheckID]bool
}

// linesOf makes lines of what a class holds: kinds that are near each other share one. A server
// has room for so many checks of each node.
func linesOf(counts map[kind]float64, room float64) []*line {
	var list []*line
	for _, k := range inOrder(counts) {
		if n := counts[k]; n > 0 {
			list = append(list, &line{kinds: []kind{k}, count: n, rate: n * k.rate(), checks: map[model.CheckID]bool{}})
		}
	}
	for len(list) > linesOfClass {
		least, into := -1, 0
		for i, l := range list {
			if least < 0 || l.rate < list[least].rate {
				least = i
			}
		}
		near := math.Inf(1)
		for i, l := range list {
			if d := apartness(l, list[least]); i != least && d < near {
				into, near = i, d
			}
		}
		to, gone := list[into], list[least]
		to.kinds = append(to.kinds, gone.kinds...)
		to.count += gone.count
		to.rate += gone.rate
		list = slices.Delete(list, least, least+1)
	}
	whole := 0.0
	for _, l := range list {
		whole += max(1, math.Round(l.count))
	}
	for _, l := range list {
		if whole > room { // a server takes more only where it is told so
			l.count *= (room - linesOfClass) / whole
		}
		l.settle()
	}
	return list
}

// apartness is how unlike each other two lines are.
func apartness(a, b *line) float64 {
	ka, kb := a.kinds[0], b.kinds[0]
	d := math.Abs(math.Log(a.rate/a.count) - math.Log(b.rate/b.count))
	if (ka.ttl > 0) != (kb.ttl > 0) {
		d++
	}
	return d + 3*math.Abs(float64(ka.size-kb.size))
}

// settle makes whole checks of it. Where so many do not come out, the interval gives: the
// rate stays.
func (l *line) settle() {
	whole := max(1, math.Round(l.count))
	l.interval = l.kinds[0].interval
	if exact := whole / l.rate; len(l.kinds) > 1 || math.Abs(exact*l.kinds[0].rate()-1) > 0.005 {
		l.interval = model.Duration(time.Duration(whole / l.rate * float64(time.Second)).Round(100 * time.Millisecond))
	}
	l.interval = min(max(l.interval, model.Duration(time.Second)), model.Duration(300*day))
	l.count = whole
	if first := l.kinds[0]; first.ttl > 0 {
		l.ttl = first.ttl
		if l.interval != first.interval {
			ratio := max(1.5, float64(first.ttl)/float64(first.interval))
			l.ttl = model.Duration(time.Duration(ratio * float64(l.interval)).Round(time.Second))
		}
		l.ttl = min(l.ttl, model.Duration(360*day))
	}
}

// take counts one state.
func (l *line) take(s *State) {
	l.states++
	l.status[s.Status&3]++
	l.bytes += int(s.Bytes)
	l.checks[s.Check] = true
	if s.Flaps {
		l.flapping++
		return
	}
	l.results += s.Results
	if s.Changed {
		l.changed++
	}
}
