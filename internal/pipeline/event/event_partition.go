package event

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/expect"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/wire"
)

// eventPartition has the event states of one partition (1/256 of the fleet) and their indexes. It lies beside the
// shard's partition, whose mutex guards it: only its worker changes it; readers hold the mutex for microseconds, and
// call nobody outside this package meanwhile.
type eventPartition struct {
	*shard.Partition
	view *View

	nodes       []nodeStates // by the shard's index of the node
	slots       slotPages
	outputs     outputStore
	textScratch []byte                    // scratch of storeOutput
	deadlines   *expect.Engine            // by slot
	problems    map[uint32]*model.Problem // open ones, by slot; replaced, never changed
	runners     map[uint32]model.NodeID   // node that ran the check, by slot; only where it is another one
	runs        map[uint32]*runHistory    // latest runs, by slot; only of checks with pipelines, whose handlers read them
	instances   instanceNames
	reserved    map[uint32][]model.CheckID // by node: admitted and not yet in its states; not in snapshots, see Admit
	absent      shard.Tombstones[stateKey] // of forgotten checks, on one node or (node zero) on all

	byStatus   [4]bitset
	bySeverity [6]bitset
	open       bitset
	byCheck    map[model.CheckID][]uint32
	counts     map[model.NamespaceID]*Counts // of namespaces that have states
}

// resetPartition removes all event states from the partition (a share of the nodes), before a snapshot is
// restored.
func (p *eventPartition) resetPartition(v *View, of *shard.Partition, deadlines *expect.Engine) {
	*p = eventPartition{
		Partition: of, view: v, deadlines: deadlines,
		problems: map[uint32]*model.Problem{},
		runners:  map[uint32]model.NodeID{},
		runs:     map[uint32]*runHistory{},
		reserved: map[uint32][]model.CheckID{},
		byCheck:  map[model.CheckID][]uint32{},
		counts:   map[model.NamespaceID]*Counts{},
	}
}

// countsOf returns the number of a namespace's event states in the partition, by status
func (p *eventPartition) countsOf(ns model.NamespaceID) *Counts {
	c := p.counts[ns]
	if c == nil {
		c = new(Counts)
		p.counts[ns] = c
	}
	return c
}

// addState adds an event state without results to a node, for one of its checks or triggers. Its status is OK. With an
// instance, the state is of a trigger of a Template.
func (p *eventPartition) addState(n uint32, check model.CheckID, instance string) (uint32, *stateSlot) {
	id := p.slots.allocate()
	s := p.slots.slot(id)
	*s = stateSlot{check: check, node: n}
	if instance != "" {
		s.flags, s.durationMs = flagTrigger, p.instances.intern(instance)
	}
	at, found := p.search(n, check, instance)
	if found {
		panic("BUG: state added twice")
	}
	p.nodes[n].insert(at, nodeState{check, id})
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

// removeState removes an event state from the storage, the indexes and the counts
func (p *eventPartition) removeState(id uint32) {
	s := p.slots.slot(id)
	ns := p.Node(s.node).Namespace
	c := p.counts[ns]
	c.ByStatus[s.status]--
	if s.flags&flagProblemOpen != 0 {
		c.Problems--
	}
	if c.States--; c.States == 0 {
		delete(p.counts, ns)
	}
	p.view.totals.counter(ns).Add(-1)

	at, _ := p.search(s.node, s.check, p.instance(s))
	p.nodes[s.node].states = slices.Delete(p.nodes[s.node].states, at, at+1)
	if s.flags&flagTrigger != 0 {
		p.instances.release(s.durationMs)
	}
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
	delete(p.runs, id)
	p.deadlines.Clear(id)
	p.outputs.dropText(s.output)
	p.slots.release(id)
}

// setStatusAndSeverity sets the status and severity of an event state and updates the indexes
func (p *eventPartition) setStatusAndSeverity(id uint32, s *stateSlot, status model.Status, severity model.Severity) {
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

// setProblem stores the open problem of an event, or removes a closed problem. Nil closes the problem.
func (p *eventPartition) setProblem(id uint32, s *stateSlot, problem *model.Problem) {
	c := p.counts[p.Node(s.node).Namespace]
	switch was := s.flags&flagProblemOpen != 0; {
	case problem != nil:
		p.problems[id] = problem
		if !was {
			s.flags |= flagProblemOpen
			p.open.add(id)
			c.Problems++
		}
	case was:
		delete(p.problems, id)
		s.flags &^= flagProblemOpen
		p.open.remove(id)
		c.Problems--
	}
}

// copyState copies an event state into dst, without its output
func (p *eventPartition) copyState(id uint32, dst *State) {
	s := p.slots.slot(id)
	n := p.Node(s.node)
	*dst = State{
		Node: n.ID, Check: s.check, Instance: p.instance(s), Definition: s.definition, Namespace: n.Namespace,
		Status: s.status, Severity: s.severity, Expired: s.flags&flagExpired != 0,
		Occurrences: s.occurrences, Watermark: s.watermark,
		StatusHistory: StatusHistory{
			History: s.history, HistoryLen: s.historyLen, Change: s.flappingPercent(),
			Flapping: s.flags&flagFlapping != 0, StateChanges: s.stateChanges,
		},
		Counters: Counters{Results: s.results, Lost: s.lost, Stream: s.stream, Number: s.number, Order: s.order},
		Received: s.received, Executed: s.executed, LastOK: s.lastOK, Changed: s.changed,
		Duration: time.Duration(s.duration()) * time.Millisecond, RanBy: p.runners[id],
		Problem: p.problems[id],
	}
	if s.status == model.OK {
		dst.Passing = s.streak
	} else {
		dst.Failing = s.streak
	}
	if s.check == model.KeepaliveCheck && s.status == model.OK && !n.Stopped {
		// A heartbeat is a store in the node, not a result.
		dst.Received, dst.Executed, dst.LastOK = n.LastSeen, n.LastSeen, n.LastSeen
	}
}

// nodeStates is the sorted list of a node's event states, by check id and instance. It lies beside the shard's node, under the
// same index.
type nodeStates struct{ states []nodeState }

// nodeState is one event in a node's list of events, with the index of the event's memory slot. It has the
// check, and the slot where the event state is stored.
type nodeState struct {
	check model.CheckID
	slot  uint32
}

// find returns the slot of a check's event state by binary search
func (n *nodeStates) find(check model.CheckID) (slot uint32, ok bool) {
	low, high := 0, len(n.states)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if n.states[mid].check < check {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low < len(n.states) && n.states[low].check == check {
		return n.states[low].slot, true
	}
	return 0, false
}

// search returns the index of a check's or trigger's event in a node's sorted list. It also reports whether the event
// exists.
func (p *eventPartition) search(n uint32, check model.CheckID, instance string) (int, bool) {
	return slices.BinarySearchFunc(p.nodes[n].states, instance, func(e nodeState, instance string) int {
		return cmp.Or(cmp.Compare(e.check, check), cmp.Compare(p.instance(p.slots.slot(e.slot)), instance))
	})
}

// findSource returns the memory slot of the event of a check or trigger on a node
func (p *eventPartition) findSource(n uint32, check model.CheckID, instance string) (slot uint32, ok bool) {
	if instance == "" {
		return p.nodes[n].find(check)
	}
	at, ok := p.search(n, check, instance)
	if !ok {
		return 0, false
	}
	return p.nodes[n].states[at].slot, true
}

// source returns the check or trigger of an event state. It is a trigger if the state has an instance.
func (p *eventPartition) source(s *stateSlot) model.Source {
	if s.flags&flagTrigger == 0 {
		return model.CheckSource(s.check)
	}
	return model.InstanceSource(s.check, p.instance(s))
}

// instance returns the name of the trigger that caused an event, or an empty text for a check
func (p *eventPartition) instance(s *stateSlot) string {
	if s.flags&flagTrigger == 0 {
		return ""
	}
	return p.instances.names[s.durationMs-1]
}

// duration returns how long the last run of the event's check took, in milliseconds. It is zero for a trigger,
// because a trigger has no runs.
func (s *stateSlot) duration() uint32 {
	if s.flags&flagTrigger != 0 {
		return 0
	}
	return s.durationMs
}

// instanceNames stores the name of each trigger in a partition only once, under a number
type instanceNames struct {
	names  []string // by number less one
	users  []uint32 // states that have the name
	byName map[string]uint32
	free   []uint32
}

// intern returns the number of a trigger's name, and counts one more event that uses the name.
func (x *instanceNames) intern(name string) uint32 {
	number, ok := x.byName[name]
	switch {
	case ok:
	case len(x.free) > 0:
		number, x.free = x.free[len(x.free)-1], x.free[:len(x.free)-1]
	default:
		x.names, x.users = append(x.names, ""), append(x.users, 0)
		number = uint32(len(x.names))
	}
	if x.users[number-1]++; !ok {
		if x.byName == nil {
			x.byName = map[string]uint32{}
		}
		name = strings.Clone(name)
		x.names[number-1], x.byName[name] = name, number
	}
	return number
}

// release counts one event less that uses a trigger's name, and frees a name without events.
func (x *instanceNames) release(number uint32) {
	if x.users[number-1]--; x.users[number-1] == 0 {
		delete(x.byName, x.names[number-1])
		x.names[number-1] = ""
		x.free = append(x.free, number)
	}
}

// insert inserts an event state into the sorted list of a node
func (n *nodeStates) insert(at int, state nodeState) {
	if len(n.states) == cap(n.states) { // a quarter more: nodes stop growing soon
		n.states = append(make([]nodeState, 0, len(n.states)+len(n.states)/4+8), n.states...)
	}
	n.states = slices.Insert(n.states, at, state)
}

// addNode reserves memory for the event states of a new node.
func (p *eventPartition) addNode(n uint32) {
	if int(n) == len(p.nodes) {
		p.nodes = append(p.nodes, nodeStates{})
	}
}

// removeNode removes all event states of a node.
func (p *eventPartition) removeNode(n uint32) {
	for states := p.nodes[n].states; len(states) > 0; states = p.nodes[n].states {
		p.removeState(states[len(states)-1].slot)
	}
	p.releaseReservations(n)
	p.nodes[n] = nodeStates{}
}

// moveNode moves a node's events from the counts of one namespace to the counts of another namespace.
func (p *eventPartition) moveNode(n uint32, from model.NamespaceID) {
	to := p.Node(n).Namespace
	states := p.nodes[n].states
	p.view.totals.counter(from).Add(-int64(len(states) + len(p.reserved[n])))
	p.view.totals.counter(to).Add(int64(len(states)))
	delete(p.reserved, n)
	if len(states) == 0 {
		return
	}
	var moved Counts
	for _, e := range states {
		s := p.slots.slot(e.slot)
		moved.States++
		moved.ByStatus[s.status]++
		if s.flags&flagProblemOpen != 0 {
			moved.Problems++
		}
	}
	p.countsOf(to).add(&moved)
	if c := p.counts[from]; c.States == moved.States {
		delete(p.counts, from)
	} else {
		c.subtract(&moved)
	}
}

// stateSlot is one event state as stored in memory. It has no pointers, so that the garbage collector skips it. Times
// are Unix nanoseconds of the journal.
type stateSlot struct {
	results  uint64
	lost     uint64
	history  uint64 // two bits each, newest in the lowest
	stream   uint64
	number   uint64
	received int64
	executed int64
	lastOK   int64
	changed  int64

	check        model.CheckID // or the Template of a trigger
	definition   model.DefinitionID
	node         uint32 // the shard's index of it
	streak       uint32 // in a row on this side of OK: passing where status is OK, else failing
	occurrences  uint32
	watermark    uint32
	stateChanges uint32
	durationMs   uint32             // of the last run; of a trigger (flagTrigger): its index in instanceNames
	order        model.ResultDigest // of all results
	output       outputRef

	status     model.Status
	severity   model.Severity
	historyLen uint8
	flags      slotFlags
}

// slotFlags is a bit set of boolean fields of an event state.
type slotFlags uint8

const (
	flagExpired         slotFlags = 1 << iota // the status is a deadline's
	flagProblemOpen                           // there is an open problem
	flagBacklog                               // the last result came in the backlog lane
	flagAwaitsHeartbeat                       // the TTL ran out, and the node was not heard of since
	flagFlapping                              // its status keeps changing
	flagExtra                                 // its text holds extra fields, too
)

// flagProxied means that another node, named in eventPartition.runners, ran the check.
const flagProxied slotFlags = 1 << 6

// flagTrigger means that the state is of a trigger of a Template.
const flagTrigger slotFlags = 1 << 7

// Run is one run of a check in an event's history, with its time and exit code. It has the time and how the command
// ended.
type Run struct {
	Executed uint32 // s since 1970
	ExitCode uint32
}

// runHistory has the latest runs of an event's check, stored only for checks with pipelines.
type runHistory struct {
	list  [model.HistoryDepth]Run // newest last
	count uint8                   // entries in use, at the end of list
}

// recordRun adds one run of a check to the event's history for pipelines. Without pipelines that evaluate every
// result, it drops the history.
func (p *eventPartition) recordRun(id uint32, s *stateSlot, every bool, extra []byte) {
	if !every {
		delete(p.runs, id)
		return
	}
	h := p.runs[id]
	if h == nil {
		h = new(runHistory)
		p.runs[id] = h
	}
	run := Run{Executed: uint32(s.executed / 1e9), ExitCode: uint32(s.status)}
	if s.flags&flagExpired != 0 {
		run.Executed = uint32(s.received / 1e9)
	}
	if r := wire.SensuRunOf(extra); r != nil && r.ExitCode > uint32(model.Unknown) && s.status == model.Unknown {
		run.ExitCode = r.ExitCode
	}
	copy(h.list[:], h.list[1:])
	h.list[model.HistoryDepth-1] = run
	h.count = min(h.count+1, model.HistoryDepth)
}

// latestRuns returns a copy of the latest runs of an event's check, oldest first
func (p *eventPartition) latestRuns(id uint32) []Run {
	h := p.runs[id]
	if h == nil {
		return nil
	}
	return slices.Clone(h.list[model.HistoryDepth-int(h.count):])
}

const slotsPerPage = 64

// slotPages allocates event states in pages of fixed size, so that the address of a state never changes.
type slotPages struct {
	pages      []*[slotsPerPage]stateSlot
	free       []uint32
	takenSlots uint32 // slots ever taken
}

// slot returns the event state at an index
func (s *slotPages) slot(i uint32) *stateSlot { return &s.pages[i/slotsPerPage][i%slotsPerPage] }

// allocate returns the index of an unused slot, from the free list or on a new page.
func (s *slotPages) allocate() uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	if int(s.takenSlots) == len(s.pages)*slotsPerPage {
		s.pages = append(s.pages, new([slotsPerPage]stateSlot))
	}
	s.takenSlots++
	return s.takenSlots - 1
}

// release clears a slot and puts its index on the free list.
func (s *slotPages) release(i uint32) {
	*s.slot(i) = stateSlot{}
	s.free = append(s.free, i)
}

// countResult adds one result to the counters of the event state
func (s *stateSlot) countResult(stream wire.StreamID, number uint64) {
	s.order = s.order.Append(uint64(stream), number)
	s.results++
}

const historyMask = 1<<(2*model.HistoryDepth) - 1

// appendHistory adds a status to the list of the event's last statuses.
func (s *stateSlot) appendHistory(status model.Status) {
	s.history = (s.history<<2 | uint64(status)) & historyMask
	if s.historyLen < model.HistoryDepth {
		s.historyLen++
	}
}
