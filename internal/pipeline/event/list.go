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
)

// DefaultLimit is the page size of a query that names none, MaxLimit the largest.
const (
	DefaultLimit = 50
	MaxLimit     = 10_000
)

// copyBatch is how many states are copied out under one hold of a partition's lock.
const copyBatch = 64

// List implements Reader. It goes through the severities from the worst, through
// the partitions of each, and touches only what the indexes leave. Pages are exact
// for what does not change its severity between them.
func (v *View) List(ctx context.Context, q Query) (Page, error) {
	c, err := v.compile(q)
	if err != nil {
		return Page{}, err
	}
	l := listing{view: v, query: &c, at: c.from}
	if c.MatchWithin > 0 {
		l.until = time.Now().Add(c.MatchWithin)
	}
	err = l.run(ctx)
	return l.page, err
}

type listing struct {
	view  *View
	query *query
	at    place // what was looked at last
	until time.Time
	page  Page

	found  bitset // candidates in the partition at hand
	scan   bitset
	batch  []State
	text   []byte
	bounds []int
	keys   []slotKey
}

func (l *listing) run(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		done, err := l.partition()
		if done || err != nil {
			return err
		}
		l.at.node, l.at.check = 0, 0
		if l.at.partition++; l.at.partition == model.Partitions {
			l.at.partition = 0
			if l.at.severity--; l.at.severity < 0 {
				return nil
			}
		}
	}
}

// partition takes what matches in one partition at one severity, batch by batch.
func (l *listing) partition() (done bool, err error) {
	q := l.query
	if q.Nodes != nil && len(q.nodes[l.at.partition]) == 0 {
		return false, nil
	}
	for {
		more := l.collect()
		for i := range l.batch {
			s := &l.batch[i]
			l.at.node, l.at.check = s.Node, s.Check
			if q.Match != nil {
				if ok, err := q.Match(s); err != nil {
					return true, err
				} else if !ok {
					continue
				}
				s.Output = strings.Clone(s.Output)
			}
			l.page.States = append(l.page.States, *s)
			if len(l.page.States) == q.Limit {
				l.page.Next = l.token()
				return true, nil
			}
		}
		if !more {
			return false, nil
		}
		if !l.until.IsZero() && time.Now().After(l.until) {
			l.page.Next, l.page.Partial = l.token(), true
			return true, nil
		}
	}
}

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
	p.mu.Lock()
	defer p.mu.Unlock()
	if !l.candidates(p) {
		return false
	}
	take := func(slot uint32) bool {
		if len(l.batch) == want {
			return false
		}
		l.batch = append(l.batch, State{})
		p.load(slot, &l.batch[len(l.batch)-1])
		l.text = append(l.text, p.outputs.bytes(p.slots.at(slot).output)...)
		l.bounds = append(l.bounds, len(l.text))
		return true
	}
	if l.found.count <= l.view.sparse {
		more = !l.eachFound(p, take)
	} else {
		more = !l.eachNode(p, func(n *node) bool {
			if !q.admitsNamespace(n.namespace) {
				return true
			}
			for _, e := range n.states {
				if l.found.has(e.slot) && (n.id != l.at.node || e.check > l.at.check) && !take(e.slot) {
					return false
				}
			}
			return true
		})
	}
	l.setOutputs()
	return more
}

// sparseCandidates is up to how many candidates it is cheaper to sort than to walk through
// the partition's nodes, which lie all over the memory.
const sparseCandidates = 512

// eachFound calls fn for the candidates in order from l.at, while it returns true.
func (l *listing) eachFound(p *partition, fn func(slot uint32) bool) bool {
	l.keys = l.keys[:0]
	for w, word := range l.found.words {
		for ; word != 0; word &= word - 1 {
			slot := uint32(w<<6 + bits.TrailingZeros64(word))
			s := p.slots.at(slot)
			n := &p.nodes[s.node]
			if n.id < l.at.node || n.id == l.at.node && s.check <= l.at.check ||
				!l.query.admitsNode(n.id) || !l.query.admitsNamespace(n.namespace) {
				continue
			}
			l.keys = append(l.keys, slotKey{uint64(n.id)<<32 | uint64(s.check), slot})
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

// eachNode calls fn for the wanted nodes in order from l.at, while it returns true.
func (l *listing) eachNode(p *partition, fn func(*node) bool) bool {
	if l.query.Nodes != nil {
		wanted := l.query.nodes[l.at.partition]
		from, _ := slices.BinarySearch(wanted, l.at.node)
		for _, id := range wanted[from:] {
			if n, ok := p.findNode(id); ok && !fn(&p.nodes[n]) {
				return false
			}
		}
		return true
	}
	from, _ := p.searchNode(l.at.node)
	for _, n := range p.order[from:] {
		if !fn(&p.nodes[n]) {
			return false
		}
	}
	return true
}

// candidates intersects the indexes into l.found; false: nothing is left.
func (l *listing) candidates(p *partition) bool {
	q := l.query
	worst := &p.bySeverity[l.at.severity]
	if worst.count == 0 || q.Problems && p.open.count == 0 {
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

// setOutputs gives the batch its texts: of its own where they stay, else lent from
// l.text until the next batch, because Match may not keep them.
func (l *listing) setOutputs() {
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

func (l *listing) token() string { return token(l.at, l.view.log.Load()) }

// Get implements Reader.
func (v *View) Get(node model.NodeID, check model.CheckID) (s State, ok bool) {
	p := v.partitionOf(node)
	if p == nil {
		return s, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.findNode(node)
	if !ok {
		return s, false
	}
	slot, ok := p.nodes[n].find(check)
	if ok {
		p.load(slot, &s)
		s.Output = string(p.outputs.bytes(p.slots.at(slot).output))
	}
	return s, ok
}

// Counts implements Reader.
func (v *View) Counts(namespace model.NamespaceID) (sum Counts) {
	for _, p := range v.partitions {
		p.mu.Lock()
		for ns, c := range p.counts {
			if namespace == 0 || namespace == ns {
				sum.States += c.States
				sum.Problems += c.Problems
				for i, n := range c.ByStatus {
					sum.ByStatus[i] += n
				}
			}
		}
		p.mu.Unlock()
	}
	return sum
}

var _ Reader = (*View)(nil)
