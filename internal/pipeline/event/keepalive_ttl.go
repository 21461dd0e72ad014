package event

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/window"
	"github.com/muster-fleet/muster/internal/wire"
)

// ApplyLivenessChange updates a node's keepalive event when the session or keepalive state of the node changes.
// It also handles TTLs that waited for the node. Invariant: a node has that event exactly while Node.Keepalive
// is not KeepaliveNone.
func (w *eventApplier) ApplyLivenessChange(n uint32, change shard.LivenessChange) {
	p := w.p
	switch change {
	case shard.SessionBegan, shard.SessionEnded:
		p.releaseReservations(n)
	case shard.Registered:
		w.emitRegistration(Transition{Node: p.Node(n).ID, Namespace: p.Node(n).Namespace, Registered: true})
	case shard.Heartbeat:
		w.endHeartbeatWait(p, n)
	case shard.BacklogDone:
		w.endBacklogWait(p, n)
	default:
		w.changeKeepalive(p, n, change)
	}
}

// changeKeepalive changes the status of a node's keepalive event. It creates the event if the node has none yet.
func (w *eventApplier) changeKeepalive(p *eventPartition, n uint32, change shard.LivenessChange) {
	id, ok := p.nodes[n].find(model.KeepaliveCheck)
	if !ok {
		id, _ = p.addState(n, model.KeepaliveCheck, "")
	}
	node := p.Node(n)
	v := statusUpdate{status: model.OK, executed: w.Received}
	switch change {
	case shard.KeepaliveBegan, shard.KeepaliveResumed, shard.KeepaliveRepeated:
		v.output = []byte("keepalive is received")
	case shard.Stopped:
		v.output, v.byOperator = []byte("stopped cleanly"), true
	case shard.KeepaliveLate:
		v.status, v.output, v.expired = model.Warning, w.missedKeepaliveText(node, node.Warning), true
	case shard.KeepaliveMissed:
		w.view.metrics.keepaliveExpired.Inc()
		v.status, v.output, v.expired = model.Critical, w.missedKeepaliveText(node, node.Timeout), true
	}
	w.updateStatus(p, id, p.slots.slot(id), w.checkOfDefinition(model.BuiltinDefinitionID(model.KeepaliveCheck)), v)
	if change == shard.KeepaliveResumed {
		w.restartTTLs(p, n)
	}
}

// missedKeepaliveText returns the output text for the event of a missed keepalive. The text is valid until the next
// call.
func (w *eventApplier) missedKeepaliveText(node *shard.Node, silence int64) []byte {
	w.text = fmt.Appendf(w.text[:0], "no keepalive for %s (last heartbeat %s)",
		model.Duration(silence), unixNano(node.LastSeen).Format(time.RFC3339))
	return w.text
}

// endHeartbeatWait lets expired TTLs of a node's events take effect, after the awaited heartbeat of the node.
// They expire at the end of the commit, unless the commit has results of their checks.
func (w *eventApplier) endHeartbeatWait(p *eventPartition, n uint32) {
	for _, e := range p.nodes[n].states {
		if s := p.slots.slot(e.slot); s.flags&flagAwaitsHeartbeat != 0 {
			s.flags &^= flagAwaitsHeartbeat
			p.deadlines.Set(e.slot, max(w.Listening, 1))
		}
	}
}

// endBacklogWait lets expired TTLs of a node's events take effect, after the node sent its stored results. They
// expire at the end of the commit.
func (w *eventApplier) endBacklogWait(p *eventPartition, n uint32) {
	until := p.Node(n).BacklogUntil
	for _, e := range p.nodes[n].states {
		if p.deadlines.Due(e.slot) == until {
			p.deadlines.Set(e.slot, max(w.Listening, 1))
		}
	}
}

// restartTTLs restarts the TTLs of a node's events when the node reports again. Results could not arrive while the
// node was silent.
func (w *eventApplier) restartTTLs(p *eventPartition, n uint32) {
	for _, e := range p.nodes[n].states {
		s := p.slots.slot(e.slot)
		if s.flags&flagExpired != 0 || e.check == model.KeepaliveCheck {
			continue
		}
		if c := w.checkOfDefinition(s.definition); c != nil && c.TTL > 0 {
			p.deadlines.Set(e.slot, max(p.deadlines.Due(e.slot), w.Listening+int64(c.TTL)))
		}
	}
}

// Expire handles the events whose check has sent no result within its TTL
func (w *eventApplier) Expire(ids []uint32) {
	p := w.p
	slices.SortFunc(ids, func(a, b uint32) int {
		x, y := p.slots.slot(a), p.slots.slot(b)
		return cmp.Or(cmp.Compare(p.Node(x.node).ID, p.Node(y.node).ID), cmp.Compare(x.check, y.check)) // only checks have a TTL
	})
	for _, id := range ids {
		w.expireTTL(p, id, p.slots.slot(id))
	}
}

// DeadlinePeriod returns the TTL of an event, the longest time without a new result.
func (w *eventApplier) DeadlinePeriod(id uint32) int64 {
	if c := w.checkOfDefinition(w.p.slots.slot(id).definition); c != nil {
		return int64(c.TTL)
	}
	return 0
}

// expireTTL sets an event with an expired TTL to UNKNOWN, unless its node is down. The status is WARNING for a check
// kept from Sensu. Nothing changes while the check is not scheduled. Pipelines of a check kept from Sensu get the
// event again after each TTL, as in Sensu.
func (w *eventApplier) expireTTL(p *eventPartition, id uint32, s *stateSlot) {
	switch until, why := w.Postpone(p.Partition, s.node); why {
	case shard.ForBacklog:
		p.deadlines.Set(id, until) // see endBacklogWait
		return
	case shard.ForHeartbeat:
		p.deadlines.Set(id, until) // see endHeartbeatWait
		s.flags |= flagAwaitsHeartbeat
		return
	case shard.WhileAway:
		return // see restartTTLs
	}
	c := w.checkOfDefinition(s.definition)
	if c == nil || c.TTL == 0 {
		return
	}
	if len(c.Except) > 0 {
		if left := w.remainingTTL(c, s); left > 0 {
			p.deadlines.Set(id, w.Listening+left)
			return
		}
	}
	w.view.metrics.ttlExpired.Inc()
	w.text = fmt.Appendf(w.text[:0], "no result for %s (TTL); last run %s",
		model.Duration(c.TTL), unixNano(s.executed).Format(time.RFC3339))
	status := model.Unknown
	if c.Sensu {
		status = model.Warning
	}
	w.updateStatus(p, id, s, c, statusUpdate{status: status, executed: s.executed, output: w.text, expired: true})
	if c.Sensu && len(c.Pipelines) > 0 {
		p.deadlines.Set(id, w.Listening+int64(c.TTL))
	}
}

// remainingTTL returns how much of the TTL of a check's event is left. It counts from the end of the last pause in the
// check's schedule. Zero: the TTL has passed, in ns. It reads the journal's time only, so that a replay gives the
// same.
func (w *eventApplier) remainingTTL(c *model.CheckDefinition, s *stateSlot) int64 {
	set, known := w.calendars[c.ID]
	if !known {
		set, _ = window.NewSet(c.Except) // apply refused calendars that do not parse
		if w.calendars == nil {
			w.calendars = map[model.DefinitionID]window.Set{}
		}
		w.calendars[c.ID] = set
	}
	from := max(s.executed, w.Received-int64(c.TTL)) // pauses that ended before do not matter
	end, ok := set.LastEnd(unixNano(from), unixNano(w.Received))
	if !ok {
		return 0
	}
	return max(0, end.UnixNano()+int64(c.TTL)-w.Received)
}

// RemoveStates removes the event states of nodes or checks that no longer exist
func (w *eventApplier) RemoveStates(id model.NodeID, n uint32, m *wire.ForgetRecord) {
	p := w.p
	p.absent.Expire(w.Received - int64(shard.TombstoneAge))
	if m.Check == 0 {
		w.forgetNode(p, id, n, m)
		return
	}
	p.absent.Set(stateKey{id, m.Check}, shard.Tombstone{At: w.Received, Deleted: m.Deleted})
	for _, n := range p.AffectedNodes(id, n) {
		for at, _ := p.search(n, m.Check, ""); at < len(p.nodes[n].states) && p.nodes[n].states[at].check == m.Check; {
			w.deleteEvent(p, p.nodes[n].states[at].slot, "the check is expected no more")
		}
	}
}

// forgetNode removes all event states of a node. An ephemeral node that is deleted, for the first time, is reported.
func (w *eventApplier) forgetNode(p *eventPartition, id model.NodeID, n uint32, m *wire.ForgetRecord) {
	deregistered := m.Deregistered != "" && m.Deleted && !p.Deleted(id) // a start may write a mark once more
	if n != shard.NoNode {
		for len(p.nodes[n].states) > 0 {
			slot := p.nodes[n].states[0].slot
			if deregistered {
				w.emitLastEvent(p, slot, m)
			}
			w.deleteEvent(p, slot, "the node is expected no more")
		}
	}
	if !deregistered {
		return
	}
	left := Transition{ // it has no state any more
		At: w.Position, Index: w.transitionIndex, Partition: p.ID, Kind: Deregistered, Node: id, Source: model.CheckSource(model.KeepaliveCheck), Definition: model.BuiltinDefinitionID(model.KeepaliveCheck),
		Received: w.Received, Executed: w.Received, Output: m.Reason, Deregistered: m,
	}
	w.transitionIndex++
	if !w.transitionsRecorded {
		w.transitions = append(w.transitions, left)
	}
	w.emitRegistration(Transition{Node: id, Deregistered: m})
}

// emitLastEvent reports each event of a deregistered node once more to its pipelines, as Sensu does. The status is OK,
// without a history.
func (w *eventApplier) emitLastEvent(p *eventPartition, id uint32, m *wire.ForgetRecord) {
	s := p.slots.slot(id)
	c := w.checkOfDefinition(s.definition)
	if c == nil || len(c.Pipelines) == 0 || s.check == model.KeepaliveCheck {
		return
	}
	if t := w.emitTransition(p, Observed, s); t != nil {
		t.Observation, t.Deregistered = &Observation{}, m
		p.copyState(id, &t.Observation.State)
		t.Observation.Status, t.Observation.HistoryLen, t.Observation.Expired = model.OK, 0, false
		t.Observation.Output = "Resolving due to entity deregistering"
	}
}

// emitRegistration reports the registration or deregistration of a node to the handlers of Sensu events. No state
// keeps it, as in Sensu.
func (w *eventApplier) emitRegistration(t Transition) {
	t.At, t.Partition, t.Kind, t.Index = w.Position, w.p.ID, Observed, w.observationIndex
	t.Source, t.Definition = model.CheckSource(model.KeepaliveCheck), model.BuiltinDefinitionID(model.KeepaliveCheck)
	t.Received, t.Executed = w.Received, w.Received
	t.Observation = &Observation{State: State{Node: t.Node, Status: model.Warning, Received: w.Received, Executed: w.Received, Occurrences: 1}}
	w.observationIndex++
	if !w.transitionsRecorded {
		w.transitions = append(w.transitions, t)
	}
}

// stateKey identifies an event state by its node and its check. Node zero means all nodes.
type stateKey struct {
	node  model.NodeID
	check model.CheckID
}

// ignoresResult reports whether to ignore a late result because its node or check was removed. Such a result must
// not create the event again.
func (p *eventPartition) ignoresResult(node model.NodeID, check model.CheckID, executed int64) bool {
	if t, ok := p.Tombstone(node); ok && t.Suppresses(executed) {
		return true
	}
	for _, key := range [...]stateKey{{node, check}, {0, check}} {
		if t, ok := p.absent.Get(key); ok && t.Suppresses(executed) {
			return true
		}
	}
	return false
}

// deleteEvent removes an event, and first closes its open problem. Handlers that announced the problem then report its
// end. Callers go in the order of nodes and checks; transitions have the same order.
func (w *eventApplier) deleteEvent(p *eventPartition, id uint32, why string) {
	if s := p.slots.slot(id); s.flags&flagProblemOpen != 0 {
		w.closeProblem(p, id, s, why)
	}
	if s := p.slots.slot(id); s.check == model.KeepaliveCheck {
		p.EndKeepalive(s.node)
	}
	p.removeState(id)
}

// applyAction carries out a person's action on an event, such as an acknowledgement.
func (w *eventApplier) applyAction(p *eventPartition, id model.NodeID, a *wire.Action) {
	n, ok := p.Find(id)
	if !ok {
		return
	}
	slot, ok := p.findSource(n, a.Check, a.Instance)
	if !ok {
		return
	}
	if open := p.problems[slot]; a.Problem != "" && (open == nil || open.ID != a.Problem) {
		return // the problem of the action has closed, and the person did not see another one
	}
	switch a.Verb {
	case "delete": // comes back with the next result
		w.deleteEvent(p, slot, "the event was deleted by "+a.By)
	case "resolve":
		s := p.slots.slot(slot)
		w.text = append(append(w.text[:0], "resolved by "...), a.By...)
		if a.Note != "" {
			w.text = append(append(w.text, ": "...), a.Note...)
		}
		p.deadlines.Clear(slot) // set again by the next result or heartbeat …
		if a.Check == model.KeepaliveCheck {
			p.OverrideKeepalive(n, false)
			w.RestartKeepalive(p.Partition, n) // … which a dead node never gives: it is missed anew
		}
		resolved := statusUpdate{status: model.OK, executed: s.executed, output: w.text, byOperator: true}
		w.updateStatus(p, slot, s, w.Definition(s.definition).EventRules(a.Instance), resolved)
	case "acknowledge":
		ack := &model.Ack{By: a.By, Note: a.Note, At: unixNano(w.Received)}
		if a.Until > 0 {
			ack.Until = time.UnixMilli(int64(min(a.Until, 1<<50))).UTC() // beyond is 30,000 years away
		}
		w.acknowledge(p, slot, ack, Acknowledged, a)
	case "unacknowledge":
		w.acknowledge(p, slot, nil, Unacknowledged, a)
	default:
		w.Logger().Error("BUG: an action that the view does not know", "commit", w.Position.Number, "verb", a.Verb)
	}
}

// acknowledge sets or clears the acknowledgement of an open problem. Nil clears it.
func (w *eventApplier) acknowledge(p *eventPartition, id uint32, ack *model.Ack, kind TransitionKind, a *wire.Action) {
	was := p.problems[id]
	if was == nil || was.Ack == nil && ack == nil {
		return // it closed meanwhile
	}
	next := *was
	next.Ack = ack
	s := p.slots.slot(id)
	p.setProblem(id, s, &next)
	if t := w.emitTransition(p, kind, s); t != nil {
		t.Problem, t.Output = &next, a.By
		if a.Note != "" {
			t.Output += ": " + a.Note
		}
		t.Received = w.Received
	}
	w.view.watchers.reportChange(p, id)
}
