package event

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// absentKey names what is expected no more; a zero field means all.
type absentKey struct {
	node  model.NodeID
	check model.CheckID
}

// absence is what a forget leaves behind, so that results still under way do not
// bring back what they speak of.
type absence struct {
	at   int64 // receive time of the forget
	gone bool  // the resource is deleted: its id never comes back
}

const (
	// settle is how long after a forget agents may still run what they were told
	// before; a run after that means that the check is wanted again.
	settle = 30 * time.Second
	// remember is how long an absence is kept: longer than a spool may hold a result.
	remember = model.MaxSpoolAge + 24*time.Hour
)

// forget removes event states that are expected no more.
func (w *worker) forget(p *partition, id model.NodeID, m *wire.ForgetMark) {
	p.forgetAbsences(w.received - int64(remember))
	if id == 0 && m.Check == 0 {
		w.view.opts.Logger.Error("BUG: a forget that names neither node nor check", "commit", w.pos.Number)
		return
	}
	again := w.gone(p, id) // a start may write a mark once more
	p.addAbsence(absentKey{id, m.Check}, absence{w.received, m.Gone})
	if id == 0 {
		for _, n := range p.order {
			if s, found := p.nodes[n].find(m.Check); found {
				w.withdraw(p, s, "the check is expected no more")
			}
		}
		return
	}
	n, ok := p.findNode(id)
	switch {
	case !ok:
	case m.Check != 0:
		if s, found := p.nodes[n].find(m.Check); found {
			w.withdraw(p, s, "the check is expected no more")
		}
	default:
		node := &p.nodes[n]
		for len(node.states) > 0 {
			w.withdraw(p, node.states[0].slot, "the node is expected no more")
		}
		node.timeout, node.session = 0, 0 // until its next session
		if m.Gone {
			p.removeNode(n)
		}
	}
	if m.Left != "" && m.Gone && !again {
		w.left(p, id, m)
	}
}

// left says that a node was forgotten. It has no state any more.
func (w *worker) left(p *partition, id model.NodeID, m *wire.ForgetMark) {
	index := w.order
	w.order++
	if w.silent {
		return
	}
	w.transitions = append(w.transitions, Transition{
		At: w.pos, Index: index, Partition: p.id, Kind: Left, Node: id, Source: model.CheckSource(model.KeepaliveCheck), Chunk: model.BuiltinChunk(model.KeepaliveCheck),
		Received: w.received, Executed: w.received, Output: m.Why, Left: m,
	})
}

// addAbsence remembers an absence. They come in the order of time.
func (p *partition) addAbsence(key absentKey, a absence) {
	p.absent[key] = a
	p.absences = append(p.absences, absentSince{key, a.at})
}

// absentSince stands in the order in which absences end.
type absentSince struct {
	key absentKey
	at  int64
}

// forgetAbsences ends those from before a time: it looks at none that stays.
func (p *partition) forgetAbsences(before int64) {
	for len(p.absences) > 0 && p.absences[0].at < before {
		first := p.absences[0]
		p.absences = p.absences[1:]
		if p.absent[first.key].at == first.at { // else it was renewed since
			delete(p.absent, first.key)
		}
	}
}

// withdraw removes a state, and closes its problem first: whoever was told that it
// opened must not wait for ever. Callers go in the order of nodes and checks, which
// is that of the transitions.
func (w *worker) withdraw(p *partition, id uint32, why string) {
	if s := p.slots.at(id); s.flags&flagOpen != 0 {
		w.closeProblem(p, id, s, why)
	}
	p.removeState(id)
}

// gone says whether the node is deleted.
func (w *worker) gone(p *partition, node model.NodeID) bool {
	return len(p.absent) > 0 && p.absent[absentKey{node: node}].gone
}

// absent says whether a run may not make a state that is not there.
func (w *worker) absent(p *partition, node model.NodeID, check model.CheckID, executed int64) bool {
	if len(p.absent) == 0 {
		return false
	}
	for _, key := range [...]absentKey{{node, check}, {node, 0}, {0, check}} {
		if a, ok := p.absent[key]; ok && (a.gone || executed <= a.at+int64(settle)) {
			return true
		}
	}
	return false
}

// action applies what an operator did to an event.
func (w *worker) action(p *partition, id model.NodeID, a *wire.Action) {
	n, ok := p.findNode(id)
	if !ok {
		return
	}
	slot, ok := p.nodes[n].find(a.Check)
	if !ok {
		return
	}
	if open := p.problems[slot]; a.Problem != "" && (open == nil || open.ID != a.Problem) {
		return // it closed meanwhile; what is there now, nobody has looked at
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
		p.deadlines.Clear(slot) // armed again by the next result or sign of life …
		if node := &p.nodes[n]; a.Check == model.KeepaliveCheck && node.timeout > 0 && !node.stopped {
			p.deadlines.Set(slot, w.listening+node.patience()) // … which a dead node never gives: it is missed anew
		}
		w.judge(p, slot, s, w.chunk(s.chunk), verdict{status: model.OK, executed: s.executed, output: w.text, byHand: true})
	case "acknowledge":
		ack := &model.Ack{By: a.By, Note: a.Note, At: unixNano(w.received)}
		if a.Until > 0 {
			ack.Until = time.UnixMilli(int64(min(a.Until, 1<<50))).UTC() // beyond is 30,000 years away
		}
		w.acknowledge(p, slot, ack, Acknowledged, a)
	case "unacknowledge":
		w.acknowledge(p, slot, nil, Unacknowledged, a)
	default:
		w.view.opts.Logger.Error("BUG: an action that the view does not know", "commit", w.pos.Number, "verb", a.Verb)
	}
}

// acknowledge says of an open problem who looks after it; nil: nobody does any more.
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
		t.Received = w.received
	}
	w.view.watchers.changed(p, id)
}
