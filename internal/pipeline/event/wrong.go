package event

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
)

// examples is how many nodes stand for all of a Wrong.
const examples = 3

// Wrong is one check that is not OK with one status: on how many nodes.
type Wrong struct {
	Check     model.CheckID
	Status    model.Status
	Severity  model.Severity    // of the worst
	Namespace model.NamespaceID // of its nodes; zero: of several
	Nodes     uint64
	Problems  uint64         // open ones
	First     int64          // Unix ns: since when it is so, on the first …
	Last      int64          // … and on the last node
	Examples  []model.NodeID // some of them, by id
}

type wrongKey struct {
	check  model.CheckID
	status model.Status
}

// Wrong implements Reader. It looks at every state that is not OK, and at no other.
func (v *View) Wrong(namespace model.NamespaceID) []Wrong {
	all := map[wrongKey]*Wrong{}
	for _, p := range v.partitions {
		p.Lock()
		for status := model.Warning; status <= model.Unknown; status++ {
			p.wrong(status, namespace, all)
		}
		p.Unlock()
	}
	list := make([]Wrong, 0, len(all))
	for _, w := range all {
		list = append(list, *w)
	}
	slices.SortFunc(list, CompareWrong)
	return list
}

// CompareWrong orders by severity, the worst first, then by nodes.
func CompareWrong(a, b Wrong) int {
	return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(b.First, a.First),
		cmp.Compare(a.Check, b.Check), cmp.Compare(a.Status, b.Status))
}

// wrong adds the states of one status; mu is held.
func (p *partition) wrong(status model.Status, namespace model.NamespaceID, all map[wrongKey]*Wrong) {
	set := &p.byStatus[status]
	if set.count == 0 || namespace != 0 && p.counts[namespace] == nil {
		return
	}
	for at, word := range set.words {
		for ; word != 0; word &= word - 1 {
			s := p.slots.at(uint32(at<<6 + bits.TrailingZeros64(word)))
			n := p.Node(s.node)
			if namespace != 0 && n.Namespace != namespace {
				continue
			}
			key := wrongKey{s.check, status}
			w := all[key]
			if w == nil {
				w = &Wrong{Check: s.check, Status: status, Namespace: n.Namespace, First: s.changed}
				all[key] = w
			}
			w.add(s, n)
		}
	}
}

func (w *Wrong) add(s *slot, n *shard.Node) {
	w.Nodes++
	w.Severity = max(w.Severity, s.severity)
	w.First, w.Last = min(w.First, s.changed), max(w.Last, s.changed)
	if w.Namespace != n.Namespace {
		w.Namespace = 0
	}
	if s.flags&flagOpen != 0 {
		w.Problems++
	}
	if len(w.Examples) == examples && n.ID > w.Examples[examples-1] {
		return
	}
	at, _ := slices.BinarySearch(w.Examples, n.ID)
	w.Examples = slices.Insert(w.Examples, at, n.ID)
	w.Examples = w.Examples[:min(len(w.Examples), examples)]
}
