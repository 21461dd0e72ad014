package judge

import (
	"cmp"
	"slices"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// Kinds of imbalance in addition to those of observe.Breach.
const (
	ResultsLost = "acknowledged and lost"
	Overdone    = "applied more often than acknowledged"
	Misnumbered = "with another last number"
	Garbled     = "with another status or output"
	Reordered   = "with other results or in another order"
)

// Reasons why it is unknown whether the server applied just the results that it acknowledged, in their order.
const (
	orderUntold = "the server does not know"
	orderOpen   = "some had no answer"
	orderUnsure = "some may have been refused"
	orderAtOnce = "several agents sent at once"
)

// Comparison compares event states of the server with the ledgers of all loaders. Beyond both it takes a byte for each
// state.
//
// A refusal is said once, and may be lost with its connection: a result that a Welcome acknowledges then may be missing
// on the server. That is held against the server unless results of the same check were refused, on any node: it is
// counted as unsure then.
type Comparison struct {
	balance *report.Balance
	before  []observe.EventState // sorted by node and check
	nodes   map[model.NodeID]*node
	pairs   map[place]*pair
	refused map[model.CheckID]bool // results of it were refused
}

// place identifies an event state on the server.
type place struct {
	node  model.NodeID
	check model.CheckID
}

// node is the ledger of an agent during the comparison.
type node struct {
	*observe.Ledger
	checks []observe.Check
	index  map[model.CheckID]int
	seen   []bool
}

// pair is the ledger of a proxy node and check during the comparison.
type pair struct {
	*observe.Pair
	seen bool
}

// Compare begins a comparison. before has the event states from before the run.
func Compare(loaders []observe.Ledgers, before observe.States) (*Comparison, error) {
	c := &Comparison{balance: Sums(loaders), nodes: map[model.NodeID]*node{}, pairs: map[place]*pair{}, refused: map[model.CheckID]bool{}}
	err := before.Each(func(s observe.EventState) { c.before = append(c.before, s) })
	slices.SortFunc(c.before, comparePlaces)
	for i := range loaders {
		l := &loaders[i]
		indexes := make([]map[model.CheckID]int, len(l.Sets))
		for n, set := range l.Sets {
			indexes[n] = map[model.CheckID]int{}
			for i, check := range set.Checks {
				indexes[n][check.ID] = i
			}
		}
		for n := range l.Agents {
			a := &l.Agents[n]
			if a.Set < 0 {
				continue
			}
			x := &node{Ledger: a, checks: l.Sets[a.Set].Checks, index: indexes[a.Set], seen: make([]bool, len(a.States))}
			c.nodes[a.Node] = x
			for i := range a.States {
				if a.States[i].Refused > 0 {
					c.refused[x.checks[i].ID] = true
				}
			}
		}
		for n := range l.Pairs {
			p := &l.Pairs[n]
			c.pairs[place{p.Node, p.Check.ID}] = &pair{Pair: p}
			if p.Entry.Refused > 0 {
				c.refused[p.Check.ID] = true
			}
		}
	}
	return c, err
}

// comparePlaces orders event states by node and check.
func comparePlaces(a, b observe.EventState) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Check, b.Check))
}

// Sums adds up the ledgers of all loaders and the breaches of the server, without its event states.
func Sums(loaders []observe.Ledgers) *report.Balance {
	b := &report.Balance{}
	for i := range loaders {
		l := &loaders[i]
		for kind, n := range l.Breaches.Kinds {
			if b.Kinds == nil {
				b.Kinds = map[string]uint64{}
			}
			b.Kinds[kind] += n
			b.Imbalances += n
		}
		for _, x := range l.Breaches.First {
			if len(b.Examples) < report.MostExamples {
				b.Examples = append(b.Examples, x)
			}
		}
		for n := range l.Agents {
			a := &l.Agents[n]
			open := a.Sent - a.Acked - a.Refused
			b.Sent += a.Sent
			b.Acknowledged += a.Acked
			b.Refused += a.Refused
			if a.Stopped {
				b.Stopped += open
			} else {
				b.Missing += open
			}
		}
	}
	return b
}

// State compares one event state of the server. States that no ledger has, such as keepalives, pass.
func (c *Comparison) State(s observe.EventState) {
	before := observe.EventState{}
	if i, found := slices.BinarySearchFunc(c.before, s, comparePlaces); found {
		before = c.before[i]
	}
	n := c.nodes[s.Node]
	if n == nil {
		if p := c.pairs[place{s.Node, s.Check}]; p != nil {
			p.seen = true
			c.compare(&s, before, &p.Entry, p.Open, p.imbalance(), func() { c.comparePair(p, &s, before) })
		}
		return
	}
	i, ours := n.index[s.Check]
	if !ours || i >= len(n.seen) {
		return
	}
	n.seen[i] = true
	e := &n.States[i]
	c.compare(&s, before, e, n.Open[int16(i)], n.imbalance(i), func() {
		switch {
		case !s.Expired && (s.Stream != n.Stream || s.Number != uint64(e.Number)):
			c.differs(n.imbalance(i), Misnumbered, "last is %x/%d, acknowledged %x/%d", s.Stream, s.Number, n.Stream, e.Number)
		case !c.inOrder(&s, before, e):
			c.differs(n.imbalance(i), Reordered, asMany, e.Results)
		case !s.Expired && s.Digest != 0 && s.Digest != e.Digest:
			c.differs(n.imbalance(i), Garbled, another)
		}
	})
}

const (
	asMany  = "as many results applied as were acknowledged (%d), but not these or not in this order"
	another = "as many results applied as acknowledged, and the last one says something else"
)

// compare compares the numbers of results. Where they are equal, rest compares the results.
func (c *Comparison) compare(s *observe.EventState, before observe.EventState, e *observe.Entry, open uint64, x report.Imbalance, rest func()) {
	got, want := s.Results-before.Results, uint64(e.Results)
	if got == 0 && want == 0 {
		return
	}
	c.balance.Compared++
	switch {
	case s.Results < before.Results:
		c.differs(x, ResultsLost, "%d results applied, and %d were before the run", s.Results, before.Results)
	case got < want && c.refused[s.Check] && want-got <= uint64(e.Unheard):
		c.balance.Unsure += want - got
		c.balance.NotOrdered(orderUnsure)
	case got < want:
		c.differs(x, ResultsLost, "%d results applied, %d acknowledged", got, want)
	case got > want+open:
		c.differs(x, Overdone, "%d results applied, %d acknowledged, %d without an answer", got, want, open)
	case got > want, open > 0 && e.Unheard > 0 && c.refused[s.Check]: // a result without an answer is applied, or may have the place of a refused one
		c.balance.NotOrdered(orderOpen)
	default:
		rest()
	}
}

// comparePair compares the results about a proxy node: the last one is one of several, and their order is known unless
// agents sent at the same time.
func (c *Comparison) comparePair(p *pair, s *observe.EventState, before observe.EventState) {
	at := slices.IndexFunc(p.Last, func(f observe.Final) bool { return f.Stream == s.Stream && uint64(f.Number) == s.Number })
	switch {
	case at < 0 && !s.Expired:
		c.differs(p.imbalance(), Misnumbered, "last is %x/%d, and that is none of the %d that may be", s.Stream, s.Number, len(p.Last))
		return
	case p.AtOnce:
		c.balance.NotOrdered(orderAtOnce)
	case !c.inOrder(s, before, &p.Entry):
		c.differs(p.imbalance(), Reordered, asMany, p.Entry.Results)
		return
	}
	if at >= 0 && !s.Expired && s.Digest != 0 && s.Digest != p.Last[at].Digest {
		c.differs(p.imbalance(), Garbled, another)
	}
}

// inOrder reports whether the server applied exactly the results of the entry after those from before the run, in their
// order. If that is unknown, it counts the state and returns true.
func (c *Comparison) inOrder(s *observe.EventState, before observe.EventState, e *observe.Entry) bool {
	if s.Order == 0 || before.Results > 0 && before.Order == 0 {
		c.balance.NotOrdered(orderUntold)
		return true
	}
	c.balance.Ordered++
	return s.Order == e.Order.Prepend(before.Order, uint64(e.Results))
}

// Balance ends the comparison: results of states that the server does not have are lost.
func (c *Comparison) Balance() *report.Balance {
	absent := func(check model.CheckID, e *observe.Entry, x report.Imbalance) {
		switch {
		case e.Results == 0:
		case c.refused[check] && e.Results <= uint32(e.Unheard):
			c.balance.Unsure += uint64(e.Results)
		default:
			c.balance.Compared++
			c.differs(x, ResultsLost, "not in the view, %d results acknowledged", e.Results)
		}
	}
	for _, p := range c.pairs {
		if !p.seen {
			absent(p.Check.ID, &p.Entry, p.imbalance())
		}
	}
	for _, n := range c.nodes {
		for i, seen := range n.seen {
			if !seen {
				absent(n.checks[i].ID, &n.States[i], n.imbalance(i))
			}
		}
	}
	return c.balance
}

// imbalance returns an imbalance of the node's check i.
func (n *node) imbalance(i int) report.Imbalance {
	return report.Imbalance{Node: n.Node, Name: n.Name, Check: n.checks[i].ID, CheckName: n.checks[i].Name, Number: uint64(n.States[i].Number)}
}

// imbalance returns an imbalance of the proxy node and check.
func (p *pair) imbalance() report.Imbalance {
	x := report.Imbalance{Node: p.Node, Name: p.Name, Check: p.Check.ID, CheckName: p.Check.Name}
	if n := len(p.Last); n > 0 {
		x.Number = uint64(p.Last[n-1].Number)
	}
	return x
}

// differs counts a state that differs from its ledger.
func (c *Comparison) differs(x report.Imbalance, kind, format string, args ...any) {
	x.Kind = kind
	c.balance.Differ++
	c.balance.Add(x, format, args...)
}
