package compliance

import (
	"slices"
	"unique"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
)

// tally has the compliance of all nodes, added up by directive and by policy. A changed directive on a node moves the
// sums by its difference, so that a report costs no look at other components.
type tally struct {
	nodes      map[model.NodeID]*nodeTally
	directives map[directiveRow]*row
	policies   []*policyTally
	policiesOf map[model.UnitID][]*policyTally // by directive
	affected   []*policyTally                  // of one change
}

// directiveRow identifies the sums of one policy directive over the nodes of one namespace.
type directiveRow struct {
	namespace string
	directive model.UnitID
}

// nodeTally has the policy directives of one node, each with its counts.
type nodeTally struct {
	id        model.NodeID
	namespace string
	groups    []directory.GroupID
	pairs     []pair // ascending by directive
	total     policy.Counts
}

// pair has the component counts of one policy directive on one node.
type pair struct {
	directive model.UnitID
	until     uint32 // time alone changes no count until then, Unix s
	counts    unique.Handle[policy.Counts]
}

// noCounts has the counts of a directive that a node does not have.
var noCounts unique.Handle[policy.Counts]

// policyTally has the sums of one policy for each namespace of its nodes.
type policyTally struct {
	*placedPolicy
	rows map[string]*row
}

// placedPolicy is a policy with its directives and its nodes.
type placedPolicy struct {
	namespace, name string
	nodes           *roaring.Bitmap
	directives      []model.UnitID // ascending
}

// equal reports whether two versions of a policy assign the same directives to the same nodes.
func (p *placedPolicy) equal(o *placedPolicy) bool {
	return p.namespace == o.namespace && p.name == o.name && slices.Equal(p.directives, o.directives) && p.nodes.Equals(o.nodes)
}

// row is one row of a report with its numbers of components by status. The numbers are added up over nodes.
type row struct {
	total  policy.Counts
	nodes  int
	shares int64 // sum of the shares of the nodes that have one
	shared int   // such nodes
}

// add adds the counts of one node to the row. With sign -1, it subtracts the counts.
func (r *row) add(c *policy.Counts, sign int) {
	r.nodes += sign
	for i, n := range c {
		r.total[i] += sign * n
	}
	if of, ok := share(c); ok {
		r.shares += int64(sign) * of
		r.shared += sign
	}
}

// merge adds the counts of another row to the row.
func (r *row) merge(o *row) {
	r.total.Add(&o.total)
	r.nodes, r.shares, r.shared = r.nodes+o.nodes, r.shares+o.shares, r.shared+o.shared
}

// wholeShare is the share of a node that is compliant in all components. Shares are integers, so that sums have no error of rounding after
// any number of changes.
const wholeShare = 1 << 32

// share returns the share of components that are as declared. Pending and waived components do not count; ok is false
// if none counts.
func share(c *policy.Counts) (of int64, ok bool) {
	fulfilled, total := int64(0), int64(0)
	for s, n := range c {
		switch status := policy.Status(s); {
		case status.Fulfilled():
			fulfilled += int64(n)
			total += int64(n)
		case status != policy.Pending && status != policy.Waived:
			total += int64(n)
		}
	}
	if total == 0 {
		return 0, false
	}
	return fulfilled * wholeShare / total, true
}

// newTally returns a tally of the given policies, in which no node is counted yet.
func newTally(policies []*placedPolicy) *tally {
	t := &tally{nodes: map[model.NodeID]*nodeTally{}, directives: map[directiveRow]*row{}}
	t.place(policies)
	return t
}

// place replaces the policies, and computes the sums of changed policies again.
func (t *tally) place(policies []*placedPolicy) {
	before := map[string]*policyTally{}
	for _, p := range t.policies {
		before[p.namespace+"/"+p.name] = p
	}
	t.policies, t.policiesOf = nil, map[model.UnitID][]*policyTally{}
	for _, placed := range policies {
		p := before[placed.namespace+"/"+placed.name]
		if p == nil || !p.equal(placed) {
			p = &policyTally{placed, map[string]*row{}}
			for it := placed.nodes.Iterator(); it.HasNext(); {
				if n := t.nodes[model.NodeID(it.Next())]; n != nil {
					p.add(n, 1)
				}
			}
		}
		t.policies = append(t.policies, p)
		for _, d := range p.directives {
			t.policiesOf[d] = append(t.policiesOf[d], p)
		}
	}
}

// add adds the counts of a node to the sums of the policy. With sign -1, it subtracts the counts; a node without the
// policy's directives does not count.
func (p *policyTally) add(n *nodeTally, sign int) {
	var sum policy.Counts
	found := false
	for _, d := range p.directives {
		if at, has := n.find(d); has {
			counts := n.pairs[at].counts.Value()
			sum.Add(&counts)
			found = true
		}
	}
	if found {
		addTo(p.rows, n.namespace, &sum, sign)
	}
}

// addTo adds a node's component counts to the report row with the given key. With sign -1, it subtracts the counts. It
// deletes a row without nodes.
func addTo[K comparable](rows map[K]*row, key K, counts *policy.Counts, sign int) {
	r := rows[key]
	if r == nil {
		r = &row{}
		rows[key] = r
	}
	if r.add(counts, sign); r.nodes == 0 {
		delete(rows, key)
	}
}

// find returns the index of a policy directive among the node's directives. For a directive that the node lacks, it
// returns the index at which to insert.
func (n *nodeTally) find(directive model.UnitID) (int, bool) {
	low, high := 0, len(n.pairs)
	for low < high {
		if mid := int(uint(low+high) >> 1); n.pairs[mid].directive < directive {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < len(n.pairs) && n.pairs[low].directive == directive
}

// change replaces the counts of some policy directives on a node. A directive without counts is removed. It overwrites
// the list.
func (t *tally) change(n *nodeTally, list []pair) {
	list = slices.DeleteFunc(list, func(p pair) bool {
		at, found := n.find(p.directive)
		if !found {
			return p.counts == noCounts
		}
		if n.pairs[at].counts != p.counts {
			return false
		}
		n.pairs[at].until = p.until
		return true
	})
	if len(list) == 0 {
		return
	}
	t.affected = t.affected[:0]
	for _, p := range list {
		for _, placed := range t.policiesOf[p.directive] {
			if placed.nodes.Contains(uint32(n.id)) && !slices.Contains(t.affected, placed) {
				t.affected = append(t.affected, placed)
			}
		}
	}
	t.add(n, list, -1)
	for _, p := range list {
		switch at, found := n.find(p.directive); {
		case p.counts == noCounts:
			n.pairs = slices.Delete(n.pairs, at, at+1)
		case found:
			n.pairs[at] = p
		default:
			n.pairs = slices.Insert(n.pairs, at, p)
		}
	}
	t.add(n, list, 1)
}

// add adds the present counts of a node's policy directives to the sums. With sign -1, it subtracts the counts.
func (t *tally) add(n *nodeTally, list []pair, sign int) {
	for _, p := range list {
		if at, found := n.find(p.directive); found {
			counts := n.pairs[at].counts.Value()
			addTo(t.directives, directiveRow{n.namespace, p.directive}, &counts, sign)
			for i, k := range counts {
				n.total[i] += sign * k
			}
		}
	}
	for _, p := range t.affected {
		p.add(n, sign)
	}
}

// remove removes a node and its counts from the sums.
func (t *tally) remove(n *nodeTally) {
	list := slices.Clone(n.pairs)
	for i := range list {
		list[i].counts = noCounts
	}
	t.change(n, list)
	delete(t.nodes, n.id)
}

// rowName identifies the policy, directive, group or node of a row in a compliance report.
type rowName struct {
	namespace, name string
	directive       model.UnitID
}

// report returns the compliance per policy, directive, node or group of the included namespaces. It also returns the
// total of all their nodes.
func (t *tally) report(by string, included func(namespace string) bool, names directory.Placements) (total row, rows map[rowName]*row) {
	rows = map[rowName]*row{}
	at := func(name rowName) *row {
		r := rows[name]
		if r == nil {
			r = &row{}
			rows[name] = r
		}
		return r
	}
	groups := map[string][]row{} // by namespace of the nodes and id
	for _, n := range t.nodes {
		if len(n.pairs) == 0 || !included(n.namespace) {
			continue
		}
		total.add(&n.total, 1)
		switch by {
		case "node":
			_, name := names.NodeName(n.id)
			at(rowName{namespace: n.namespace, name: name}).add(&n.total, 1)
		case "group":
			list := groups[n.namespace]
			for _, g := range n.groups {
				if int(g) >= len(list) {
					list = append(list, make([]row, int(g)+1-len(list))...)
				}
				list[g].add(&n.total, 1)
			}
			groups[n.namespace] = list
		}
	}
	for namespace, list := range groups {
		for g := range list {
			if list[g].nodes > 0 {
				at(rowName{namespace: namespace, name: names.GroupName(directory.GroupID(g))}).merge(&list[g])
			}
		}
	}
	switch by {
	case "directive":
		for key, r := range t.directives {
			if included(key.namespace) {
				at(rowName{directive: key.directive}).merge(r)
			}
		}
	case "policy":
		for _, p := range t.policies {
			for namespace, r := range p.rows {
				if included(namespace) {
					at(rowName{namespace: p.namespace, name: p.name}).merge(r)
				}
			}
		}
	}
	return total, rows
}
