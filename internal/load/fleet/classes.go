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

// kind groups checks that cost a server the same.
type kind struct {
	interval, ttl model.Duration
	size          int // of outputs: 0 up to 2 KiB, 1 up to 32 KiB, 2 beyond
}

// rate returns the number of results per second of one such check.
func (k kind) rate() float64 { return 1 / time.Duration(max(1, k.interval)).Seconds() }

// weight returns the cost of one such check in comparisons of shapes: its results, and a little for its state.
func (k kind) weight() float64 { return k.rate() + 1.0/600 }

// shape counts the checks of nodes by kind.
type shape struct {
	counts map[kind]float64
	nodes  []int32
}

// rate returns the results per second of one node.
func (s *shape) rate() (sum float64) {
	for k, n := range s.counts {
		sum += n * k.rate()
	}
	return sum
}

// weight returns the cost of all nodes of the shape: results, states and keepalives.
func (s *shape) weight() float64 {
	sum := 1.0 / 120
	for k, n := range s.counts {
		sum += n * k.weight()
	}
	return sum * float64(len(s.nodes))
}

// from returns the distance to another shape.
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

// kinds returns the kind of each check.
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

// shapes returns the different shapes of the nodes, the largest weight first.
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

// inOrder returns the kinds of a shape in a fixed order: sums of floats depend on it.
func inOrder(counts map[kind]float64) []kind {
	return slices.SortedFunc(maps.Keys(counts), func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.interval, b.interval), cmp.Compare(a.ttl, b.ttl), cmp.Compare(a.size, b.size))
	})
}

// spell returns the counts of a shape as text, to compare shapes.
func spell(counts map[kind]float64) string {
	var b strings.Builder
	for _, k := range inOrder(counts) {
		fmt.Fprintf(&b, "%d/%d/%d=%g ", k.interval, k.ttl, k.size, counts[k])
	}
	return b.String()
}

// group divides shapes, sorted by weight, into at most this many groups: the heaviest shapes, each with the shapes
// nearest to it.
func group(shapes []*shape, most int) [][]*shape {
	centers := shapes[:min(most, len(shapes))]
	groups := make([][]*shape, len(centers))
	for i, s := range shapes {
		at := i
		if i >= len(centers) {
			at = nearest(s, centers)
		}
		groups[at] = append(groups[at], s)
	}
	slices.SortStableFunc(groups, func(a, b []*shape) int { return cmp.Compare(weigh(b), weigh(a)) })
	return groups
}

// nearest returns the index of the center nearest to a shape.
func nearest(s *shape, centers []*shape) (at int) {
	least := math.Inf(1)
	for i, c := range centers {
		if d := s.from(c); d < least {
			at, least = i, d
		}
	}
	return at
}

// mean returns the mean of some shapes, weighted by their nodes.
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

// weigh returns the cost of some shapes.
func weigh(group []*shape) (sum float64) {
	for _, s := range group {
		sum += s.weight()
	}
	return sum
}
