package compliance

import (
	"slices"
	"unique"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
)

// complianceTotals counts components (checked parts of directives) of all nodes by status, per node, directive
// and policy. A changed directive on a node moves the sums by its difference, so that a report costs no look at
// other components.
type complianceTotals struct {
	nodes      map[model.NodeID]*nodeCounts
	directives map[directiveKey]*reportRow
	policies   []*policyTotals
	policiesOf map[model.UnitID][]*policyTotals // by directive
	affected   []*policyTotals                  // of one change
}

// directiveKey identifies the totals of one policy directive over the nodes of one namespace.
type directiveKey struct {
	namespace string
	directive model.UnitID
}

// nodeCounts has, for each policy directive on one node, the number of components (checked parts) by status.
type nodeCounts struct {
	id        model.NodeID
	namespace string
	groups    []directory.GroupID
	pairs     []directiveCounts // ascending by directive
	total     policy.Counts
}

// directiveCounts has, for one policy directive on one node, the number of components (checked parts) by
// status.
type directiveCounts struct {
	directive model.UnitID
	until     uint32 // time alone changes no count until then, Unix s
	counts    unique.Handle[policy.Counts]
}

// noCounts has the counts of a directive that a node does not have.
var noCounts unique.Handle[policy.Counts]

// policyTotals has, for one policy and each namespace, the number of components (checked parts of directives)
// by status.
type policyTotals struct {
	*resolvedPolicy
	rows map[string]*reportRow
}

// resolvedPolicy is a policy with its directives and its nodes.
type resolvedPolicy struct {
	namespace, name string
	nodes           *roaring.Bitmap
	directives      []model.UnitID // ascending
}

// equal reports whether two versions of a policy assign the same directives to the same nodes.
func (p *resolvedPolicy) equal(o *resolvedPolicy) bool {
	return p.namespace == o.namespace && p.name == o.name && slices.Equal(p.directives, o.directives) && p.nodes.Equals(o.nodes)
}

// reportRow is one row of a compliance report, with the number of components for each status. The numbers are
// added up over nodes.
type reportRow struct {
	total  policy.Counts
	nodes  int
	shares int64 // sum of the shares of the nodes that have one
	shared int   // such nodes
}

// add adds one node's number of components in each status to the report row. With sign -1, it subtracts the
// counts.
func (r *reportRow) add(c *policy.Counts, sign int) {
	r.nodes += sign
	for i, n := range c {
		r.total[i] += sign * n
	}
	if of, ok := compliantShare(c); ok {
		r.shares += int64(sign) * of
		r.shared += sign
	}
}

// merge adds the counts of another row to the row.
func (r *reportRow) merge(o *reportRow) {
	r.total.Add(&o.total)
	r.nodes, r.shares, r.shared = r.nodes+o.nodes, r.shares+o.shares, r.shared+o.shared
}

// wholeShare is the share of a node that is compliant in all components. Shares are integers, so that sums have no error of rounding after
// any number of changes.
const wholeShare = 1 << 32

// compliantShare returns the share of compliant components (checked parts of directives) in a report row.
// Pending and waived components do not count; ok is false if none counts.
func compliantShare(c *policy.Counts) (of int64, ok bool) {
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

// newComplianceTotals returns the totals of the given policies, in which no node is counted yet.
func newComplianceTotals(policies []*resolvedPolicy) *complianceTotals {
	t := &complianceTotals{nodes: map[model.NodeID]*nodeCounts{}, directives: map[directiveKey]*reportRow{}}
	t.setPolicies(policies)
	return t
}

// setPolicies replaces the policies, and computes the totals of changed policies again.
func (t *complianceTotals) setPolicies(policies []*resolvedPolicy) {
	before := map[string]*policyTotals{}
	for _, p := range t.policies {
		before[p.namespace+"/"+p.name] = p
	}
	t.policies, t.policiesOf = nil, map[model.UnitID][]*policyTotals{}
	for _, placed := range policies {
		p := before[placed.namespace+"/"+placed.name]
		if p == nil || !p.equal(placed) {
			p = &policyTotals{placed, map[string]*reportRow{}}
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

// add adds one node's component counts (checked parts by status) to the totals of the policy. With sign -1, it
// subtracts the counts; a node without the policy's directives does not count.
func (p *policyTotals) add(n *nodeCounts, sign int) {
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
		addToRow(p.rows, n.namespace, &sum, sign)
	}
}

// addToRow adds a node's numbers of components by status to the report row with the given key. With sign -1, it
// subtracts the counts. It deletes a row without nodes.
func addToRow[K comparable](rows map[K]*reportRow, key K, counts *policy.Counts, sign int) {
	r := rows[key]
	if r == nil {
		r = &reportRow{}
		rows[key] = r
	}
	if r.add(counts, sign); r.nodes == 0 {
		delete(rows, key)
	}
}

// find returns the index of a policy directive in the node's sorted list of directives. For a directive that
// the node lacks, it returns the index at which to insert.
func (n *nodeCounts) find(directive model.UnitID) (int, bool) {
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

// replaceCounts replaces the component counts (numbers of checked parts by status) of some policy directives on
// a node. A directive without counts is removed. It overwrites the list.
func (t *complianceTotals) replaceCounts(n *nodeCounts, list []directiveCounts) {
	list = slices.DeleteFunc(list, func(p directiveCounts) bool {
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
	t.addCounts(n, list, -1)
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
	t.addCounts(n, list, 1)
}

// addCounts adds the present component counts of some policy directives of a node to the totals. With sign -1,
// it subtracts the counts.
func (t *complianceTotals) addCounts(n *nodeCounts, list []directiveCounts, sign int) {
	for _, p := range list {
		if at, found := n.find(p.directive); found {
			counts := n.pairs[at].counts.Value()
			addToRow(t.directives, directiveKey{n.namespace, p.directive}, &counts, sign)
			for i, k := range counts {
				n.total[i] += sign * k
			}
		}
	}
	for _, p := range t.affected {
		p.add(n, sign)
	}
}

// remove removes a node from the totals, with the component counts of its directives.
func (t *complianceTotals) remove(n *nodeCounts) {
	list := slices.Clone(n.pairs)
	for i := range list {
		list[i].counts = noCounts
	}
	t.replaceCounts(n, list)
	delete(t.nodes, n.id)
}

// ofDirectives returns the totals of the selected policy directives alone, over the same nodes and policies. The totals
// are a copy, which later changes do not reach.
func (t *complianceTotals) ofDirectives(selected func(model.UnitID) bool) *complianceTotals {
	policies := make([]*resolvedPolicy, len(t.policies))
	for i, p := range t.policies {
		policies[i] = p.resolvedPolicy
	}
	out := newComplianceTotals(policies)
	for id, n := range t.nodes {
		pairs := slices.DeleteFunc(slices.Clone(n.pairs), func(p directiveCounts) bool { return !selected(p.directive) })
		out.nodes[id] = &nodeCounts{id: id, namespace: n.namespace, groups: n.groups}
		out.replaceCounts(out.nodes[id], pairs)
	}
	return out
}

// rowKey identifies the policy, directive, group or node of a row in a compliance report.
type rowKey struct {
	namespace, name string
	directive       model.UnitID
}

// report returns the compliance per policy, directive, node or group of the included namespaces. It also returns the
// total of all their nodes.
func (t *complianceTotals) report(by string, included func(namespace string) bool, names directory.FleetSnapshot) (total reportRow, rows map[rowKey]*reportRow) {
	rows = map[rowKey]*reportRow{}
	at := func(name rowKey) *reportRow {
		r := rows[name]
		if r == nil {
			r = &reportRow{}
			rows[name] = r
		}
		return r
	}
	groups := map[string][]reportRow{} // by namespace of the nodes and id
	for _, n := range t.nodes {
		if len(n.pairs) == 0 || !included(n.namespace) {
			continue
		}
		total.add(&n.total, 1)
		switch by {
		case "node":
			_, name := names.NodeName(n.id)
			at(rowKey{namespace: n.namespace, name: name}).add(&n.total, 1)
		case "group":
			list := groups[n.namespace]
			for _, g := range n.groups {
				if int(g) >= len(list) {
					list = append(list, make([]reportRow, int(g)+1-len(list))...)
				}
				list[g].add(&n.total, 1)
			}
			groups[n.namespace] = list
		}
	}
	for namespace, list := range groups {
		for g := range list {
			if list[g].nodes > 0 {
				at(rowKey{namespace: namespace, name: names.GroupName(directory.GroupID(g))}).merge(&list[g])
			}
		}
	}
	switch by {
	case "directive":
		for key, r := range t.directives {
			if included(key.namespace) {
				at(rowKey{directive: key.directive}).merge(r)
			}
		}
	case "policy":
		for _, p := range t.policies {
			for namespace, r := range p.rows {
				if included(namespace) {
					at(rowKey{namespace: p.namespace, name: p.name}).merge(r)
				}
			}
		}
	}
	return total, rows
}
