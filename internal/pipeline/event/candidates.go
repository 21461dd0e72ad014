package event

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/muster-fleet/muster/internal/pipeline/shard"
)

const (
	// copyBatch is how many states are copied out under one hold of a partition's lock.
	copyBatch = 64
	// sparseCandidates is up to how many candidates it is cheaper to sort than to walk
	// through the partition's nodes, which lie all over the memory …
	sparseCandidates = 512
	// … and nodeCandidates up to how many for each node that would be walked through.
	nodeCandidates = 3
)

// collect copies the next candidates behind l.at into l.batch and says whether there
// may be more. It holds the partition's lock; Match is asked without it.
func (l *listing) collect() (more bool) {
	q := l.query
	p := l.view.partitions[l.at.partition]
	l.batch, l.text, l.bounds = l.batch[:0], l.text[:0], l.bounds[:0]
	want := copyBatch
	if q.Match == nil {
		want = min(want, q.Limit-len(l.page.States))
	}
	p.Lock()
	defer p.Unlock()
	if !l.candidates(p) {
		return false
	}
	take := func(slot uint32) bool {
		if len(l.batch) == want {
			return false
		}
		l.batch = append(l.batch, State{})
		p.load(slot, &l.batch[len(l.batch)-1])
		l.text = append(l.text, p.output(p.slots.at(slot))...)
		l.bounds = append(l.bounds, len(l.text))
		return true
	}
	if nodes := l.holders(p); l.found.count <= min(l.view.sparse, nodeCandidates*len(nodes)) {
		more = !l.eachFound(p, take)
	} else {
		more = !l.eachOf(p, nodes, take)
	}
	l.setOutputs()
	return more
}

// candidates intersects the indexes into l.found; false: nothing is left.
func (l *listing) candidates(p *partition) bool {
	q := l.query
	worst := &p.bySeverity[l.at.severity]
	if worst.count == 0 || q.Problems && p.open.count == 0 || !l.inhabited(p) {
		return false
	}
	l.found.copyFrom(worst)
	if q.Problems {
		l.found.intersect(&p.open)
	}
	if len(q.Statuses) > 0 {
		l.scan.reset()
		for _, s := range q.Statuses {
			l.scan.unite(&p.byStatus[s&3])
		}
		l.found.intersect(&l.scan)
	}
	if len(q.Checks) > 0 && l.found.count > 0 {
		l.scan.reset()
		for _, c := range q.Checks {
			for _, slot := range p.byCheck[c] {
				l.scan.add(slot)
			}
		}
		l.found.intersect(&l.scan)
	}
	return l.found.count > 0
}

// inhabited says whether any node of the partition is in a wanted namespace.
func (l *listing) inhabited(p *partition) bool {
	for _, ns := range l.query.Namespaces {
		if p.NodesOf(ns) != nil {
			return true
		}
	}
	return len(l.query.Namespaces) == 0
}

// holders returns nodes, by id and from l.at on, that include all wanted ones: the nodes of the query, the
// nodes of its namespaces, or all, whichever are the fewest.
func (l *listing) holders(p *partition) []uint32 {
	q := l.query
	list := p.Order()
	switch len(q.Namespaces) {
	case 0:
	case 1:
		list = p.NodesOf(q.Namespaces[0])
	default:
		l.nodes = l.nodes[:0]
		for _, ns := range q.Namespaces {
			l.nodes = append(l.nodes, p.NodesOf(ns)...)
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

// admits checks the conditions on a node, which no index of states has.
func (l *listing) admits(p *partition, n *shard.Node) bool {
	if !l.query.admitsNamespace(n.Namespace) {
		return false
	}
	if l.query.Nodes == nil {
		return true
	}
	_, ok := slices.BinarySearch(l.query.nodes[p.ID], n.ID)
	return ok
}

// eachOf calls fn for the candidates of the nodes in order from l.at, while it returns true.
func (l *listing) eachOf(p *partition, nodes []uint32, fn func(slot uint32) bool) bool {
	for _, at := range nodes {
		n := p.Node(at)
		if !l.admits(p, n) {
			continue
		}
		for _, e := range p.nodes[at].states {
			if l.found.has(e.slot) && (n.ID != l.at.node || e.check > l.at.check) && !fn(e.slot) {
				return false
			}
		}
	}
	return true
}

// eachFound calls fn for the candidates in order from l.at, while it returns true.
func (l *listing) eachFound(p *partition, fn func(slot uint32) bool) bool {
	l.keys = l.keys[:0]
	for w, word := range l.found.words {
		for ; word != 0; word &= word - 1 {
			slot := uint32(w<<6 + bits.TrailingZeros64(word))
			s := p.slots.at(slot)
			n := p.Node(s.node)
			if n.ID < l.at.node || n.ID == l.at.node && s.check <= l.at.check || !l.admits(p, n) {
				continue
			}
			l.keys = append(l.keys, slotKey{uint64(n.ID)<<32 | uint64(s.check), slot})
		}
	}
	slices.SortFunc(l.keys, func(a, b slotKey) int { return cmp.Compare(a.key, b.key) })
	for _, k := range l.keys {
		if !fn(k.slot) {
			return false
		}
	}
	return true
}

type slotKey struct {
	key  uint64 // node, check
	slot uint32
}
