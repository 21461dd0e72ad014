package compliance

import (
	"slices"

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
	directives map[directiveKey]*directiveTotals
	policies   []*policyTotals
	policiesOf map[model.UnitID][]*policyTotals // by directive
	affected   []*policyTotals                  // of one change
	packed     policy.Codes                     // scratch of result
}

// directiveKey identifies the totals of one policy directive over the nodes of one namespace.
type directiveKey struct {
	namespace string
	directive model.UnitID
}

// directiveTotals counts the components of one policy directive by status, and has all results of the directive.
type directiveTotals struct {
	reportRow
	results map[resultKey]*directiveResult // with nodes
}

// resultKey identifies a result of one policy directive.
type resultKey struct {
	definition *model.DirectiveDefinition
	statuses   string // of the components as in policy.Codes, unexpected ones at the end
	components int    // with unexpected ones
}

// at returns the status of the component at a position, without a copy of the text.
func (k *resultKey) at(position int) policy.Status {
	return policy.Status(k.statuses[position/2] >> (position % 2 * 4) & 15)
}

// directiveResult counts the nodes with equal component statuses of one policy directive.
type directiveResult struct {
	resultKey
	counts policy.Counts
	nodes  int
}

// nodeCounts has, for each policy directive on one node, the number of components (checked parts) by status.
type nodeCounts struct {
	id        model.NodeID
	namespace string
	groups    []directory.GroupID
	pairs     []directiveCounts // ascending by directive
	total     policy.Counts
}

// directiveCounts has the component statuses of one policy directive on one node.
type directiveCounts struct {
	directive model.UnitID
	until     uint32           // time alone changes no status until then, Unix s
	result    *directiveResult // nil: the node does not have the directive
}

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
	t := &complianceTotals{nodes: map[model.NodeID]*nodeCounts{}, directives: map[directiveKey]*directiveTotals{}}
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
			sum.Add(&n.pairs[at].result.counts)
			found = true
		}
	}
	if found {
		addToRow(p.rows, n.namespace, &sum, sign)
	}
}

// addToRow adds a node's numbers of components by status to the report row of a namespace. With sign -1, it
// subtracts the counts. It deletes a row without nodes.
func addToRow(rows map[string]*reportRow, namespace string, counts *policy.Counts, sign int) {
	r := rows[namespace]
	if r == nil {
		r = &reportRow{}
		rows[namespace] = r
	}
	if r.add(counts, sign); r.nodes == 0 {
		delete(rows, namespace)
	}
}

// directive returns the totals of a policy directive, and adds empty totals for a new directive.
func (t *complianceTotals) directive(key directiveKey) *directiveTotals {
	d := t.directives[key]
	if d == nil {
		d = &directiveTotals{results: map[resultKey]*directiveResult{}}
		t.directives[key] = d
	}
	return d
}

// addResult adds the result of a policy directive on one node to the totals of the directive. With sign -1, it
// subtracts the result. It deletes results and totals without nodes.
func (t *complianceTotals) addResult(key directiveKey, result *directiveResult, sign int) {
	d := t.directive(key)
	switch result.nodes += sign; {
	case result.nodes == 0:
		delete(d.results, result.resultKey)
	case result.nodes == sign:
		d.results[result.resultKey] = result
	}
	if d.add(&result.counts, sign); d.nodes == 0 {
		delete(t.directives, key)
	}
}

// result returns the component statuses of a policy directive on a node of a namespace, for replaceCounts. Nodes with
// equal statuses get the same result.
func (t *complianceTotals) result(namespace string, d *nodeDirective) *directiveResult {
	n := len(d.codes)
	t.packed = slices.Grow(t.packed[:0], (n+1)/2)[:(n+1)/2]
	clear(t.packed)
	for i, status := range d.codes {
		t.packed.Set(i, status)
	}
	results := t.directive(directiveKey{namespace, d.definition.Unit}).results
	is := results[resultKey{d.definition, string(t.packed), n}]
	if is == nil {
		counts, _ := d.counts()
		is = &directiveResult{resultKey: resultKey{d.definition, string(t.packed), n}, counts: counts}
		results[is.resultKey] = is
	}
	return is
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
			return p.result == nil
		}
		if n.pairs[at].result != p.result {
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
		case p.result == nil:
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
			result := n.pairs[at].result
			t.addResult(directiveKey{n.namespace, p.directive}, result, sign)
			for i, k := range result.counts {
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
		list[i].result = nil
	}
	t.replaceCounts(n, list)
	delete(t.nodes, n.id)
}

// ofDirectives returns the totals of the selected policy directives alone, over the same nodes and policies. They are
// valid until t changes, because results are shared.
func (t *complianceTotals) ofDirectives(selected func(model.UnitID) bool) *complianceTotals {
	out := &complianceTotals{nodes: map[model.NodeID]*nodeCounts{}, directives: map[directiveKey]*directiveTotals{}}
	for id, n := range t.nodes {
		of := &nodeCounts{id: id, namespace: n.namespace, groups: n.groups}
		for _, p := range n.pairs {
			if selected(p.directive) {
				of.pairs = append(of.pairs, p)
				of.total.Add(&p.result.counts)
			}
		}
		out.nodes[id] = of
	}
	for key, d := range t.directives {
		if selected(key.directive) {
			out.directives[key] = d
		}
	}
	var policies []*resolvedPolicy
	for _, p := range t.policies {
		if slices.ContainsFunc(p.directives, selected) {
			policies = append(policies, p.resolvedPolicy)
		}
	}
	out.setPolicies(policies)
	return out
}

// rowKey identifies the policy, directive, component, group or node of a row in a compliance report.
type rowKey struct {
	namespace, name string
	directive       model.UnitID
	component       string
}

// rowSelection selects the rows of a compliance report.
type rowSelection struct {
	by       string                      // unit of a row
	included func(namespace string) bool // of nodes
	selected func(model.UnitID) bool     // of directives; nil: all
}

// report returns the compliance per policy, directive, component, node or group of the included namespaces. It also
// returns the total of all their nodes. Only the selected directives count.
func (t *complianceTotals) report(of *rowSelection, names directory.FleetSnapshot) (total reportRow, rows map[rowKey]*reportRow) {
	by, included := of.by, of.included
	if of.selected != nil {
		t = t.ofDirectives(of.selected)
	}
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
				at(rowKey{directive: key.directive}).merge(&r.reportRow)
			}
		}
	case "component":
		for key, d := range t.directives {
			if included(key.namespace) {
				d.addComponents(key.directive, at)
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
