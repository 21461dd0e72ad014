package load

import (
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// comparison holds the view's states beside the ledgers'. Beyond them it takes a byte
// per state, and some per agent.
//
// A refusal is said once, and may be lost with its connection: what a Welcome then
// acknowledges is perhaps not in the view. That is held against the server unless results
// of the same check were refused, on any node; it is counted as unsure then.
type comparison struct {
	balance *report.Balance
	agents  map[model.NodeID]*compared
	indexes map[*checkSet]map[model.CheckID]int
	picked  map[model.CheckID]bool // results of it were refused
	pairs   map[place]*paired      // event states of proxy nodes
}

// compared is one agent's part. What an agent is may change meanwhile: one whose session the server
// ended comes again.
type compared struct {
	agent *agent
	node  model.NodeID
	name  string
	set   *checkSet
	index map[model.CheckID]int
	seen  []bool
	open  map[int16]uint64 // results without an answer, by check: the view may have them or not
}

func newComparison(agents []*agent, b *report.Balance) *comparison {
	c := &comparison{balance: b, agents: make(map[model.NodeID]*compared, len(agents)), indexes: map[*checkSet]map[model.CheckID]int{},
		picked: map[model.CheckID]bool{}, pairs: map[place]*paired{}}
	for _, a := range agents {
		a.mu.Lock()
		if a.set != nil {
			c.meet(a)
			c.agents[a.node] = &compared{agent: a, node: a.node, name: a.name, set: a.set, index: c.index(a.set), seen: make([]bool, len(a.ledger.states)), open: a.unanswered()}
			for i := range a.ledger.states {
				if a.ledger.states[i].refused > 0 {
					c.picked[a.set.definitions[i].Unit] = true
				}
			}
		}
		a.mu.Unlock()
	}
	return c
}

func (c *comparison) index(s *checkSet) map[model.CheckID]int {
	if c.indexes[s] == nil {
		c.indexes[s] = make(map[model.CheckID]int, len(s.definitions))
		for i, definition := range s.definitions {
			c.indexes[s][definition.Unit] = i
		}
	}
	return c.indexes[s]
}

// unanswered counts the results that a session took and nobody answered. Caller holds
// the lock.
func (a *agent) unanswered() map[int16]uint64 {
	open := a.ledger.open
	for _, f := range a.held {
		for i := f.done; i < len(f.each) && f.first+uint64(i) <= a.ledger.shown; i++ {
			if f.each[i].about > 0 {
				continue // see comparison.meet
			}
			if open == nil {
				open = map[int16]uint64{}
			}
			open[f.each[i].check]++
		}
	}
	return open
}

// state compares one state of the view; before is what it held when the run began.
// States that are not ours (keepalives, the server's own) pass.
func (c *comparison) state(k Kept, before began) {
	n := c.agents[k.Node]
	if n == nil {
		c.pair(k, before)
		return
	}
	i, ours := n.index[k.Check]
	if !ours || i >= len(n.seen) {
		return
	}
	n.seen[i] = true
	a, b := n.agent, c.balance
	a.mu.Lock()
	e, stream := a.ledger.states[i], uint64(a.stream)
	a.mu.Unlock()
	got, want, open := k.Results-before.results, uint64(e.results), n.open[int16(i)]
	if got == 0 && want == 0 {
		return
	}
	b.Compared++
	switch {
	case k.Results < before.results:
		n.differs(b, i, e, lost, "%d results applied, and %d were before the run", k.Results, before.results)
	case got < want && c.picked[k.Check] && want-got <= uint64(e.unheard):
		b.Unsure += want - got
		b.NotOrdered(orderUnsure)
	case got < want:
		n.differs(b, i, e, lost, "%d results applied, %d acknowledged", got, want)
	case got > want+open:
		n.differs(b, i, e, overdone, "%d results applied, %d acknowledged, %d without an answer", got, want, open)
	case got > want, open > 0 && e.unheard > 0 && c.picked[k.Check]: // a result without an answer is there, or may be in the place of a refused one
		b.NotOrdered(orderOpen)
	case !k.Expired && (k.Stream != stream || k.Number != uint64(e.number)):
		n.differs(b, i, e, misnumbered, "last is %x/%d, acknowledged %x/%d", k.Stream, k.Number, stream, e.number)
	case !inOrder(b, &k, before, e.order, want):
		n.differs(b, i, e, reordered, asMany, want)
	case !k.Expired && k.Digest != 0 && k.Digest != e.digest:
		n.differs(b, i, e, garbled, "as many results applied as acknowledged, and the last one says something else")
	}
}

// absent finds what the view does not hold at all.
func (c *comparison) absent() {
	c.absentPairs()
	for _, n := range c.agents {
		for i, seen := range n.seen {
			n.agent.mu.Lock()
			e := n.agent.ledger.states[i]
			n.agent.mu.Unlock()
			switch {
			case seen || e.results == 0:
			case c.picked[n.set.definitions[i].Unit] && e.results <= uint32(e.unheard):
				c.balance.Unsure += uint64(e.results)
			default:
				c.balance.Compared++
				n.differs(c.balance, i, e, lost, "not in the view, %d results acknowledged", e.results)
			}
		}
	}
}

func (n *compared) differs(b *report.Balance, i int, e entry, kind, format string, args ...any) {
	definition := n.set.definitions[i]
	b.Differ++
	b.Add(report.Imbalance{Node: n.node, Name: n.name, Check: definition.Unit, CheckName: definition.Name, Number: uint64(e.number), Kind: kind}, format, args...)
}
