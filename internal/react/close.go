package react

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

// closed ends a problem on its routes: who knows of it hears that, with the rest of its
// group; who was not told hears nothing, and why is kept.
func (r *router) closed(o *telling, t *event.Transition, p *history.Problem) error {
	var now []*escalation
	r.ended(p.ID, o.now)
	for _, e := range slices.Clone(r.of[p.ID]) {
		over := e.overRate()
		if len(e.Told) == 0 && !over {
			r.withhold(o, e)
			o.finish(r, e)
			continue
		}
		note := closingNote(t, p, r.opts.Names.NodeLabels(t.Node))
		body, err := json.Marshal(note)
		if err != nil {
			return fmt.Errorf("encode the end of problem %s: %w", p.ID, err)
		}
		for i := range e.Told {
			e.Told[i].Acked = e.Told[i].Acked || p.Ack.Holds(o.now)
		}
		if e.Closing = body; over { // it is counted when the rate's time is over
			o.write(e)
			continue
		}
		e.Held, e.Due = nil, o.now
		if to := r.routeOf(e); to != nil {
			g := r.group(groupKey{e.Route, e.Group}, e.Lead)
			if !g.ends.After(o.now) {
				g.ends = o.now.Add(to.GroupWait)
			}
			e.Due = g.ends
		}
		r.plan(e)
		o.write(e)
		if !e.Due.After(o.now) {
			now = append(now, e)
		}
	}
	return r.look(o, now)
}

// withhold keeps the reason why a problem that has ended was never told.
func (r *router) withhold(o *telling, e *escalation) {
	why := "it closed before anybody was to be told"
	if h := e.Held; h != nil {
		switch why = string(h.Kind); h.Kind {
		case route.Acknowledged:
			why += " by " + h.Creator
		case route.ManySilent:
		case route.Unreachable:
			why = "unreachable behind " + h.By.String()
		case route.Dependent:
			why = "it depends on " + h.By.String()
		default:
			why += " by " + h.By.String()
		}
		why += " until it closed"
		if h.Reason != "" {
			why += ": " + h.Reason
		}
	}
	r.untold(o, e, why)
}

// untold keeps for those who would have been told first why they were not.
func (r *router) untold(o *telling, e *escalation, why string) {
	to := r.routeOf(e)
	if to == nil {
		return
	}
	for _, step := range to.Steps {
		for _, name := range step.To {
			ref := history.HandlerRef(name)
			o.deliveries = append(o.deliveries, history.Delivery{
				Key:     fmt.Sprintf("%s/withheld/%s/%s/%s", e.Problem, ref.Namespace, ref.Name, e.Route),
				Problem: e.Problem, Handler: ref, Kind: handler.Opened, Payload: []byte("{}"), Created: o.now, State: history.Withheld, Ended: o.now, LastError: why,
			})
		}
		return // of later steps nobody was to be told yet
	}
}

// conclude tells of the end of some problems of a group. While others of an incident are open, a
// service must not end it.
func (r *router) conclude(o *telling, key groupKey, list []*escalation) error {
	ends := map[history.Told][]*escalation{} // of whom, under which id
	for _, e := range list {
		for _, k := range e.Told {
			k.Acked = false
			ends[k] = append(ends[k], e)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(ends), history.Told.Compare) {
		of, ref := ends[k], k.HandlerRef
		var notes []*handler.Notification
		for _, e := range of {
			note, err := handler.Decode(e.Closing)
			if err != nil {
				return err
			}
			notes = append(notes, note)
		}
		if r.alone(ref) {
			for i, e := range of {
				notes[i].Problem = e.Problem
				if err := r.send(o, of[i:i+1], ref, notes[i], handler.Closed); err != nil {
					return err
				}
			}
			continue
		}
		kind := handler.Closed
		if r.groups[key].has(ref, k.Under, func(e *escalation) bool { return e.Closing == nil }) {
			kind = handler.Summary
		}
		note := several(notes, k.Under, kind)
		if note.Kind = kind; kind == handler.Summary && note.Count == 0 {
			note.Count = 1
		}
		if err := r.send(o, of, ref, note, handler.Closed); err != nil {
			return err
		}
	}
	for _, e := range list {
		o.finish(r, e)
	}
	return nil
}

// acknowledged tells those who know of a problem who looks after it; nil: nobody does any
// more, and those who were told that somebody does hear of it again.
func (r *router) acknowledged(o *telling, t *event.Transition, p *history.Problem) error {
	var again []*escalation
	for _, e := range slices.Clone(r.of[p.ID]) {
		if e.Closing != nil {
			continue
		}
		if dropped := e.Held != nil && e.Held.Drop; !dropped && (e.Held != nil || p.Ack == nil) {
			again = append(again, e) // something else may hold it now, for another time, or nothing
		}
		if p.Ack == nil {
			r.takenBackBy(e, t.Output)
			r.recall(o, e)
			continue
		}
		for _, k := range e.Told {
			note := closingNote(t, p, r.opts.Names.NodeLabels(t.Node))
			note.Kind, note.By, note.Note = handler.Acknowledged, p.Ack.By, p.Ack.Note
			if addressed(note, k.Under); r.alone(k.HandlerRef) {
				addressed(note, e.Problem)
			} else if r.others(o, e, k) { // whoever keeps one incident for them goes on calling
				note.Kind, note.Count = handler.Summary, 1
			} else {
				r.quiet(o, e, k)
			}
			if err := r.send(o, []*escalation{e}, k.HandlerRef, note, handler.Acknowledged); err != nil {
				return err
			}
		}
		e.AckEnds = p.Ack.Until
		r.plan(e)
		o.write(e) // looked at when it is due; the acknowledgement holds it then
	}
	return r.look(o, again)
}
