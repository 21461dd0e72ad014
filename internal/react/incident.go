package react

import (
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/store/history"
)

// What a handler is told under one id is an incident: a service keeps one alert for it, calls
// somebody until it is acknowledged, and adds to it from then on without a word. So each handler has
// incidents of its own in a group, and two things begin another: a problem of which it knows nothing,
// while somebody looks after all that it knows; and an acknowledgement that ended. An acknowledged
// incident is not made to call again, for services cannot take an acknowledgement back (PagerDuty, Jira
// Service Management): another takes its place, and it ends.

// message is what a handler is told at once, under one id.
type message struct {
	id      string // of a problem, and behind that .1, .2, … where acknowledgements under it ended
	list    []*escalation
	unacked bool   // somebody looked after what it tells of
	instead string // the incident that ends, for this one takes its place; empty: none does
}

// messages are what a handler is told of problems that are told together.
func (r *router) messages(o *telling, list []*escalation, ref history.HandlerRef) (out []*message) {
	if r.alone(ref) {
		for _, e := range list {
			if e.Closing == nil {
				out = append(out, &message{id: e.Problem, list: []*escalation{e}})
			}
		}
		return out
	}
	g := r.groups[groupKey{list[0].Route, list[0].Group}]
	taken := func(id string) bool {
		return g.uses(ref, id) || slices.ContainsFunc(out, func(m *message) bool { return m.id == id })
	}
	under := func(id string) *message {
		i := slices.IndexFunc(out, func(m *message) bool { return m.id == id })
		if i < 0 {
			i, out = len(out), append(out, &message{id: id})
		}
		return out[i]
	}
	var fresh []*escalation
	anew, moved := map[string]*message{}, map[*escalation]bool{} // by the id under which it was acknowledged
	for _, e := range list {
		k := e.knows(ref)
		switch {
		case k == nil:
			fresh = append(fresh, e)
			continue
		case !k.Acked || e.Closing != nil:
			under(k.Under).list = append(under(k.Under).list, e)
			continue
		case anew[k.Under] == nil:
			anew[k.Under] = under(another(k.Under, taken))
		}
		m := anew[k.Under]
		m.unacked, m.list, moved[e] = true, append(m.list, e), true
	}
	for id, m := range anew {
		if !g.has(ref, id, func(e *escalation) bool { return !moved[e] }) {
			m.instead = id
		}
	}
	if len(fresh) > 0 {
		m := under(r.joins(o, g, ref, fresh[0], anew))
		m.unacked, m.list = false, append(m.list, fresh...)
	}
	return out
}

// joins is the id under which a handler is told of a problem that it does not know: that of an
// incident of the group that calls, or a new one.
func (r *router) joins(o *telling, g *group, ref history.HandlerRef, e *escalation, anew map[string]*message) string {
	var calls []string
	for _, m := range anew {
		calls = append(calls, m.id)
	}
	asked := map[string]bool{}
	for other := range g.members {
		if k := other.knows(ref); k != nil && !asked[k.Under] {
			if asked[k.Under] = true; !r.acked(o, g, ref, k.Under) {
				calls = append(calls, k.Under)
			}
		}
	}
	if len(calls) > 0 {
		return slices.Min(calls)
	}
	var ids []string
	for _, k := range e.Told { // as others know it
		ids = append(ids, k.Under)
	}
	for _, id := range append(ids, g.lead, e.Problem) {
		if !r.acked(o, g, ref, id) {
			return id
		}
	}
	return another(e.Problem, func(id string) bool { return g.uses(ref, id) })
}

// acked says whether somebody looks after all that is open under an id, or it was said there: what
// was told to be acknowledged stays so there, also when the acknowledgement is over here.
func (r *router) acked(o *telling, g *group, ref history.HandlerRef, id string) (acked bool) {
	for e := range g.members {
		k := e.knows(ref)
		if k == nil || k.Under != id {
			continue
		}
		if e.Closing != nil {
			acked = acked || k.Acked
		} else if is, ok := r.presence(o, e); ok && !k.Acked && !is.Problem.Ack.Holds(o.now) {
			return false // it calls on
		} else {
			acked = acked || ok || k.Acked
		}
	}
	return acked
}

// others says whether a handler knows, under the id by which it knows a problem, of another that is
// open and that nobody has acknowledged.
func (r *router) others(o *telling, e *escalation, k history.Told) bool {
	g := r.groups[groupKey{e.Route, e.Group}]
	return g.has(k.HandlerRef, k.Under, func(other *escalation) bool {
		if other == e || other.Closing != nil {
			return false
		}
		is, ok := r.presence(o, other)
		return ok && !is.Problem.Ack.Holds(o.now)
	})
}

// quiet notes that an incident is acknowledged where its handler keeps it.
func (r *router) quiet(o *telling, e *escalation, k history.Told) {
	for other := range r.groups[groupKey{e.Route, e.Group}].members {
		if its := other.knows(k.HandlerRef); its != nil && its.Under == k.Under && !its.Acked {
			its.Acked = true
			o.write(other)
		}
	}
}

// has says whether a handler knows one of the group under an id of which that is so.
func (g *group) has(ref history.HandlerRef, id string, so func(*escalation) bool) bool {
	if g == nil {
		return false
	}
	for e := range g.members {
		if k := e.knows(ref); k != nil && k.Under == id && so(e) {
			return true
		}
	}
	return false
}

func (g *group) uses(ref history.HandlerRef, id string) bool {
	return g.has(ref, id, func(*escalation) bool { return true })
}

// another is the id of what takes the place of an incident.
func another(id string, taken func(string) bool) string {
	problem, _, _ := strings.Cut(id, ".")
	for n := 1; ; n++ {
		if id = fmt.Sprintf("%s.%d", problem, n); !taken(id) {
			return id
		}
	}
}

// knows is what a handler was told of a problem; nil: nothing.
func (e *escalation) knows(ref history.HandlerRef) *history.Told {
	for i := range e.Told {
		if e.Told[i].HandlerRef == ref {
			return &e.Told[i]
		}
	}
	return nil
}

// learns notes that a handler was told of it.
func (e *escalation) learns(ref history.HandlerRef, id string) {
	if k := e.knows(ref); k != nil {
		k.Under, k.Acked = id, false
		return
	}
	e.Told = append(e.Told, history.Told{HandlerRef: ref, Under: id})
}

// addressed puts a notification under the id of an incident.
func addressed(n *handler.Notification, id string) {
	n.Incident = ""
	if problem, _, more := strings.Cut(id, "."); more {
		n.Problem, n.Incident = problem, id
	} else {
		n.Problem = id
	}
}
