package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// kind is what checks have in common that cost a server the same.
type kind struct {
	interval, ttl model.Duration
	size          int // of outputs: 0 up to 2 KiB, 1 up to 32 KiB, 2 beyond
}

// rate is how often a second one such check runs.
func (k kind) rate() float64 { return 1 / time.Duration(max(1, k.interval)).Seconds() }

// weight is what one such check counts for where shapes are compared: its results, and a
// little for the state that it keeps.
func (k kind) weight() float64 { return k.rate() + 1.0/600 }

// shape is what nodes hold: how many checks of each kind.
type shape struct {
	counts map[kind]float64
	nodes  []int32
}

func (s *shape) rate() (sum float64) {
	for k, n := range s.counts {
		sum += n * k.rate()
	}
	return sum
}

// weight is what all its nodes cost, about: their results, states and keepalives.
func (s *shape) weight() float64 {
	sum := 1.0 / 120
	for k, n := range s.counts {
		sum += n * k.weight()
	}
	return sum * float64(len(s.nodes))
}

// from is how far one shape is from another.
func (s *shape) from(o *shape) (sum float64) {
	for k, n := range s.counts {
		sum += math.Abs(n-o.counts[k]) * k.weight()
	}
	for k, n := range o.counts {
		if _, both := s.counts[k]; !both {
			sum += n * k.weight()
		}
	}
	return sum
}

// kinds says of which kind each check is.
func (f *Fleet) kinds() map[model.CheckID]kind {
	bytes, count := map[model.CheckID]float64{}, map[model.CheckID]float64{}
	for i := range f.States {
		s := &f.States[i]
		bytes[s.Check] += float64(s.Bytes)
		count[s.Check]++
	}
	kinds := map[model.CheckID]kind{}
	for id, c := range f.Checks {
		k := kind{interval: max(c.Interval, model.Duration(time.Second)), ttl: c.TTL}
		switch mean := bytes[id] / max(1, count[id]); {
		case mean > 32<<10:
			k.size = 2
		case mean > 2<<10:
			k.size = 1
		}
		kinds[id] = k
	}
	return kinds
}

// shapes are the different ones that nodes have, those that cost most first.
func (f *Fleet) shapes(kinds map[model.CheckID]kind) []*shape {
	held := make([]map[kind]float64, len(f.Nodes))
	for i := range f.States {
		s := &f.States[i]
		if held[s.Node] == nil {
			held[s.Node] = map[kind]float64{}
		}
		held[s.Node][kinds[s.Check]]++
	}
	same := map[string]*shape{}
	for i := range f.Nodes {
		if f.Nodes[i].Left {
			continue
		}
		key := spell(held[i])
		if same[key] == nil {
			same[key] = &shape{counts: held[i]}
		}
		same[key].nodes = append(same[key].nodes, int32(i))
	}
	list := make([]*shape, 0, len(same))
	for _, key := range slices.Sorted(maps.Keys(same)) {
		list = append(list, same[key])
	}
	slices.SortStableFunc(list, func(a, b *shape) int { return cmp.Compare(b.weight(), a.weight()) })
	return list
}

// inOrder are the kinds of a shape, always in the same order: sums of floats depend on it.
func inOrder(counts map[kind]float64) []kind {
	return slices.SortedFunc(maps.Keys(counts), func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.interval, b.interval), cmp.Compare(a.ttl, b.ttl), cmp.Compare(a.size, b.size))
	})
}

func spell(counts map[kind]float64) string {
	var b strings.Builder
	for _, k := range inOrder(counts) {
		fmt.Fprintf(&b, "%d/%d/%d=%g ", k.interval, k.ttl, k.size, counts[k])
	}
	return b.String()
}

// gather puts shapes together until there are at most so many groups, those that are near
// each other first to be one: it begins with the shape that costs most, then takes each time
// the one that is worst shown by those it has, and moves the middle of each group to the
// mean of its nodes until none changes its group.
func gather(shapes []*shape, most int) [][]*shape {
	const enough, rounds = 0.002, 10
	total := 0.0
	for _, s := range shapes {
		total += s.weight()
	}
	middles := []*shape{shapes[0]}
	for len(middles) < min(most, len(shapes)) {
		worst, far := -1, 0.0
		for i, s := range shapes {
			_, d := nearest(s, middles)
			if lost := d * float64(len(s.nodes)); lost > far {
				worst, far = i, lost
			}
		}
		if worst < 0 || far < enough*total {
			break
		}
		middles = append(middles, shapes[worst])
	}
	of := make([]int, len(shapes))
	for round := range rounds {
		moved := false
		for i, s := range shapes {
			at, _ := nearest(s, middles)
			moved, of[i] = moved || at != of[i], at
		}
		if !moved && round > 0 {
			break
		}
		for at := range middles {
			middles[at] = middle(shapes, of, at)
		}
	}
	groups := make([][]*shape, len(middles))
	for i, s := range shapes {
		groups[of[i]] = append(groups[of[i]], s)
	}
	groups = slices.DeleteFunc(groups, func(g []*shape) bool { return len(g) == 0 })
	slices.SortStableFunc(groups, func(a, b []*shape) int { return cmp.Compare(weigh(b), weigh(a)) })
	return groups
}

func nearest(s *shape, middles []*shape) (at int, distance float64) {
	distance = math.Inf(1)
	for i, m := range middles {
		if d := s.from(m); d < distance {
			at, distance = i, d
		}
	}
	return at, distance
}

// middle is the mean of a group's nodes; a group that lost all keeps nothing.
func middle(shapes []*shape, of []int, at int) *shape {
	var list []*shape
	for i, s := range shapes {
		if of[i] == at {
			list = append(list, s)
		}
	}
	return mean(list)
}

func mean(list []*shape) *shape {
	m, nodes := &shape{counts: map[kind]float64{}}, 0.0
	for _, s := range list {
		nodes += float64(len(s.nodes))
	}
	for _, s := range list {
		for k, n := range s.counts {
			m.counts[k] += n * float64(len(s.nodes)) / nodes
		}
	}
	return m
}

func weigh(group []*shape) (sum float64) {
	for _, s := range group {
		sum += s.weight()
	}
	return sum
}
