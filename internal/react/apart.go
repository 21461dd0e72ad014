package react

import "slices"

// apart sees to it that problems of which nobody knows yet call somebody. A service that keeps one
// incident for their group, all of whose other problems somebody looks after, has that incident
// acknowledged, and would add to it without a word. So those that are looked after become a group of
// their own, under the id that they were told under; the others go on under that of a new one. What
// was told to be acknowledged stays so there, also when the acknowledgement has run out. Of those who
// were to be told together it returns which are told together now.
func (r *router) apart(o *telling, list []*escalation) [][]*escalation {
	g := r.groups[groupKey{list[0].Route, list[0].Group}]
	fresh := slices.IndexFunc(list, func(e *escalation) bool { return len(e.Told) == 0 })
	if g == nil || fresh < 0 {
		return [][]*escalation{list}
	}
	var known []*escalation
	acked := false
	for e := range g.members {
		if len(e.Told) == 0 {
			continue
		}
		known = append(known, e)
		if e.Closing != nil {
			acked = acked || e.Acked
		} else if is, ok := r.presence(o, e); ok && !e.Acked && !is.problem.Ack.Holds(o.now) {
			return [][]*escalation{list} // the incident calls on, for this one too
		} else {
			acked = acked || ok || e.Acked
		}
	}
	if !acked {
		return [][]*escalation{list}
	}
	ends := g.ends
	for _, e := range known {
		r.regroup(e, e.Group+"\x00acked\x00"+e.Lead, e.Lead)
		r.groups[groupKey{e.Route, e.Group}].ends = ends
		o.write(e)
	}
	g.lead = list[fresh].Problem
	for e := range g.members {
		e.Lead = g.lead
		o.write(e)
	}
	var again, first []*escalation
	for _, e := range list {
		if len(e.Told) > 0 {
			again = append(again, e)
		} else {
			first = append(first, e)
		}
	}
	if len(again) == 0 {
		return [][]*escalation{first}
	}
	return [][]*escalation{again, first}
}
