package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Explanation says that something lands on a node, or that it does not: a sentence, and under
// it the sentences that it rests on.
type Explanation struct {
	Lands bool          `json:"lands"`
	Text  string        `json:"text"`
	Under []Explanation `json:"under,omitempty"`
}

// ExplainCheck says why a check lands on a node or not; not ok: one of them is not there.
func (p *Planner) ExplainCheck(node model.NodeID, check model.CheckID) (why Explanation, ok bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	n, c := p.fleet.nodes[node], p.fleet.checks[check]
	if n == nil || c == nil {
		return why, false
	}
	name := "check " + p.fleet.nameFor(c.def.ref, n)
	switch {
	case !inScope(c.def.ns, n.def.ns):
		return Explanation{Text: fmt.Sprintf("%s is of namespace %s: it runs on the nodes of that namespace only", name, c.def.ns)}, true
	case c.def.passive:
		return Explanation{Text: name + " is passive: nobody runs it, its results come in from outside"}, true
	case c.def.targets == nil:
		return Explanation{Text: name + " is disabled, or has no targets: it runs nowhere"}, true
	}
	on := c.def.targets
	switch {
	case n.def.proxy && c.def.proxied == nil:
		return Explanation{Text: "it is a proxy node, and " + name + " is not about such (proxy): nothing can run it there"}, true
	case n.def.proxy:
		on = c.def.proxied
	}
	w := asker{f: p.fleet, n: n, inside: map[gid]bool{}}
	return w.targets(name, on, c.def.ns), true
}

// ExplainGroups says of each group that a node is in why it is.
func (p *Planner) ExplainGroups(node model.NodeID) []Explanation {
	p.mu.RLock()
	defer p.mu.RUnlock()
	n := p.fleet.nodes[node]
	if n == nil {
		return nil
	}
	out := []Explanation{}
	for _, g := range n.groups.ids {
		w := asker{f: p.fleet, n: n, inside: map[gid]bool{}}
		out = append(out, w.group(g))
	}
	slices.SortFunc(out, func(a, b Explanation) int { return strings.Compare(a.Text, b.Text) })
	return out
}

// asker follows targets and groups for one node, the way fleet.lands does.
type asker struct {
	f      *fleet
	n      *node
	inside map[gid]bool // groups whose sentence is being made
}

// nameFor is how a node's namespace calls a resource.
func (f *fleet) nameFor(r ref, n *node) string {
	if r.ns == n.def.ns {
		return r.name
	}
	return r.String()
}

// targets says whether what is called name, of namespace owner, lands.
func (w *asker) targets(name string, t *targets, owner string) Explanation {
	yes, no := w.items(t)
	if len(yes) == 0 {
		if len(no) == 0 {
			return Explanation{Text: name + " names no targets"}
		}
		if near := w.nearest(name, t); near != "" {
			no = append(no, Explanation{Text: near})
		}
		return Explanation{Text: name + " does not name this node", Under: no}
	}
	if t.except != nil && w.f.lands(t.except, owner, w.n) {
		out, _ := w.items(t.except)
		for i := range out {
			out[i].Text = "except: " + out[i].Text
		}
		return Explanation{Text: name + " names this node and excepts it again", Under: append(yes, out...)}
	}
	return Explanation{Lands: true, Text: name + " lands here", Under: yes}
}

// nearest says which change would bring the node in, where there is a plain one.
func (w *asker) nearest(name string, t *targets) string {
	for _, g := range t.groups {
		r := w.f.gids.ref(g)
		if group := w.f.groups[g]; group != nil && group.def != nil && (t.except == nil || !slices.Contains(t.except.groups, g)) {
			return fmt.Sprintf("it would, if the node were in group %s: list that under spec.groups, muster edit node %s", w.f.nameFor(r, w.n), w.n.def.name)
		}
	}
	if len(t.groups) == 0 && len(t.nodes) > 0 {
		return fmt.Sprintf("it would, if %s named the node under targets.nodes", name)
	}
	return ""
}

// items are the ways in which targets may name the node: those that do, those that do not.
func (w *asker) items(t *targets) (yes, no []Explanation) {
	sort := func(y Explanation) {
		if y.Lands {
			yes = append(yes, y)
		} else {
			no = append(no, y)
		}
	}
	for _, g := range t.groups {
		sort(w.group(g))
	}
	var others []string
	for _, r := range t.nodes {
		if r.matches(w.n.def.ref) {
			sort(Explanation{Lands: true, Text: "it is named: " + w.n.def.name})
			continue
		}
		others = append(others, r.name)
	}
	if len(others) > 0 && len(yes) == 0 {
		more := ""
		if len(others) > 5 {
			others, more = others[:5], ", …"
		}
		sort(Explanation{Text: "named are other nodes: " + strings.Join(others, ", ") + more})
	}
	if t.where != nil {
		holds := w.f.conditions[t.where.key].matches.Contains(uint32(w.n.def.id))
		text := "the condition does not hold: "
		if holds {
			text = "the condition holds: "
		}
		sort(Explanation{Lands: holds, Text: text + t.where.key.expr})
	}
	return yes, no
}

// group says whether the node is in a group, and what put it there.
func (w *asker) group(g gid) Explanation {
	name := "group " + w.f.nameFor(w.f.gids.ref(g), w.n)
	group := w.f.groups[g]
	switch {
	case group == nil:
		return Explanation{Text: name + " does not exist"}
	case w.inside[g]:
		return Explanation{Lands: w.n.groups.has(g), Text: name + ", see above"}
	}
	w.inside[g] = true
	defer delete(w.inside, g)
	var yes, no []Explanation
	if _, own := slices.BinarySearch(w.n.def.groups, g); own {
		text := "the node lists it (spec.groups): an operator put it there"
		if given := w.n.def.given; given != nil && slices.Contains(given.groups, g) {
			text = "it was given (spec.given.groups): " + given.from
		}
		yes = append(yes, Explanation{Lands: true, Text: text})
	}
	if i, ok := slices.BinarySearchFunc(w.n.def.claims, g, func(c claim, g gid) int { return cmp.Compare(c.group, g) }); ok {
		lands, text := group.taking(w.n.def.claims[i])
		why := Explanation{Lands: lands, Text: "its agent says so (--groups): " + text}
		if lands {
			yes = append(yes, why)
		} else {
			no = append(no, why)
		}
	}
	if group.def != nil {
		more, others := w.items(w.f.heard(group.def))
		yes, no = append(yes, more...), append(no, others...)
	}
	if !w.n.groups.has(g) {
		if group.def == nil {
			name += ", which is declared nowhere"
		}
		return Explanation{Text: "it is not in " + name, Under: no}
	}
	return Explanation{Lands: true, Text: "it is in " + name, Under: yes}
}
