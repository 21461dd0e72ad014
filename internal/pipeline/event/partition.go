package event

import (
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/expect"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
)

// partition is the event states of 1/256 of the fleet and the indexes over them. It lies
// beside the shard's partition, whose mutex guards it: only its worker changes it; readers hold
// the mutex for microseconds, and call nobody outside this package meanwhile.
type partition struct {
	*shard.Partition
	view *View

	nodes     []node // by the shard's index of the node
	slots     slab
	outputs   outputs
	joined    []byte                       // scratch of storeOutput
	deadlines *expect.Engine               // by slot
	problems  map[uint32]*model.Problem    // open ones, by slot; replaced, never changed
	runners   map[uint32]model.NodeID      // node that ran the check, by slot; only where it is another one
	reserved  map[uint32][]model.CheckID   // by node: admitted and not yet in its states; not in snapshots, see Admit
	absent    map[stateKey]shard.Tombstone // of checks, on one node or (node zero) on all
	absences  []absentSince                // of absent, by time; an old entry of a renewed one is skipped

	byStatus   [4]bitset
	bySeverity [6]bitset
	open       bitset
	byCheck    map[model.CheckID][]uint32
	counts     map[model.NamespaceID]*Counts // of namespaces that have states
}

// reset makes the partition empty.
func (p *partition) reset(v *View, of *shard.Partition, deadlines *expect.Engine) {
	*p = partition{
		Partition: of, view: v, deadlines: deadlines,
		problems: map[uint32]*model.Problem{},
		runners:  map[uint32]model.NodeID{},
		reserved: map[uint32][]model.CheckID{},
		absent:   map[stateKey]shard.Tombstone{},
		byCheck:  map[model.CheckID][]uint32{},
		counts:   map[model.NamespaceID]*Counts{},
	}
}

// countsOf is the counts of a namespace.
func (p *partition) countsOf(ns model.NamespaceID) *Counts {
	c := p.counts[ns]
	if c == nil {
		c = new(Counts)
		p.counts[ns] = c
	}
	return c
}

// addState makes an empty state, OK and without history, of a check that the node
// does not have yet.
func (p *partition) addState(n uint32, check model.CheckID) (uint32, *slot) {
	id := p.slots.allocate()
	s := p.slots.at(id)
	*s = slot{check: check, node: n}
	p.nodes[n].insert(check, id)
	p.byStatus[s.status].add(id)
	p.bySeverity[s.severity].add(id)
	p.byCheck[check] = append(p.byCheck[check], id)
	ns := p.Node(n).Namespace
	c := p.countsOf(ns)
	c.States++
	c.ByStatus[s.status]++
	p.view.totals.counter(ns).Add(1)
	return id, s
}

func (p *partition) removeState(id uint32) {
	s := p.slots.at(id)
	ns := p.Node(s.node).Namespace
	c := p.counts[ns]
	c.ByStatus[s.status]--
	if s.flags&flagOpen != 0 {
		c.Problems--
	}
	if c.States--; c.States == 0 {
		delete(p.counts, ns)
	}
	p.view.totals.counter(ns).Add(-1)

	p.nodes[s.node].remove(s.check)
	p.byStatus[s.status].remove(id)
	p.bySeverity[s.severity].remove(id)
	p.open.remove(id)
	list := p.byCheck[s.check]
	if i := slices.Index(list, id); len(list) == 1 {
		delete(p.byCheck, s.check)
	} else {
		list[i] = list[len(list)-1]
		p.byCheck[s.check] = list[:len(list)-1]
	}
	delete(p.problems, id)
	delete(p.runners, id)
	p.deadlines.Clear(id)
	p.outputs.drop(s.output)
	p.slots.release(id)
}

// mark gives a state another status and severity, in the indexes too.
func (p *partition) mark(id uint32, s *slot, status model.Status, severity model.Severity) {
	if s.status != status {
		c := p.counts[p.Node(s.node).Namespace]
		c.ByStatus[s.status]--
		c.ByStatus[status]++
		p.byStatus[s.status].remove(id)
		p.byStatus[status].add(id)
		s.status = status
	}
	if s.severity != severity {
		p.bySeverity[s.severity].remove(id)
		p.bySeverity[severity].add(id)
		s.severity = severity
	}
}

// setProblem opens (or replaces) the problem of a state; nil closes it.
func (p *partition) setProblem(id uint32, s *slot, problem *model.Problem) {
	c := p.counts[p.Node(s.node).Namespace]
	switch was := s.flags&flagOpen != 0; {
	case problem != nil:
		p.problems[id] = problem
		if !was {
			s.flags |= flagOpen
			p.open.add(id)
			c.Problems++
		}
	case was:
		delete(p.problems, id)
		s.flags &^= flagOpen
		p.open.remove(id)
		c.Problems--
	}
}

// load copies a state out, all but its output.
func (p *partition) load(id uint32, dst *State) {
	s := p.slots.at(id)
	n := p.Node(s.node)
	*dst = State{
		Node: n.ID, Check: s.check, Chunk: s.chunk, Namespace: n.Namespace,
		Status: s.status, Severity: s.severity, Expired: s.flags&flagExpired != 0,
		Occurrences: s.occurrences, Watermark: s.watermark,
		StatusHistory: StatusHistory{
			History: s.history, HistoryLen: s.historyLen, Change: s.change(), Flapping: s.flags&flagFlapping != 0, StateChanges: s.stateChanges,
		},
		Counters: Counters{Results: s.results, Lost: s.lost, Stream: s.stream, Number: s.number, Order: s.order},
		Received: s.received, Executed: s.executed, LastOK: s.lastOK, Changed: s.changed,
		Duration: time.Duration(s.durationMs) * time.Millisecond, RanBy: p.runners[id],
		Problem: p.problems[id],
	}
	if s.status == model.OK {
		dst.Passing = s.streak
	} else {
		dst.Failing = s.streak
	}
	if s.check == model.KeepaliveCheck && s.status == model.OK && !n.Stopped {
		// A sign of life is a store in the node, not a result.
		dst.Received, dst.Executed, dst.LastOK = n.LastSeen, n.LastSeen, n.LastSeen
	}
}
