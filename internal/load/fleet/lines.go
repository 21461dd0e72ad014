package fleet

import (
	"math"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// linesOfClass bounds the checks of a class: people read the file.
const linesOfClass = 5

// line is one entry of the checks of a class: one kind, or several that are near each other.
type line struct {
	kinds    []kind
	count    float64 // of checks, on one node
	rate     float64 // results per second of them, on one node
	interval model.Duration
	ttl      model.Duration

	// Of all states of the class's nodes that are of these kinds.
	states, flapping int
	status           [4]int
	changes          uint64 // of states that do not flap
	results          uint64 // likewise
	bytes            int    // of all outputs
}

// linesOf returns the lines of a class; a server accepts at most limit checks of each node.
func linesOf(counts map[kind]float64, limit float64) []*line {
	var list []*line
	for _, k := range inOrder(counts) {
		if n := counts[k]; n > 0 {
			list = append(list, &line{kinds: []kind{k}, count: n, rate: n * k.rate()})
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
			if d := distance(l, list[least]); i != least && d < near {
				into, near = i, d
			}
		}
		to, merged := list[into], list[least]
		to.kinds = append(to.kinds, merged.kinds...)
		to.count += merged.count
		to.rate += merged.rate
		list = slices.Delete(list, least, least+1)
	}
	whole := 0.0
	for _, l := range list {
		whole += max(1, math.Round(l.count))
	}
	for _, l := range list {
		if whole > limit {
			l.count *= (limit - linesOfClass) / whole
		}
		l.round()
	}
	return list
}

// distance compares two lines.
func distance(a, b *line) float64 {
	ka, kb := a.kinds[0], b.kinds[0]
	d := math.Abs(math.Log(a.rate/a.count) - math.Log(b.rate/b.count))
	if (ka.ttl > 0) != (kb.ttl > 0) {
		d++
	}
	return d + 3*math.Abs(float64(ka.size-kb.size))
}

// round rounds the number of checks, and changes the interval so that the rate stays.
func (l *line) round() {
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

// add counts one state of the line's checks.
func (l *line) add(s *State) {
	l.states++
	l.status[s.Status&3]++
	l.bytes += int(s.Bytes)
	if s.Flaps {
		l.flapping++
		return
	}
	l.changes += uint64(s.Changes)
	l.results += s.Results
}
