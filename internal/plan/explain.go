package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// Explanation says that something lands on a node, or that it does not: a sentence, and under
// it the sentences that it rests on.
type Explanation struct {
	Lands bool          `json:"lands"`
	Text  string        `json:"text"`
	Under []Explanation `json:"under,omitempty"`
}

// ExplainCheck says why a check lands on a node or not; not ok: one of them does not exist.
func (i *Inspector) ExplainCheck(node model.NodeID, check model.CheckID) (e Explanation, ok bool) {
	i.read(func(f *fleet) {
		n, u := f.nodes[node], f.units[check]
		if ok = n != nil && u != nil; ok {
			e = f.explain(n, u.def)
		}
	})
	return e, ok
}

func (f *fleet) explain(n *node, u *unit) Explanation {
	name := strings.ToLower(u.Kind) + " " + nameFor(u.Name, n)
	switch {
	case !reaches(u.Namespace, n.def.Namespace):
		return Explanation{Text: fmt.Sprintf("%s is of namespace %s: it runs on the nodes of that namespace only", name, u.Namespace)}
	case u.Passive:
		return Explanation{Text: name + " is passive: no agent runs it, its results come from outside"}
	case u.targets == nil:
		return Explanation{Text: name + " is disabled, or has no targets: it runs nowhere"}
	}
	on := u.targets
	switch {
	case n.def.Proxy && u.proxies == nil:
		return Explanation{Text: "it is a proxy node, and " + name + " is not about proxy nodes (spec.proxy): nothing can run it there"}
	case n.def.Proxy:
		on = u.proxies
	}
	w := explainer{f: f, n: n, open: map[directory.GroupID]bool{}}
	return w.targets(name, on, u.Namespace)
}

// ExplainGroups says of each group of a node why the node is in it.
func (i *Inspector) ExplainGroups(node model.NodeID) (list []Explanation) {
	i.read(func(f *fleet) {
		n := f.nodes[node]
		if n == nil {
			return
		}
		list = []Explanation{}
		for _, g := range n.groups.ids {
			w := explainer{f: f, n: n, open: map[directory.GroupID]bool{}}
			list = append(list, w.group(g))
		}
	})
	slices.SortFunc(list, func(a, b Explanation) int { return strings.Compare(a.Text, b.Text) })
	return list
}

// explainer follows targets and groups for one node, the way fleet.lands does.
type explainer struct {
	f    *fleet
	n    *node
	open map[directory.GroupID]bool // groups whose explanation is not finished
}

// nameFor returns the name of a resource as the namespace of a node writes it.
func nameFor(name route.Name, n *node) string {
	if name.Namespace == n.def.Namespace {
		return name.Name
	}
	return name.String()
}

// targets says whether a resource with a name, of namespace owner, lands.
func (w *explainer) targets(name string, t *targets, owner string) Explanation {
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
func (w *explainer) nearest(name string, t *targets) string {
	for _, g := range t.groups {
		r := w.f.groupNumbers.name(g)
		if group := w.f.groups[g]; group != nil && group.def != nil && (t.except == nil || !slices.Contains(t.except.groups, g)) {
			return fmt.Sprintf("it would, if the node were in group %s: list that under spec.groups, muster edit node %s", nameFor(r, w.n), w.n.def.Name.Name)
		}
	}
	if len(t.groups) == 0 && len(t.nodes) > 0 {
		return fmt.Sprintf("it would, if %s named the node under targets.nodes", name)
	}
	return ""
}

// items are the ways in which targets may name the node: those that do, those that do not.
func (w *explainer) items(t *targets) (yes, no []Explanation) {
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
		if matchesNode(r, w.n.def.Name) {
			sort(Explanation{Lands: true, Text: "it is named: " + w.n.def.Name.Name})
			continue
		}
		others = append(others, r.Name)
	}
	if len(others) > 0 && len(yes) == 0 {
		more := ""
		if len(others) > 5 {
			others, more = others[:5], ", …"
		}
		sort(Explanation{Text: "named are other nodes: " + strings.Join(others, ", ") + more})
	}
	if t.where != nil {
		holds := w.f.conditions.matches(t.where).Contains(uint32(w.n.def.ID))
		text := "the condition does not hold: "
		if holds {
			text = "the condition holds: "
		}
		sort(Explanation{Lands: holds, Text: text + t.where.key.expr})
	}
	return yes, no
}

// group says whether the node is in a group, and why.
func (w *explainer) group(g directory.GroupID) Explanation {
	name := "group " + nameFor(w.f.groupNumbers.name(g), w.n)
	group := w.f.groups[g]
	switch {
	case group == nil:
		return Explanation{Text: name + " does not exist"}
	case w.open[g]:
		return Explanation{Lands: w.n.groups.has(g), Text: name + ", see above"}
	}
	w.open[g] = true
	defer delete(w.open, g)
	var yes, no []Explanation
	if _, own := slices.BinarySearch(w.n.def.groups, g); own {
		text := "the node lists it (spec.groups): an operator put it there"
		if grant := w.n.def.grant; grant != nil && slices.Contains(grant.groups, g) {
			text = "it was given (spec.given.groups): " + grant.text
		}
		yes = append(yes, Explanation{Lands: true, Text: text})
	}
	if i, ok := slices.BinarySearchFunc(w.n.def.requests, g, func(c joinRequest, g directory.GroupID) int { return cmp.Compare(c.group, g) }); ok {
		lands, text := group.decide(w.n.def.requests[i])
		why := Explanation{Lands: lands, Text: "its agent says so (--groups): " + text}
		if lands {
			yes = append(yes, why)
		} else {
			no = append(no, why)
		}
	}
	if group.def != nil {
		more, others := w.items(w.f.containedBy(group.def))
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
