package event

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/wire"
)

// applyResult applies the result of one run of a check to the event state.
func (w *eventApplier) applyResult(p *eventPartition, n uint32, signal *wire.Signal, from *shard.SignalOrigin) shard.Outcome {
	r := &w.body
	if err := r.Decode(signal.Body); err != nil {
		w.Logger().Error("BUG: result in the journal cannot be read and is left out",
			"commit", w.Position.Number, "node", p.Node(n).ID, "number", from.Number, "error", err)
		return shard.Malformed
	}
	c := w.checkOfDefinition(signal.Definition)
	if c == nil {
		return shard.UnknownDefinition
	}
	age := from.Age(signal.AtMs)
	executed := w.Received - age
	id, found := p.nodes[n].find(c.Unit)
	if !found {
		if p.ignoresResult(p.Node(n).ID, c.Unit, executed) {
			p.releaseReservation(n, c.Unit)
			return shard.Forgotten
		}
		id, _ = w.createState(p, n, c)
	}
	s := p.slots.slot(id)
	var lane slotFlags
	if from.Stream.Lane == wire.Backlog {
		lane = flagBacklog
	}
	s.countResult(from.Stream.Stream, from.Number)
	// Within one stream the numbers give the order, whatever the network's delays did to the
	// ages; across streams an older run does not judge the present. A run that is itself
	// older than the TTL does not end an expired status.
	older := executed < s.executed && (s.stream != uint64(from.Stream.Stream) || s.flags&flagBacklog != lane)
	if older || s.flags&flagExpired != 0 && c.TTL > 0 && age >= int64(c.TTL) {
		w.emitLateResult(p, s, c, r, executed)
		return shard.Late
	}
	executed = max(executed, s.executed)
	s.stream, s.number = uint64(from.Stream.Stream), from.Number
	s.flags = s.flags&^flagBacklog | lane
	p.setRunner(id, s, from.By)
	s.durationMs = r.DurationMs
	w.updateStatus(p, id, s, c, statusUpdate{status: r.Status, executed: executed, output: r.Output, extra: r.Extra})
	p.syncKeepalive(n, s)
	if c.TTL > 0 {
		p.deadlines.Set(id, w.Listening+max(int64(c.TTL)-age, int64(min(c.TTL, minimumTTLWait))))
	} else {
		p.deadlines.Clear(id)
	}
	return shard.Applied
}

// syncKeepalive sets a node's keepalive to received or missed, after a result changed the node's keepalive
// event. It runs after a result (not a heartbeat) changed the event.
func (p *eventPartition) syncKeepalive(n uint32, s *stateSlot) {
	if s.check == model.KeepaliveCheck {
		p.OverrideKeepalive(n, s.status != model.OK)
	}
}

// setRunner stores the node that ran the check, for an event about another (proxy) node. Zero means the event's
// own node.
func (p *eventPartition) setRunner(id uint32, s *stateSlot, by model.NodeID) {
	switch {
	case by != 0:
		s.flags |= flagProxied
		p.runners[id] = by
	case s.flags&flagProxied != 0:
		s.flags &^= flagProxied
		delete(p.runners, id)
	}
}

// minimumTTLWait is the least time that a TTL waits. After an outage results arrive oldest first,
// and newer ones follow a run that is almost past its TTL.
const minimumTTLWait = 10 * time.Second

// applyServerResult applies a result that the server itself made about a node.
func (w *eventApplier) applyServerResult(p *eventPartition, node model.NodeID, r *wire.ServerResult) shard.Outcome {
	c := w.checkOfDefinition(r.Definition)
	if c == nil {
		return shard.UnknownDefinition
	}
	if p.Deleted(node) {
		return shard.Forgotten
	}
	n, ok := p.Find(node)
	if !ok {
		n = p.AddNode(node, c.Namespace)
	}
	id, found := p.nodes[n].find(c.Unit)
	if !found {
		if p.ignoresResult(node, c.Unit, w.Received) {
			return shard.Forgotten
		}
		id, _ = w.createState(p, n, c)
	}
	s := p.slots.slot(id)
	s.countResult(0, 0)
	s.stream, s.number, s.durationMs = 0, 0, 0
	p.setRunner(id, s, 0)
	w.updateStatus(p, id, s, c, statusUpdate{status: r.Status, executed: w.Received, output: r.Output})
	p.syncKeepalive(n, s)
	if c.TTL > 0 {
		p.deadlines.Set(id, w.Listening+int64(c.TTL))
	} else {
		p.deadlines.Clear(id)
	}
	return shard.Applied
}

// applyVerdict sets the status of a trigger's event to the trigger's new state. The rules are the same as for a
// result of a check.
func (w *eventApplier) applyVerdict(p *eventPartition, node model.NodeID, v *wire.Verdict) shard.Outcome {
	definition := w.Definition(v.Definition)
	rules := definition.EventRules(v.Trigger)
	n, ok := p.Find(node)
	if !ok && definition.AsRuleGroup() != nil && !v.Removed && !p.Deleted(node) {
		n, ok = p.AddNode(node, definition.Namespace), true // a proxy node, of which no result came
	}
	switch {
	case definition == nil || rules == nil && !v.Removed:
		return shard.UnknownDefinition
	case !ok || p.ignoresResult(node, definition.Unit, v.Executed):
		return shard.Forgotten
	}
	id, found := p.findSource(n, definition.Unit, v.Trigger)
	if v.Removed {
		if found {
			w.deleteEvent(p, id, removalReason(definition))
		}
		return shard.Applied
	}
	if !found {
		id, _ = p.addState(n, definition.Unit, v.Trigger)
	}
	s := p.slots.slot(id)
	s.countResult(0, v.Commit)
	rules.SetSeverity(v.Severity)
	status := model.OK
	if v.Problem {
		status = rules.TriggerStatus()
	}
	w.updateStatus(p, id, s, rules, statusUpdate{status: status, executed: v.Executed, output: v.Output, verdict: v})
	return shard.Applied
}

// removalReason returns why the event of a check or trigger must be removed, such as its deletion.
func removalReason(c *model.Definition) string {
	if c.AsRuleGroup() != nil {
		return "its rule no longer has this alert"
	}
	return "the trigger was removed from its template, or its entity is no longer discovered"
}

// createState creates the event state of a check on a node. A node that never had a session (only the server reports
// results about it) is in the namespace of its first check.
func (w *eventApplier) createState(p *eventPartition, n uint32, c *model.CheckDefinition) (uint32, *stateSlot) {
	if p.Node(n).Namespace == 0 && c.Namespace != 0 {
		p.MoveNode(n, c.Namespace)
	}
	p.releaseReservation(n, c.Unit)
	return p.addState(n, c.Unit, "")
}

// emitLateResult reports a late result for the event's history only, because a newer result already set the
// event. The late result goes into the history only.
func (w *eventApplier) emitLateResult(p *eventPartition, s *stateSlot, c *model.CheckDefinition, r *wire.Result, executed int64) {
	if t := w.emitTransition(p, LateResult, s); t != nil {
		t.Definition, t.Status, t.Previous = c.ID, r.Status, s.status
		t.Severity = c.Severities[r.Status&3]
		t.Executed = executed
		t.Output = string(r.Output)
		t.Expired = false
	}
}

// ApplyLoss adds the number of results lost by an agent to the counters of the affected events.
func (w *eventApplier) ApplyLoss(n uint32, g *wire.Gap) {
	p := w.p
	for _, dropped := range g.Counts {
		if dropped.Kind != wire.SignalResult && dropped.Kind != wire.SignalKeepalive {
			continue // another reducer's
		}
		c := w.checkOfDefinition(dropped.Definition)
		if c == nil {
			continue
		}
		// A gap may count results that earlier gaps of its stream covered, so that each
		// check is reported once: no more than there were numbers. Without a state there
		// is no event to count on, only history.
		dropped.Count = min(dropped.Count, g.Last)
		s := &stateSlot{check: c.Unit, node: n, received: w.Received, executed: w.Received}
		if id, found := p.nodes[n].find(c.Unit); found {
			s = p.slots.slot(id)
			s.lost += dropped.Count
			w.view.watchers.reportChange(p, id)
		}
		if t := w.emitTransition(p, ResultsLost, s); t != nil {
			t.Definition, t.Count, t.Output = c.ID, dropped.Count, g.Reason
			t.Executed = w.Received
			if t.Namespace == 0 {
				t.Namespace = c.Namespace
			}
		}
	}
}

// emitTransition reports a change of an event, such as an opened problem, to the dispatcher. It returns nil if the
// transition was already recorded before a restart. It advances the transition index in both cases, so that a replay
// gives equal indexes.
func (w *eventApplier) emitTransition(p *eventPartition, kind TransitionKind, s *stateSlot) *Transition {
	next := &w.transitionIndex
	if kind == Observed {
		next = &w.observationIndex
	}
	index := *next
	*next++
	if w.transitionsRecorded {
		return nil
	}
	n := p.Node(s.node)
	w.transitions = append(w.transitions, Transition{
		At: w.Position, Index: index, Partition: p.ID, Kind: kind,
		Node: n.ID, Namespace: n.Namespace, Source: p.source(s), Definition: s.definition,
		Status: s.status, Previous: s.status, Severity: s.severity,
		Received: w.Received, Executed: s.executed, Expired: s.flags&flagExpired != 0,
	})
	return &w.transitions[len(w.transitions)-1]
}

// Admit enforces the limits on the number of events, and reserves capacity for a result's new event. If a limit
// is reached, it returns an error code and the reason. An empty code admits the state. Sources ask before they
// append to the journal, and give the reason to the agent. The view applies every result in the journal,
// whatever the limits are by now: it is a function of the journal alone.
//
// Admit reserves capacity for a new state until the state exists, or its
// result turns out to make none, or the node's session ends. So many results under way
// pass no limit; only a state that is removed meanwhile, and comes back, may.
func (v *View) Admit(node model.NodeID, definition *model.CheckDefinition) (code, reason string) {
	p := v.partitionOf(node)
	if p == nil {
		return "", "" // a deleted node: the result is forgotten
	}
	p.Lock()
	defer p.Unlock()
	i, ok := p.Find(node)
	if !ok {
		return "", ""
	}
	n, ns := &p.nodes[i], p.Node(i).Namespace
	if _, found := n.find(definition.Unit); found || slices.Contains(p.reserved[i], definition.Unit) {
		return "", ""
	}
	limits := v.opts.Limits(ns)
	held := len(n.states) + len(p.reserved[i])
	if _, found := n.find(model.LimitsCheck); found {
		held-- // the event that reports a limit takes no capacity from checks
	}
	if most := limits.StatesPerNode; most > 0 && held >= most {
		return "node_limit", fmt.Sprintf("the node has %d event states, as many as statesPerNode allows", most)
	}
	total := v.totals.counter(ns)
	if now := total.Add(1); limits.States > 0 && now > int64(limits.States) {
		total.Add(-1)
		return "namespace_limit", fmt.Sprintf("the namespace has %d event states, as many as limits.states allows", limits.States)
	}
	p.reserved[i] = append(p.reserved[i], definition.Unit)
	return "", ""
}

// releaseReservation frees the capacity that Admit reserved for one new event state. The state now exists or
// will never exist.
func (p *eventPartition) releaseReservation(n uint32, check model.CheckID) {
	if len(p.reserved) == 0 {
		return
	}
	list := p.reserved[n]
	if i := slices.Index(list, check); i >= 0 {
		if list = slices.Delete(list, i, i+1); len(list) == 0 {
			delete(p.reserved, n)
		} else {
			p.reserved[n] = list
		}
		p.view.totals.counter(p.Node(n).Namespace).Add(-1)
	}
}

// releaseReservations frees the capacity still reserved for new events of a node, when the node's session ends.
func (p *eventPartition) releaseReservations(n uint32) {
	if list := p.reserved[n]; len(list) > 0 {
		p.view.totals.counter(p.Node(n).Namespace).Add(-int64(len(list)))
		delete(p.reserved, n)
	}
}

// stateTotals counts the existing event states of each namespace, and the capacity reserved for new states.
type stateTotals struct{ byNamespace sync.Map }

// counter returns the counter of a namespace and creates a missing counter
func (t *stateTotals) counter(ns model.NamespaceID) *atomic.Int64 {
	if c, ok := t.byNamespace.Load(ns); ok {
		return c.(*atomic.Int64)
	}
	c, _ := t.byNamespace.LoadOrStore(ns, new(atomic.Int64))
	return c.(*atomic.Int64)
}
