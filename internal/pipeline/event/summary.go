package event

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
)

// Summary sums up the event states of one node.
type Summary struct {
	ByStatus [4]uint64
	Problems uint64
	Severity model.Severity // of the worst
	Silent   bool           // the keepalive's deadline passed
	Stopped  bool           // it said goodbye: nothing is expected of it
	Limited  bool           // it has the event that says that it met a limit
	Heard    int64          // Unix ns of the last sign of life; zero: never
}

// CountedStates returns the number of states that the limit statesPerNode counts: all but the event that
// reports the limit.
func (s *Summary) CountedStates() uint64 {
	n := s.ByStatus[0] + s.NotOK()
	if s.Limited {
		n--
	}
	return n
}

// NotOK returns the number of states that are not OK.
func (s *Summary) NotOK() uint64 { return s.ByStatus[1] + s.ByStatus[2] + s.ByStatus[3] }

// Summaries implements Reader. It holds a partition's lock for one node at a time.
func (v *View) Summaries(nodes []model.NodeID) []Summary {
	out := make([]Summary, len(nodes))
	for i, id := range nodes {
		if p := v.partitionOf(id); p != nil {
			p.summarize(id, &out[i])
		}
	}
	return out
}

func (p *eventPartition) summarize(id model.NodeID, out *Summary) {
	p.Lock()
	defer p.Unlock()
	at, ok := p.Find(id)
	if !ok {
		return
	}
	n := p.Node(at)
	out.Heard, out.Stopped = n.LastSeen, n.Stopped
	for _, e := range p.nodes[at].states {
		s := p.slots.slot(e.slot)
		out.ByStatus[s.status&3]++
		out.Severity = max(out.Severity, s.severity)
		if s.flags&flagProblemOpen != 0 {
			out.Problems++
		}
		out.Limited = out.Limited || e.check == model.LimitsCheck
		if e.check == model.KeepaliveCheck && s.status != model.OK {
			out.Silent = true
		}
	}
}

// CountsOf implements Reader: the states of one check, over all nodes.
func (v *View) CountsOf(check model.CheckID) (sum Counts) {
	for _, p := range v.partitions {
		p.Lock()
		for _, slot := range p.byCheck[check] {
			s := p.slots.slot(slot)
			sum.States++
			sum.ByStatus[s.status&3]++
			if s.flags&flagProblemOpen != 0 {
				sum.Problems++
			}
		}
		p.Unlock()
	}
	return sum
}

// maxExampleNodes is the largest number of nodes that a FailingCheck names.
const maxExampleNodes = 3

// FailingCheck is one check that is not OK with one status: on how many nodes.
type FailingCheck struct {
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

type failingCheckKey struct {
	check  model.CheckID
	status model.Status
}

// FailingChecks implements Reader. It looks at every state that is not OK, and at no other.
func (v *View) FailingChecks(namespace model.NamespaceID) []FailingCheck {
	all := map[failingCheckKey]*FailingCheck{}
	for _, p := range v.partitions {
		p.Lock()
		for status := model.Warning; status <= model.Unknown; status++ {
			p.addFailingChecks(status, namespace, all)
		}
		p.Unlock()
	}
	list := make([]FailingCheck, 0, len(all))
	for _, w := range all {
		list = append(list, *w)
	}
	slices.SortFunc(list, CompareFailingChecks)
	return list
}

// CompareFailingChecks orders by severity, the worst first, then by nodes.
func CompareFailingChecks(a, b FailingCheck) int {
	return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(b.First, a.First),
		cmp.Compare(a.Check, b.Check), cmp.Compare(a.Status, b.Status))
}

// addFailingChecks adds the states of one status to the failing checks. The caller holds the partition's mutex.
func (p *eventPartition) addFailingChecks(
	status model.Status, namespace model.NamespaceID, all map[failingCheckKey]*FailingCheck,
) {
	set := &p.byStatus[status]
	if set.count == 0 || namespace != 0 && p.counts[namespace] == nil {
		return
	}
	for at, word := range set.words {
		for ; word != 0; word &= word - 1 {
			s := p.slots.slot(uint32(at<<6 + bits.TrailingZeros64(word)))
			n := p.Node(s.node)
			if namespace != 0 && n.Namespace != namespace {
				continue
			}
			key := failingCheckKey{s.check, status}
			w := all[key]
			if w == nil {
				w = &FailingCheck{Check: s.check, Status: status, Namespace: n.Namespace, First: s.changed}
				all[key] = w
			}
			w.addState(s, n)
		}
	}
}

func (w *FailingCheck) addState(s *stateSlot, n *shard.Node) {
	w.Nodes++
	w.Severity = max(w.Severity, s.severity)
	w.First, w.Last = min(w.First, s.changed), max(w.Last, s.changed)
	if w.Namespace != n.Namespace {
		w.Namespace = 0
	}
	if s.flags&flagProblemOpen != 0 {
		w.Problems++
	}
	if len(w.Examples) == maxExampleNodes && n.ID > w.Examples[maxExampleNodes-1] {
		return
	}
	at, _ := slices.BinarySearch(w.Examples, n.ID)
	w.Examples = slices.Insert(w.Examples, at, n.ID)
	w.Examples = w.Examples[:min(len(w.Examples), maxExampleNodes)]
}
