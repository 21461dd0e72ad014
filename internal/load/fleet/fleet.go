// Package fleet makes a scenario of a live installation: the number of nodes with each shape of checks, the intervals,
// lengths, statuses and changes of their results. Names become numbers; outputs, labels and commands are not kept, only lengths.
//
// Read asks the API of a server, page by page and with pauses, as a viewer. Fleet.Scenario divides the nodes into a few
// classes of about the same rate; Fleet.YAML is the file.
//
// The package owns no goroutine and no lock. Start reading at read.go, then fleet.go and scenario.go.
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

// Fleet is the shape of an installation.
type Fleet struct {
	At      time.Time // when reading ended
	Version string    // of the server

	Nodes  []*Node
	Checks map[model.CheckID]Kind
	States int // event states, of the nodes that are played

	Never, Gone int // nodes that were left out: they never had an agent, or no sign of life for a day
	Unknown     int // event states of deleted checks, left out
}

// Node is one machine.
type Node struct {
	Interval model.Duration // of its keepalive …
	Timeout  model.Duration
	Left     bool // not played: no sign of life for a day
	TLS      bool // with a certificate of its own; assumed of a node without a session
	Held     Held
}

// Kind groups checks that run equally often. The interval of a cron expression is the mean.
type Kind struct{ Interval, TTL model.Duration }

// rate returns the number of results per second of one such check.
func (k Kind) rate() float64 { return 1 / time.Duration(max(1, k.Interval)).Seconds() }

// Tally counts event states: checks on nodes.
type Tally struct {
	States, Flapping int // that flap: at least every second result of their history changed the status
	Status           [4]int
	Changes, Results uint64 // so far, of states that do not flap
	Bytes            int    // of all present outputs
}

// add adds the counts of others.
func (t *Tally) add(o *Tally) {
	t.States, t.Flapping, t.Bytes = t.States+o.States, t.Flapping+o.Flapping, t.Bytes+o.Bytes
	t.Changes, t.Results = t.Changes+o.Changes, t.Results+o.Results
	for status, n := range o.Status {
		t.Status[status] += n
	}
}

// Held has event states by the kind of their checks.
type Held map[Kind]*Tally

// add adds states of one kind.
func (h Held) add(k Kind, t *Tally) {
	if h[k] == nil {
		h[k] = &Tally{}
	}
	h[k].add(t)
}

// kinds returns the kinds in a fixed order: sums of floats depend on it.
func (h Held) kinds() []Kind {
	return slices.SortedFunc(maps.Keys(h), func(a, b Kind) int {
		return cmp.Or(cmp.Compare(a.Interval, b.Interval), cmp.Compare(a.TTL, b.TTL))
	})
}

// class has nodes of about the same rate, and the states of all of them.
type class struct {
	nodes []*Node
	held  Held
	sum   float64 // results per second of all nodes
}

// rate returns the results per second of one node.
func (c *class) rate() float64 { return c.sum / float64(len(c.nodes)) }

// add adds the nodes of another class.
func (c *class) add(o *class) {
	c.nodes, c.sum = append(c.nodes, o.nodes...), c.sum+o.sum
	for k, t := range o.held {
		c.held.add(k, t)
	}
}

// classes divides the played nodes into at most this many classes, the greatest rate first. Nodes with equal checks are in
// one class; classes whose rates differ least are put together.
func (f *Fleet) classes(most int) []*class {
	equal := map[string]*class{}
	for _, n := range f.Nodes {
		if n.Left {
			continue
		}
		var checks strings.Builder
		for _, k := range n.Held.kinds() {
			fmt.Fprintf(&checks, "%d/%d=%d ", k.Interval, k.TTL, n.Held[k].States)
		}
		key := checks.String()
		if equal[key] == nil {
			equal[key] = &class{held: Held{}}
		}
		equal[key].add(&class{nodes: []*Node{n}, held: n.Held})
	}
	var list []*class
	for _, key := range slices.Sorted(maps.Keys(equal)) {
		c := equal[key]
		for _, k := range c.held.kinds() {
			c.sum += float64(c.held[k].States) * k.rate()
		}
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b *class) int { return cmp.Compare(b.rate(), a.rate()) })
	return condense(list, most, func(a, b *class) float64 {
		return (a.rate() - b.rate()) * float64(min(len(a.nodes), len(b.nodes)))
	}, (*class).add)
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
