package load

import (
	"slices"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
)

// place is an event state's on the server.
type place struct {
	node  model.NodeID
	check model.CheckID
}

// paired is an event state of a proxy node as it is compared.
type paired struct {
	*pair
	definition *model.CheckDefinition
	seen       bool
	open       uint64 // results without an answer: the view may have them or not
}

// meet adds those of an agent's checks. Caller holds the agent's lock.
func (c *comparison) meet(a *agent) {
	if a.set.things == nil {
		return
	}
	for i := a.class.own; i < len(a.class.checks); i++ {
		definition, pairs := a.set.definitions[i], a.class.checks[i].about.pairs
		for n, node := range a.set.things[i] {
			at := place{node, definition.Unit}
			if c.pairs[at] != nil {
				break // another agent's of the class
			}
			c.pairs[at] = &paired{pair: &pairs[n], definition: definition}
			pairs[n].mu.Lock()
			if pairs[n].e.refused > 0 {
				c.picked[definition.Unit] = true
			}
			pairs[n].mu.Unlock()
		}
	}
	for _, f := range a.held {
		for i := f.done; i < len(f.each) && f.first+uint64(i) <= a.ledger.shown; i++ {
			if s := &f.each[i]; s.about > 0 {
				c.pairs[place{a.set.things[s.check][s.about-1], a.set.definitions[s.check].Unit}].open++
			}
		}
	}
}

// pair compares one state of a proxy node: as many results as all agents together had
// acknowledged, and one of them last that may be it.
func (c *comparison) pair(k Kept, before began) {
	x := c.pairs[place{k.Node, k.Check}]
	if x == nil {
		return
	}
	x.seen = true
	x.mu.Lock()
	defer x.mu.Unlock()
	got, want := k.Results-before.results, uint64(x.e.results)
	if got == 0 && want == 0 {
		return
	}
	b := c.balance
	b.Compared++
	switch {
	case k.Results < before.results:
		x.differs(b, k.Node, lost, "%d results applied, and %d were before the run", k.Results, before.results)
	case got < want && c.picked[k.Check] && want-got <= uint64(x.e.unheard):
		b.Unsure += want - got
		b.NotOrdered(orderUnsure)
	case got < want:
		x.differs(b, k.Node, lost, "%d results applied, %d acknowledged", got, want)
	case got > want+x.open:
		x.differs(b, k.Node, overdone, "%d results applied, %d acknowledged, %d without an answer", got, want, x.open)
	case got > want:
		b.NotOrdered(orderOpen)
	default:
		x.shows(b, &k, before)
	}
}

// shows looks whether the last result is one that may be it, and whether all are there in
// their order, where that is known. Caller holds the lock.
func (x *paired) shows(b *report.Balance, k *Kept, before began) {
	at := slices.IndexFunc(x.last, func(f final) bool { return uint64(f.stream) == k.Stream && uint64(f.number) == k.Number })
	if at < 0 && !k.Expired {
		x.differs(b, k.Node, misnumbered, "last is %x/%d, and that is none of the %d that may be", k.Stream, k.Number, len(x.last))
		return
	}
	switch {
	case x.atOnce:
		b.NotOrdered(orderAtOnce)
	case !inOrder(b, k, before, x.e.order, uint64(x.e.results)):
		x.differs(b, k.Node, reordered, asMany, x.e.results)
		return
	}
	if at >= 0 && !k.Expired && k.Digest != 0 && k.Digest != x.last[at].digest {
		x.differs(b, k.Node, garbled, "as many results applied as acknowledged, and the last one says something else")
	}
}

// absentPairs finds what the view does not hold at all.
func (c *comparison) absentPairs() {
	for at, x := range c.pairs {
		x.mu.Lock()
		switch {
		case x.seen || x.e.results == 0:
		case c.picked[at.check] && x.e.results <= uint32(x.e.unheard):
			c.balance.Unsure += uint64(x.e.results)
		default:
			c.balance.Compared++
			x.differs(c.balance, at.node, lost, "not in the view, %d results acknowledged", x.e.results)
		}
		x.mu.Unlock()
	}
}

func (x *paired) differs(b *report.Balance, node model.NodeID, kind, format string, args ...any) {
	b.Differ++
	number := uint64(0)
	if n := len(x.last); n > 0 {
		number = uint64(x.last[n-1].number)
	}
	b.Add(report.Imbalance{Node: node, Name: x.name, Check: x.definition.Unit, CheckName: x.definition.Name, Number: number, Kind: kind}, format, args...)
}
