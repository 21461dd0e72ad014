package event

import (
	"slices"
	"sync"

	"github.com/muster-fleet/muster/internal/expect"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
)

// partition is 1/256 of the fleet: its nodes, their event states and the indexes
// over them. Only its worker changes it; everybody holds mu while looking, for
// microseconds, and calls nobody outside this package meanwhile.
type partition struct {
	view *View
	id   model.Partition

	mu sync.Mutex
	at journal.Position // the last commit that touched it

	nodes     []node
	freeNodes []uint32
	order     []uint32 // of nodes, by node id: the order of every list and snapshot

	slots     slab
	outputs   outputs
	joined    []byte                    // see keep
	deadlines expect.Engine             // by slot
	problems  map[uint32]*model.Problem // open ones, by slot; replaced, never changed
	runners   map[uint32]model.NodeID   // who ran it, by slot, where that is another node
	absent    map[absentKey]absence
	absences  []absentSince // those of absent, and renewed ones, by time

	byStatus   [4]bitset
	bySeverity [6]bitset
	open       bitset
	byCheck    map[model.CheckID][]uint32
	rooms      map[model.NamespaceID]*room
}

func newPartition(v *View, id model.Partition) *partition {
	return &partition{
		view: v, id: id,
		problems: map[uint32]*model.Problem{},
		runners:  map[uint32]model.NodeID{},
		absent:   map[absentKey]absence{},
		byCheck:  map[model.CheckID][]uint32{},
		rooms:    map[model.NamespaceID]*room{},
	}
}

// findNode returns the node's index.
func (p *partition) findNode(id model.NodeID) (uint32, bool) {
	at, ok := p.searchNode(id)
	if !ok {
		return 0, false
	}
	return p.order[at], true
}

func (p *partition) searchNode(id model.NodeID) (at int, ok bool) { return p.search(p.order, id) }

// search finds a node in a list of nodes by id.
func (p *partition) search(list []uint32, id model.NodeID) (at int, ok bool) {
	low, high := 0, len(list)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if p.nodes[list[mid]].id < id {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < len(list) && p.nodes[list[low]].id == id
}

// addNode makes a node that is not there yet.
func (p *partition) addNode(id model.NodeID, ns model.NamespaceID) uint32 {
	at, found := p.searchNode(id)
	if found {
		panic("BUG: node added twice")
	}
	var n uint32
	if last := len(p.freeNodes); last > 0 {
		n = p.freeNodes[last-1]
		p.freeNodes = p.freeNodes[:last-1]
	} else {
		p.nodes = append(p.nodes, node{})
		n = uint32(len(p.nodes) - 1)
	}
	p.nodes[n] = node{id: id, namespace: ns}
	p.order = slices.Insert(p.order, at, n)
	p.enter(n)
	p.view.places.set(id, p.id)
	return n
}

// removeNode takes the node with everything it has.
func (p *partition) removeNode(n uint32) {
	for len(p.nodes[n].states) > 0 {
		p.removeState(p.nodes[n].states[len(p.nodes[n].states)-1].slot)
	}
	p.settleAll(n)
	at, _ := p.searchNode(p.nodes[n].id)
	p.order = slices.Delete(p.order, at, at+1)
	p.leave(n)
	p.view.places.remove(p.nodes[n].id)
	p.nodes[n] = node{}
	p.freeNodes = append(p.freeNodes, n)
}

// addState makes an empty state, OK and without history, of a check that the node
// does not have yet.
func (p *partition) addState(n uint32, check model.CheckID) (uint32, *slot) {
	id := p.slots.take()
	s := p.slots.at(id)
	*s = slot{check: check, node: n}
	p.nodes[n].insert(check, id)
	p.byStatus[s.status].add(id)
	p.bySeverity[s.severity].add(id)
	p.byCheck[check] = append(p.byCheck[check], id)
	r := p.roomOf(n)
	r.States++
	r.ByStatus[s.status]++
	p.view.totals.counter(p.nodes[n].namespace).Add(1)
	return id, s
}

func (p *partition) removeState(id uint32) {
	s := p.slots.at(id)
	r := p.roomOf(s.node)
	r.States--
	r.ByStatus[s.status]--
	if s.flags&flagOpen != 0 {
		r.Problems--
	}
	p.view.totals.counter(p.nodes[s.node].namespace).Add(-1)

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
	p.slots.give(id)
}

// mark gives a state another status and severity, in the indexes too.
func (p *partition) mark(id uint32, s *slot, status model.Status, severity model.Severity) {
	if s.status != status {
		r := p.roomOf(s.node)
		r.ByStatus[s.status]--
		r.ByStatus[status]++
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
	r := p.roomOf(s.node)
	switch was := s.flags&flagOpen != 0; {
	case problem != nil:
		p.problems[id] = problem
		if !was {
			s.flags |= flagOpen
			p.open.add(id)
			r.Problems++
		}
	case was:
		delete(p.problems, id)
		s.flags &^= flagOpen
		p.open.remove(id)
		r.Problems--
	}
}

// load copies a state out, all but its output.
func (p *partition) load(id uint32, dst *State) {
	s := p.slots.at(id)
	n := &p.nodes[s.node]
	*dst = State{
		Node: n.id, Check: s.check, Chunk: s.chunk, Namespace: n.namespace,
		Status: s.status, Severity: s.severity, Expired: s.flags&flagExpired != 0,
		Occurrences: s.occurrences, Watermark: s.watermark, StateChanges: s.stateChanges,
		Change: s.change(), Flapping: s.flags&flagFlapping != 0,
		HistoryLen: s.historyLen, History: s.history,
		Results: s.results, Lost: s.lost, Stream: s.stream, Number: s.number, Order: s.order,
		Received: s.received, Executed: s.executed, LastOK: s.lastOK, Changed: s.changed,
		Duration: millis(s.durationMs), RanBy: p.runners[id],
		Problem: p.problems[id],
	}
	if s.status == model.OK {
		dst.Passing = s.streak
	} else {
		dst.Failing = s.streak
	}
	if s.check == model.KeepaliveCheck && s.status == model.OK && !n.stopped {
		// A sign of life is a store in the node, not a result (see node.heard).
		dst.Received, dst.Executed, dst.LastOK = n.heard, n.heard, n.heard
	}
}
