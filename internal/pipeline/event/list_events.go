package event

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
)

// DefaultLimit is the page size of a query without one. MaxLimit is the largest page size.
const (
	DefaultLimit = 50
	MaxLimit     = 10_000
)

// List returns a page of the event states that match a query. It goes through the severities from the worst (with
// Query.ByNode: once, through all of them), through the partitions of each, and touches only states that the indexes
// leave. A list by severity is exact for states whose severity does not change meanwhile.
func (v *View) List(ctx context.Context, q Query) (Page, error) {
	c, err := v.compileQuery(q)
	if err != nil {
		return Page{}, err
	}
	l := listScan{view: v, query: &c, at: c.from}
	if c.MatchWithin > 0 {
		l.until = time.Now().Add(c.MatchWithin)
	}
	err = l.listStates(ctx)
	return l.page, err
}

// listScan is one list request in progress, with its query, its position in the list, page and buffers.
type listScan struct {
	view  *View
	query *compiledQuery
	at    listPosition // of the last state
	until time.Time
	page  Page

	candidates bitset   // candidates in the partition at hand
	nodes      []uint32 // of it, where no index lists them
	scan       bitset
	batch      []State
	text       []byte
	bounds     []int
	keys       []slotByKey
}

// listStates adds matching event states to the page until the page is full. It goes partition by partition and stops
// at the time limit.
func (l *listScan) listStates(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		done, err := l.listPartition()
		if done || err != nil {
			return err
		}
		l.at.node, l.at.check, l.at.instance = 0, 0, ""
		if l.at.partition++; l.at.partition == model.Partitions {
			l.at.partition = 0
			if l.at.severity--; l.at.severity < 0 {
				return nil
			}
		}
	}
}

// listPartition adds the matching event states of one partition and one severity to the page. A list ordered by node
// takes all severities at once.
func (l *listScan) listPartition() (done bool, err error) {
	q := l.query
	if q.Nodes != nil && len(q.nodes[l.at.partition]) == 0 {
		return false, nil
	}
	for {
		more := l.copyCandidates()
		for i := range l.batch {
			s := &l.batch[i]
			l.at.node, l.at.check, l.at.instance = s.Node, s.Check, s.Instance
			wanted, err := l.matchesCondition(s)
			if err != nil {
				return true, err
			}
			if wanted {
				l.page.States = append(l.page.States, *s)
			}
			full := len(l.page.States) == q.Limit
			if full || (i%8 == 7 || i == len(l.batch)-1) && l.exceedsTimeLimit() {
				l.page.Next, l.page.Partial = l.pageToken(), !full
				return true, nil
			}
		}
		if !more {
			return false, nil
		}
	}
}

// matchesCondition evaluates the query's CEL condition (Query.Match) on an event state. It clones the output of a
// matching state; the outputs of other states are valid until the next batch.
func (l *listScan) matchesCondition(s *State) (bool, error) {
	if l.query.Match == nil {
		return true, nil
	}
	ok, err := l.query.Match(s)
	if ok {
		s.Output = strings.Clone(s.Output)
	}
	return ok, err
}

// exceedsTimeLimit reports whether the list request has used its time limit.
func (l *listScan) exceedsTimeLimit() bool { return !l.until.IsZero() && time.Now().After(l.until) }

// setOutputs fills in the output texts of the listed event states. The outputs are copies if the page keeps them, else
// parts of l.text that are valid until the next batch.
func (l *listScan) setOutputs() {
	text := unsafe.String(unsafe.SliceData(l.text), len(l.text))
	if l.query.Match == nil {
		text = string(l.text)
	}
	from := 0
	for i, to := range l.bounds {
		l.batch[i].Output = text[from:to]
		from = to
	}
}

// pageToken returns the token with which the next request continues after the last listed state
func (l *listScan) pageToken() string { return encodePageToken(l.at, l.view.JournalID()) }

// Get returns the state of one event.
func (v *View) Get(node model.NodeID, source model.Source) (s State, ok bool) {
	p := v.partitionOf(node)
	if p == nil {
		return s, false
	}
	p.Lock()
	defer p.Unlock()
	n, ok := p.Find(node)
	if !ok {
		return s, false
	}
	slot, ok := p.findSource(n, model.CheckID(source.ID), source.Instance)
	if ok {
		p.copyState(slot, &s)
		from := p.slots.slot(slot)
		s.Output, s.Extra, s.Runs = string(p.outputText(from)), p.decodeExtra(from), p.latestRuns(slot)
	}
	return s, ok
}

// Counts returns the number of event states by status, in one namespace or in all.
func (v *View) Counts(namespace model.NamespaceID) (sum Counts) {
	for _, p := range v.partitions {
		p.Lock()
		for ns, c := range p.counts {
			if namespace == 0 || namespace == ns {
				sum.add(c)
			}
		}
		p.Unlock()
	}
	return sum
}

// CountsByNamespace returns the number of event states by status for each namespace.
func (v *View) CountsByNamespace() map[model.NamespaceID]Counts {
	all := map[model.NamespaceID]Counts{}
	for _, p := range v.partitions {
		p.Lock()
		for ns, c := range p.counts {
			sum := all[ns]
			sum.add(c)
			all[ns] = sum
		}
		p.Unlock()
	}
	return all
}

var _ Reader = (*View)(nil)

const (
	// copyBatchStates is the number of states that a list copies while it holds a partition's lock once.
	copyBatchStates = 64
	// sparseCandidates is the largest number of candidate states that a list sorts. With more candidates a walk
	// through the partition's nodes is cheaper.
	sparseCandidates = 512
	// nodeCandidates is the largest number of candidate states per node with which a list sorts instead of walking.
	nodeCandidates = 3
)

// copyCandidates copies the next event states that may match the query into the current batch. It reports whether more
// may follow. It holds the partition's lock; Match is asked without it.
func (l *listScan) copyCandidates() (more bool) {
	q := l.query
	p := l.view.partitions[l.at.partition]
	l.batch, l.text, l.bounds = l.batch[:0], l.text[:0], l.bounds[:0]
	want := copyBatchStates
	if q.Match == nil {
		want = min(want, q.Limit-len(l.page.States))
	}
	p.Lock()
	defer p.Unlock()
	if !l.intersectIndexes(p) {
		return false
	}
	take := func(slot uint32) bool {
		if len(l.batch) == want {
			return false
		}
		if q.Instance != "" && p.instanceOf(slot) != q.Instance {
			return true
		}
		l.batch = append(l.batch, State{})
		p.copyState(slot, &l.batch[len(l.batch)-1])
		l.text = append(l.text, p.outputText(p.slots.slot(slot))...)
		l.bounds = append(l.bounds, len(l.text))
		return true
	}
	if nodes := l.candidateNodes(p); l.candidates.count <= min(l.view.sparseLimit, nodeCandidates*len(nodes)) {
		more = !l.walkSorted(p, take)
	} else {
		more = !l.walkNodes(p, nodes, take)
	}
	l.setOutputs()
	return more
}

// intersectIndexes finds the event states that all indexes for the query contain, as candidates for the list.
// They become the candidates of the scan. It returns false without candidates.
func (l *listScan) intersectIndexes(p *eventPartition) bool {
	q := l.query
	worst := &p.bySeverity[l.at.severity]
	if !q.ByNode && worst.count == 0 || q.Problems && p.open.count == 0 || !l.hasSelectedNamespace(p) {
		return false
	}
	if l.candidates.copyFrom(worst); q.ByNode {
		for i := range p.bySeverity {
			l.candidates.union(&p.bySeverity[i])
		}
	}
	if q.Problems {
		l.candidates.intersect(&p.open)
	}
	if len(q.Statuses) > 0 {
		l.scan.reset()
		for _, s := range q.Statuses {
			l.scan.union(&p.byStatus[s&3])
		}
		l.candidates.intersect(&l.scan)
	}
	if len(q.Checks) > 0 && l.candidates.count > 0 {
		l.scan.reset()
		for _, c := range q.Checks {
			for _, slot := range p.byCheck[c] {
				l.scan.add(slot)
			}
		}
		l.candidates.intersect(&l.scan)
	}
	return l.candidates.count > 0
}

// hasSelectedNamespace reports whether any node of the partition is in a namespace that the query selects.
func (l *listScan) hasSelectedNamespace(p *eventPartition) bool {
	for _, ns := range l.query.Namespaces {
		if p.NamespaceNodes(ns) != nil {
			return true
		}
	}
	return len(l.query.Namespaces) == 0
}

// candidateNodes returns the nodes that the query may select, sorted by id. It starts at the position of the page
// token.
func (l *listScan) candidateNodes(p *eventPartition) []uint32 {
	q := l.query
	list := p.SortedNodes()
	switch len(q.Namespaces) {
	case 0:
	case 1:
		list = p.NamespaceNodes(q.Namespaces[0])
	default:
		l.nodes = l.nodes[:0]
		for _, ns := range q.Namespaces {
			l.nodes = append(l.nodes, p.NamespaceNodes(ns)...)
		}
		slices.SortFunc(l.nodes, func(a, b uint32) int { return cmp.Compare(p.Node(a).ID, p.Node(b).ID) })
		list = l.nodes
	}
	if wanted := q.nodes[p.ID]; q.Nodes != nil && len(wanted) <= len(list) {
		l.nodes = l.nodes[:0]
		from, _ := slices.BinarySearch(wanted, l.at.node)
		for _, id := range wanted[from:] {
			if n, ok := p.Find(id); ok {
				l.nodes = append(l.nodes, n)
			}
		}
		return l.nodes
	}
	from, _ := p.Search(list, l.at.node)
	return list[from:]
}

// selectsNode reports whether the query selects a node by the node's namespace and id.
func (l *listScan) selectsNode(p *eventPartition, n *shard.Node) bool {
	if !containsID(l.query.Namespaces, n.Namespace) {
		return false
	}
	if l.query.Nodes == nil {
		return true
	}
	_, ok := slices.BinarySearch(l.query.nodes[p.ID], n.ID)
	return ok
}

// walkNodes calls fn, node by node, for each event after the page token that may match the query. It stops when
// fn returns false.
func (l *listScan) walkNodes(p *eventPartition, nodes []uint32, fn func(slot uint32) bool) bool {
	for _, at := range nodes {
		n := p.Node(at)
		if !l.selectsNode(p, n) {
			continue
		}
		for _, e := range p.nodes[at].states {
			if l.candidates.has(e.slot) && (n.ID != l.at.node || e.check > l.at.check || e.check == l.at.check && p.instanceOf(e.slot) > l.at.instance) && !fn(e.slot) {
				return false
			}
		}
	}
	return true
}

// walkSorted calls fn, in list order, for each event after the page token that may match the query. It stops
// when fn returns false.
func (l *listScan) walkSorted(p *eventPartition, fn func(slot uint32) bool) bool {
	l.keys = l.keys[:0]
	for w, word := range l.candidates.words {
		for ; word != 0; word &= word - 1 {
			slot := uint32(w<<6 + bits.TrailingZeros64(word))
			s := p.slots.slot(slot)
			n := p.Node(s.node)
			before := n.ID < l.at.node || n.ID == l.at.node && (s.check < l.at.check || s.check == l.at.check && p.instanceOf(slot) <= l.at.instance)
			if before || !l.selectsNode(p, n) {
				continue
			}
			l.keys = append(l.keys, slotByKey{uint64(n.ID)<<32 | uint64(s.check), slot})
		}
	}
	slices.SortFunc(l.keys, func(a, b slotByKey) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(p.instanceOf(a.slot), p.instanceOf(b.slot)))
	})
	for _, k := range l.keys {
		if !fn(k.slot) {
			return false
		}
	}
	return true
}

// instanceOf returns the name of the trigger that caused a stored event, or an empty text
func (p *eventPartition) instanceOf(slot uint32) string {
	return p.instance(p.slots.slot(slot))
}

// slotByKey pairs the memory slot of an event state with its sort key of node and check.
type slotByKey struct {
	key  uint64 // node, check
	slot uint32
}
