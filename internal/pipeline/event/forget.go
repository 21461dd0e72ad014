package event

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/wire"
)

// Forget implements shard.Applier: it removes event states that are no longer expected.
func (w *worker) Forget(id model.NodeID, n uint32, m *wire.ForgetMark) {
	p := w.p
	p.expireAbsences(w.Received - int64(shard.TombstoneAge))
	if m.Check == 0 {
		w.forgetNode(p, id, n, m)
		return
	}
	p.addAbsence(stateKey{id, m.Check}, shard.Tombstone{At: w.Received, Deleted: m.Deleted})
	nodes := p.Order() // of one node, or of all in order
	if id != 0 {
		nodes = []uint32{n}
	}
	for _, n := range nodes {
		if n == shard.NoNode {
			continue
		}
		if s, found := p.nodes[n].find(m.Check); found {
			w.withdraw(p, s, "the check is expected no more")
		}
	}
}

// forgetNode withdraws all states of a node. An ephemeral node that is deleted, for the first
// time, is reported.
func (w *worker) forgetNode(p *partition, id model.NodeID, n uint32, m *wire.ForgetMark) {
	if n != shard.NoNode {
		for len(p.nodes[n].states) > 0 {
			w.withdraw(p, p.nodes[n].states[0].slot, "the node is expected no more")
		}
	}
	if m.Deregistered == "" || !m.Deleted || p.Deleted(id) { // a start may write a mark once more
		return
	}
	index := w.index
	w.index++
	if w.silent {
		return
	}
	w.transitions = append(w.transitions, Transition{ // it has no state any more
		At: w.Position, Index: index, Partition: p.ID, Kind: Deregistered, Node: id, Source: model.CheckSource(model.KeepaliveCheck), Chunk: model.BuiltinChunk(model.KeepaliveCheck),
		Received: w.Received, Executed: w.Received, Output: m.Reason, Deregistered: m,
	})
}

// stateKey names an event state; node zero means all nodes.
type stateKey struct {
	node  model.NodeID
	check model.CheckID
}

// absentSince stands in the order in which absences end.
type absentSince struct {
	key stateKey
	at  int64
}

// addAbsence remembers that a check was forgotten, so that results still under way do not
// bring it back. Absences come in the order of time.
func (p *partition) addAbsence(key stateKey, t shard.Tombstone) {
	p.absent[key] = t
	p.absences = append(p.absences, absentSince{key, t.At})
}

// expireAbsences ends those from before a time, and looks at no other.
func (p *partition) expireAbsences(before int64) {
	for len(p.absences) > 0 && p.absences[0].at < before {
		first := p.absences[0]
		p.absences = p.absences[1:]
		if p.absent[first.key].At == first.at { // else it was renewed since
			delete(p.absent, first.key)
		}
	}
}

// suppresses says whether a run that ended at this time may not make a new state: its node or
// check was forgotten.
func (p *partition) suppresses(node model.NodeID, check model.CheckID, executed int64) bool {
	if t, ok := p.Tombstone(node); ok && t.Suppresses(executed) {
		return true
	}
	if len(p.absent) == 0 {
		return false
	}
	for _, key := range [...]stateKey{{node, check}, {0, check}} {
		if t, ok := p.absent[key]; ok && t.Suppresses(executed) {
			return true
		}
	}
	return false
}

// withdraw removes a state, and closes its problem first, so that notified handlers hear of the
// end. Callers go in the order of nodes and checks; transitions have the same order.
func (w *worker) withdraw(p *partition, id uint32, why string) {
	if s := p.slots.at(id); s.flags&flagOpen != 0 {
		w.closeProblem(p, id, s, why)
	}
	if s := p.slots.at(id); s.check == model.KeepaliveCheck {
		p.EndKeepalive(s.node)
	}
	p.removeState(id)
}

// action applies an action of a person to an event.
func (w *worker) action(p *partition, id model.NodeID, a *wire.Action) {
	n, ok := p.Find(id)
	if !ok {
		return
	}
	slot, ok := p.nodes[n].find(a.Check)
	if !ok {
		return
	}
	if open := p.problems[slot]; a.Problem != "" && (open == nil || open.ID != a.Problem) {
		return // the problem of the action has closed, and the person did not see another one
	}
	switch a.Verb {
	case "delete": // comes back with the next result
		w.withdraw(p, slot, "the event was deleted by "+a.By)
	case "resolve":
		s := p.slots.at(slot)
		w.text = append(append(w.text[:0], "resolved by "...), a.By...)
		if a.Note != "" {
			w.text = append(append(w.text, ": "...), a.Note...)
		}
		p.deadlines.Clear(slot) // set again by the next result or sign of life …
		if a.Check == model.KeepaliveCheck {
			p.OverrideKeepalive(n, false)
			w.RestartKeepalive(p.Partition, n) // … which a dead node never gives: it is missed anew
		}
		w.judge(p, slot, s, w.check(s.chunk), verdict{status: model.OK, executed: s.executed, output: w.text, byHand: true})
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

// acknowledge sets or (nil) clears the acknowledgement of an open problem.
func (w *worker) acknowledge(p *partition, id uint32, ack *model.Ack, kind TransitionKind, a *wire.Action) {
	was := p.problems[id]
	if was == nil || was.Ack == nil && ack == nil {
		return // it closed meanwhile
	}
	next := *was
	next.Ack = ack
	s := p.slots.at(id)
	p.setProblem(id, s, &next)
	if t := w.emit(p, kind, s); t != nil {
		t.Problem, t.Output = &next, a.By
		if a.Note != "" {
			t.Output += ": " + a.Note
		}
		t.Received = w.Received
	}
	w.view.watchers.changed(p, id)
}
