package event

import (
	"context"
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

// List implements Reader. It goes through the severities from the worst, through
// the partitions of each, and touches only states that the indexes leave. Pages are exact
// for states whose severity does not change between them.
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
	at    place // of the last state
	until time.Time
	page  Page

	found  bitset   // candidates in the partition at hand
	nodes  []uint32 // of it, where no index lists them
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

// partition adds the matches of one partition and severity, batch by batch.
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
			wanted, err := l.match(s)
			if err != nil {
				return true, err
			}
			if wanted {
				l.page.States = append(l.page.States, *s)
			}
			full := len(l.page.States) == q.Limit
			if full || (i%8 == 7 || i == len(l.batch)-1) && l.late() {
				l.page.Next, l.page.Partial = l.token(), !full
				return true, nil
			}
		}
		if !more {
			return false, nil
		}
	}
}

// match asks Query.Match, which no index answers. It clones the output of a match; other outputs are lent.
func (l *listing) match(s *State) (bool, error) {
	if l.query.Match == nil {
		return true, nil
	}
	ok, err := l.query.Match(s)
	if ok {
		s.Output = strings.Clone(s.Output)
	}
	return ok, err
}

func (l *listing) late() bool { return !l.until.IsZero() && time.Now().After(l.until) }

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

func (l *listing) token() string { return token(l.at, l.view.Log()) }

// Get implements Reader.
func (v *View) Get(node model.NodeID, check model.CheckID) (s State, ok bool) {
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
	slot, ok := p.nodes[n].find(check)
	if ok {
		p.load(slot, &s)
		from := p.slots.at(slot)
		s.Output, s.Beside = string(p.output(from)), p.extra(from)
	}
	return s, ok
}

// Counts implements Reader.
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

// CountsByNamespace implements Reader.
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
