package load

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// ofNumbers is the order of these numbers of stream 7.
func ofNumbers(numbers ...uint64) (o model.ResultDigest) {
	for _, n := range numbers {
		o = o.Append(7, n)
	}
	return o
}

// One state of which 4, 5 and 9 were acknowledged, held beside what a view may say of it.
func TestOrderIsCompared(t *testing.T) {
	set := &checkSet{definitions: []*model.CheckDefinition{{Definition: model.Definition{ID: 50, Unit: 10, Name: "disk"}}}}
	for _, c := range []struct {
		name   string
		before began
		kept   Kept
		open   uint64 // results without an answer
		kind   string // of the imbalance
		why    string // it was not compared
	}{
		{name: "as it should be", kept: Kept{Results: 3, Order: ofNumbers(4, 5, 9)}},
		{name: "one dropped, one twice", kept: Kept{Results: 3, Order: ofNumbers(4, 4, 9)}, kind: reordered},
		{name: "turned round", kept: Kept{Results: 3, Order: ofNumbers(5, 4, 9)}, kind: reordered},
		{name: "turned round, and expired", kept: Kept{Results: 3, Order: ofNumbers(5, 4, 9), Expired: true}, kind: reordered},
		{name: "another last number", kept: Kept{Results: 3, Order: ofNumbers(4, 9, 5), Number: 5}, kind: misnumbered},
		{name: "lost", kept: Kept{Results: 2, Order: ofNumbers(4, 9)}, kind: lost},
		{name: "behind what was there", before: began{results: 2, order: ofNumbers(1, 2)}, kept: Kept{Results: 5, Order: ofNumbers(1, 2, 4, 5, 9)}},
		{name: "turned round behind what was there", before: began{results: 2, order: ofNumbers(1, 2)}, kept: Kept{Results: 5, Order: ofNumbers(1, 2, 5, 4, 9)}, kind: reordered},
		{name: "a target without orders", kept: Kept{Results: 3}, why: orderUntold},
		{name: "a target without orders, and a state before the run", before: began{results: 2}, kept: Kept{Results: 5}, why: orderUntold},
		{name: "a state without an order before the run", before: began{results: 2}, kept: Kept{Results: 5, Order: ofNumbers(1, 2, 5, 4, 9)}, why: orderUntold},
		{name: "one without an answer", kept: Kept{Results: 4, Order: ofNumbers(4, 5, 9, 11), Number: 11}, open: 1, why: orderOpen},
	} {
		b := &report.Balance{}
		a := &agent{set: set, node: 3, name: "web", stream: 7}
		a.ledger.states = []entry{{results: 3, number: 9, digest: 6, order: ofNumbers(4, 5, 9)}}
		a.ledger.open = map[int16]uint64{0: c.open}
		k := c.kept
		k.Node, k.Check, k.Stream, k.Digest = 3, 10, 7, 6
		if k.Number == 0 {
			k.Number = 9
		}
		all := newComparison([]*agent{a}, b)
		all.state(k, c.before)
		all.absent()
		if (b.Differ > 0) != (c.kind != "") || c.kind != "" && b.Kinds[c.kind] != 1 {
			t.Errorf("%s: %+v, want %q", c.name, b, c.kind)
		}
		if why := b.OrderNotCompared(); (why != "") != (c.why != "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: not compared %q, want %q", c.name, why, c.why)
		}
		if c.kind == reordered && !strings.HasSuffix(b.Examples[0].String(), "node web (3) check disk (10) number 9: as many results applied as were acknowledged (3), but not these or not in this order") {
			t.Errorf("%s: %s", c.name, b.Examples[0])
		}
	}
}

// Results of several agents about one proxy node are in an order where one was made after the
// other was acknowledged; where not, nobody is accused.
func TestOrderOfAPair(t *testing.T) {
	at := func(sec float64) *sign { return &sign{intended: sec64(sec), digest: 5} }
	type result struct {
		stream      uint64
		number      uint64
		made, acked float64
	}
	for _, c := range []struct {
		name string
		sent []result // as they were acknowledged
		kept []int    // as the server applied them
		kind string
		why  string
	}{
		{"one after the other", []result{{1, 5, 1, 2}, {2, 9, 3, 4}, {1, 6, 5, 6}}, []int{0, 1, 2}, "", ""},
		{"turned round", []result{{1, 5, 1, 2}, {2, 9, 3, 4}, {1, 6, 5, 6}}, []int{1, 0, 2}, reordered, ""},
		{"one twice", []result{{1, 5, 1, 2}, {2, 9, 3, 4}, {1, 6, 5, 6}}, []int{0, 0, 2}, reordered, ""},
		{"one agent's", []result{{1, 5, 1, 9}, {1, 6, 2, 9}, {1, 7, 3, 9}}, []int{0, 1, 2}, "", ""},
		{"at once", []result{{1, 5, 1, 3}, {2, 9, 2, 4}, {1, 6, 5, 6}}, []int{1, 0, 2}, "", orderAtOnce},
	} {
		p := &pair{}
		for _, x := range c.sent {
			p.passed(wire.StreamID(x.stream), x.number, at(x.made), true, false, sec64(x.acked))
		}
		var order model.ResultDigest
		for _, i := range c.kept {
			order = order.Append(c.sent[i].stream, c.sent[i].number)
		}
		b, last := &report.Balance{}, c.sent[len(c.sent)-1]
		all := &comparison{balance: b, pairs: map[place]*paired{{9, 4}: {pair: p, definition: &model.CheckDefinition{Definition: model.Definition{Unit: 4, Name: "ping"}}}}, picked: map[model.CheckID]bool{}}
		all.pair(Kept{Node: 9, Check: 4, Results: uint64(len(c.kept)), Stream: last.stream, Number: last.number, Digest: 5, Order: order}, began{})
		if (b.Differ > 0) != (c.kind != "") || c.kind != "" && b.Kinds[c.kind] != 1 {
			t.Errorf("%s: %+v, want %q", c.name, b, c.kind)
		}
		if why := b.OrderNotCompared(); (why != "") != (c.why != "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: not compared %q, want %q", c.name, why, c.why)
		}
	}
}
