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

// kind groups checks that run equally often.
type kind struct{ interval, ttl model.Duration }

// rate returns the number of results per second of one such check.
func (k kind) rate() float64 { return 1 / time.Duration(max(1, k.interval)).Seconds() }

// class has nodes of about the same rate, and the checks of all of them by kind.
type class struct {
	nodes  []int32
	checks map[kind]float64
	sum    float64 // results per second of all nodes
}

// rate returns the results per second of one node.
func (c *class) rate() float64 { return c.sum / float64(len(c.nodes)) }

// add adds the nodes of another class.
func (c *class) add(o *class) {
	c.nodes, c.sum = append(c.nodes, o.nodes...), c.sum+o.sum
	for k, n := range o.checks {
		c.checks[k] += n
	}
}

// kinds returns the kind of each check.
func (f *Fleet) kinds() map[model.CheckID]kind {
	kinds := map[model.CheckID]kind{}
	for id, c := range f.Checks {
		kinds[id] = kind{max(c.Interval, model.Duration(time.Second)), c.TTL}
	}
	return kinds
}

// classes divides the played nodes into at most this many classes, the greatest rate first. Nodes with equal checks are in
// one class; classes whose rates differ least are put together.
func (f *Fleet) classes(kinds map[model.CheckID]kind, most int) []*class {
	held := make([]map[kind]float64, len(f.Nodes))
	for i := range f.States {
		s := &f.States[i]
		if held[s.Node] == nil {
			held[s.Node] = map[kind]float64{}
		}
		held[s.Node][kinds[s.Check]]++
	}
	equal := map[string]*class{}
	for i := range f.Nodes {
		if f.Nodes[i].Left {
			continue
		}
		key := spell(held[i])
		if equal[key] == nil {
			equal[key] = &class{checks: map[kind]float64{}}
		}
		equal[key].add(&class{[]int32{int32(i)}, held[i], 0})
	}
	var list []*class
	for _, key := range slices.Sorted(maps.Keys(equal)) {
		c := equal[key]
		for _, k := range inOrder(c.checks) {
			c.sum += c.checks[k] * k.rate()
		}
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b *class) int { return cmp.Compare(b.rate(), a.rate()) })
	return condense(list, most, func(a, b *class) float64 {
		return (a.rate() - b.rate()) * float64(min(len(a.nodes), len(b.nodes)))
	}, (*class).add)
}

// inOrder returns the kinds of checks in a fixed order: sums of floats depend on it.
func inOrder(checks map[kind]float64) []kind {
	return slices.SortedFunc(maps.Keys(checks), func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.interval, b.interval), cmp.Compare(a.ttl, b.ttl))
	})
}

// spell returns the checks of a node as text, to compare nodes.
func spell(checks map[kind]float64) string {
	var b strings.Builder
	for _, k := range inOrder(checks) {
		fmt.Fprintf(&b, "%d/%d=%g ", k.interval, k.ttl, checks[k])
	}
	return b.String()
}

// condense adds neighbours of a sorted list to each other, those of the least cost first, until at most this many are left.
func condense[T any](list []T, most int, cost func(a, b T) float64, add func(to, other T)) []T {
	for len(list) > most {
		at, least := 0, math.Inf(1)
		for i := range len(list) - 1 {
			if c := cost(list[i], list[i+1]); c < least {
				at, least = i, c
			}
		}
		add(list[at], list[at+1])
		list = slices.Delete(list, at+1, at+2)
	}
	return list
}
