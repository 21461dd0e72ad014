package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

// Explanation explains to people why a resource applies to a node or does not. The reasons are nested.
type Explanation struct {
	Lands bool          `json:"lands"`
	Text  string        `json:"text"`
	Steps []Explanation `json:"steps,omitempty"`
}

// ExplainCheck explains why a check runs on a node or does not. ok is false if the node or the check does not exist.
func (i *Inspector) ExplainCheck(node model.NodeID, check model.CheckID) (e Explanation, ok bool) {
	i.withFleet(func(f inspection) {
		n, u := f.nodes[node], f.units[check]
		if ok = n != nil && u != nil; ok {
			e = f.explain(n, u.def)
		}
	})
	return e, ok
}

// explain explains for people why a check runs on a node or does not.
func (f inspection) explain(n *node, u *unit) Explanation {
	name := strings.ToLower(u.Kind) + " " + nameFor(u.Name, n)
	switch {
	case !reachesNamespace(u.Namespace, n.def.Namespace):
		return Explanation{Text: fmt.Sprintf("%s belongs to namespace %s and runs only on nodes of that namespace", name, u.Namespace)}
	case u.Passive:
		return Explanation{Text: name + " is passive: external systems send its results"}
	case u.targets == nil:
		return Explanation{Text: name + " is disabled or has no targets"}
	}
	on := u.targets
	switch {
	case n.def.Proxy && u.proxies == nil:
		return Explanation{Text: "it is a proxy node, and " + name + " is not a proxy check (spec.proxy): no node can run it for a proxy node"}
	case n.def.Proxy:
		on = u.proxies
	}
	w := explainer{f: f.fleet, n: n, open: map[directory.GroupID]bool{}}
	if u.policies == nil {
		return w.targets(name, on, u.Namespace)
	}
	e := Explanation{Text: "no policy puts " + name + " on this node"}
	for _, p := range u.policies {
		by := w.targets("policy "+nameFor(p.policy, n), p.targets, p.policy.Namespace)
		if e.Steps = append(e.Steps, by); by.Lands {
			e.Lands, e.Text = true, name+" is assigned to this node"
		}
	}
	if e.Lands && n.def.exempt {
		e.Lands, e.Text = false, fmt.Sprintf("%s does not run on this node, because no directive runs on a node of the state %s (spec.state)", name, n.def.state)
	}
	if mode := f.resolver().declaredMode(n); e.Lands && newTrustRules(f.fleet).auditsOnly(u, u.bodyFor(n.units).definition.AsDirective(), &mode, n) {
		e.Steps = append(e.Steps, Explanation{Lands: true, Text: fmt.Sprintf("it enforces, but only audits on this node: %s selects it by values that the machine can choose. Set trusted: true in the group, name the node, or write trusted: facts in the directive", f.untrustedSource(u, n))})
	}
	if by := f.overridingDirective(n, u); by != nil {
		e.Lands = false
		e.Text = fmt.Sprintf("%s is overridden on this node: directive %s of the same technique runs, for %s", name, nameFor(by.Name, n), by.precedence.reason(u.precedence))
	}
	return e
}

// ExplainGroups returns, for each group of a node, why the node is a member.
func (i *Inspector) ExplainGroups(node model.NodeID) (list []Explanation) {
	i.withFleet(func(f inspection) {
		n := f.nodes[node]
		if n == nil {
			return
		}
		list = []Explanation{}
		for _, g := range n.groups.ids {
			w := explainer{f: f.fleet, n: n, open: map[directory.GroupID]bool{}}
			list = append(list, w.group(g))
		}
	})
	slices.SortFunc(list, func(a, b Explanation) int { return strings.Compare(a.Text, b.Text) })
	return list
}

// explainer explains how targets and groups select one node
type explainer struct {
	f    *fleet
	n    *node
	open map[directory.GroupID]bool // groups whose explanation is not finished, to stop at cycles
}

// nameFor returns the name of a resource, with its namespace if the node is in another namespace
func nameFor(name route.Name, n *node) string {
	if name.Namespace == n.def.Namespace {
		return name.Name
	}
	return name.String()
}

// targets explains to people whether a resource's targets select the node. owner is the namespace of the resource.
func (w *explainer) targets(name string, t *targets, owner string) Explanation {
	yes, no := w.items(t)
	if len(yes) == 0 {
		if len(no) == 0 {
			return Explanation{Text: name + " names no targets"}
		}
		if near := w.selectionHint(name, t); near != "" {
			no = append(no, Explanation{Text: near})
		}
		return Explanation{Text: name + " does not name this node", Steps: no}
	}
	if t.except != nil && w.f.targetsSelect(t.except, owner, w.n) {
		out, _ := w.items(t.except)
		for i := range out {
			out[i].Text = "except: " + out[i].Text
		}
		return Explanation{Text: name + " selects this node and excludes it again", Steps: append(yes, out...)}
	}
	return Explanation{Lands: true, Text: name + " is assigned to this node", Steps: yes}
}

// selectionHint returns a hint about one change that would make the targets select the node. The text is empty if no
// single change does.
func (w *explainer) selectionHint(name string, t *targets) string {
	for _, g := range t.groups {
		r := w.f.groupNumbers.name(g)
		if group := w.f.groups[g]; group != nil && group.def != nil && (t.except == nil || !slices.Contains(t.except.groups, g)) {
			return fmt.Sprintf("to run it here, add group %s to spec.groups: muster edit node %s", nameFor(r, w.n), w.n.def.Name.Name)
		}
	}
	if len(t.groups) == 0 && len(t.nodes) > 0 {
		return fmt.Sprintf("to run it here, add the node to targets.nodes of %s", name)
	}
	return ""
}

// items explains which of the groups, nodes and conditions in targets select the node. yes has the parts that
// select it, no has the others.
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
			sort(Explanation{Lands: true, Text: "the list of nodes has this node: " + w.n.def.Name.Name})
			continue
		}
		others = append(others, r.Name)
	}
	if len(others) > 0 && len(yes) == 0 {
		more := ""
		if len(others) > 5 {
			others, more = others[:5], ", …"
		}
		sort(Explanation{Text: "the list of nodes has only other nodes: " + strings.Join(others, ", ") + more})
	}
	if t.where != nil {
		holds := w.f.conditions.matches(t.where).Contains(uint32(w.n.def.ID))
		text := "the condition is false: "
		if holds {
			text = "the condition is true: "
		}
		text += t.where.key.expr
		if t.where.key.expr == "true" {
			text = "every node is selected"
		}
		sort(Explanation{Lands: holds, Text: text})
	}
	return yes, no
}

// group explains to people whether the node is a member of a group.
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
			text = "the join token or an operator set it (spec.given.groups): " + grant.text
		}
		yes = append(yes, Explanation{Lands: true, Text: text})
	}
	if i, ok := slices.BinarySearchFunc(w.n.def.requests, g, func(c joinRequest, g directory.GroupID) int { return cmp.Compare(c.group, g) }); ok {
		lands, text := group.decide(w.n.def.requests[i])
		why := Explanation{Lands: lands, Text: "the agent requests it (--groups): " + text}
		if lands {
			yes = append(yes, why)
		} else {
			no = append(no, why)
		}
	}
	if group.def != nil {
		more, others := w.items(w.f.permittedTargets(group.def))
		yes, no = append(yes, more...), append(no, others...)
	}
	if !w.n.groups.has(g) {
		if group.def == nil {
			name += ", which does not exist"
		}
		return Explanation{Text: "it is not in " + name, Steps: no}
	}
	return Explanation{Lands: true, Text: "it is in " + name, Steps: yes}
}

// The functions below explain to people the origins of a node's labels and properties.

// LabelOrigin is one label of a node with its owner, the server or the agent
type LabelOrigin struct {
	Name, Value, Owner string
	Hides              []LabelOrigin // values of weaker owners for the same label
}

// LabelOrigin.Owner has one of a few words, the strongest owner first. Labels of a join token come after those of the
// server; model.JoinGrant makes the text for their owner.
const (
	ServerOwned = "server"
	AgentOwned  = "agent"
	FactsOwned  = "facts"
)

// LabelOrigins returns the labels of a node sorted by name, each with its owner (server or agent).
func LabelOrigins(meta model.Metadata, spec *model.NodeSpec) []LabelOrigin {
	var out []LabelOrigin
	given, from := map[string]string(nil), ""
	if spec.JoinGrant != nil {
		given, from = spec.JoinGrant.Labels, spec.JoinGrant.Source()
	}
	for _, name := range slices.Sorted(maps.Keys(EffectiveLabels(meta, spec))) {
		var said []LabelOrigin
		for _, o := range [...]struct {
			owner  string
			labels map[string]string
		}{{ServerOwned, meta.Labels}, {from, given}, {AgentOwned, spec.AgentLabels}, {FactsOwned, spec.Facts}} {
			if v, ok := o.labels[name]; ok {
				said = append(said, LabelOrigin{Name: name, Value: v, Owner: o.owner})
			}
		}
		said[0].Hides = said[1:]
		out = append(out, said[0])
	}
	return out
}

// PropertyOrigins has the value of a node's property, with every declared value
type PropertyOrigins struct {
	Name     string
	Value    json.RawMessage // value in force; nil: Conflict says why the property has no value
	Conflict string
	From     []PropertyOrigin // declared values, from global to node
}

// PropertyOrigin is one declared value of a property, with its scope (such as a group) and its effect
type PropertyOrigin struct {
	Level  string // global, namespace, group or node
	From   string // place for people: property proxy (group web)
	Value  json.RawMessage
	Effect string // InForce, Partly, Overridden or InConflict
}

// PropertyOrigin.Effect has one word for the effect of a declared value on the resulting value.
const (
	InForce    = "in force"
	Partly     = "partly in force" // other members of the object are overridden
	Overridden = "overridden"
	InConflict = "in conflict"
)

// PropertyOrigins lists all properties of a node, sorted by name, including properties that no check reads.
func (i *Inspector) PropertyOrigins(id model.NodeID) (list []PropertyOrigins) {
	i.withFleet(func(f inspection) {
		n := f.nodes[id]
		if n == nil {
			return
		}
		for _, name := range f.propertyNames(n) {
			if o, ok := f.origins(n, name); ok {
				list = append(list, o)
			}
		}
	})
	return list
}

// propertyNames lists the properties that have a declared value for a node, ascending.
func (f inspection) propertyNames(n *node) []string {
	names := map[string]bool{}
	for _, v := range n.def.properties {
		names[v.name] = true
	}
	for _, g := range n.groups.ids {
		if def := f.groups[g].def; def != nil {
			for _, v := range def.properties {
				names[v.name] = true
			}
		}
	}
	for at := range f.properties.declared {
		names[at.property] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// origins returns a node's property with the origin of every declared value. ok is false if the property has no value.
func (f inspection) origins(n *node, name string) (o PropertyOrigins, ok bool) {
	levels := append(f.sharedSources(n, name), f.properties.nodeValues(n, name))
	value := mergeLevels(name, levels)
	if value == nil {
		return o, false
	}
	o.Name = name
	if v := resolve(name, append(f.sharedSources(n, name), f.properties.nodeValues(n, name))); v.Error != "" {
		o.Conflict = v.Error
	} else {
		o.Value = v.Value
	}
	for i, level := range [...]string{"global", "namespace", "group", "node"} {
		for _, s := range levels[i] {
			o.From = append(o.From, PropertyOrigin{level, s.from, s.value, valueEffect(parseTree(s, 0), value)})
		}
	}
	return o, true
}

// valueEffect tells whether a declared value is used, partly used, overridden or in conflict. The effect is used,
// partly used, overridden or in conflict.
func valueEffect(said, now any) string {
	var same, other, clashes int
	var walk func(said, now any)
	walk = func(said, now any) {
		if _, is := now.(valueConflict); is {
			clashes++
			return
		}
		x, xIs := said.(jsonObject)
		y, yIs := now.(jsonObject)
		a, aIs := said.(jsonLeaf)
		b, bIs := now.(jsonLeaf)
		switch {
		case xIs && yIs:
			for key, v := range x {
				walk(v, y[key])
			}
			if len(x) == 0 {
				same++
			}
		case aIs && bIs && a.text == b.text:
			same++
		case aIs && bIs && slices.Contains(b.parts, a.text):
			same, other = same+1, other+1
		default:
			other++
		}
	}
	walk(said, now)
	switch {
	case clashes > 0:
		return InConflict
	case other == 0:
		return InForce
	case same > 0:
		return Partly
	}
	return Overridden
}

// mergeLevels merges the values of a property, from the widest scope to the node, into one JSON value. Two different
// values of the same level become a conflict. It returns nil if there is no value. Values of one level are merged in a
// fixed order, so that an error has the same text on every node.
func mergeLevels(name string, levels [][]source) (value any) {
	var mode model.PropertyMerge // of the widest level with a value
	for _, level := range levels {
		slices.SortFunc(level, func(a, b source) int {
			return strings.Compare(a.from+string(a.value), b.from+string(b.value))
		})
		if i := slices.IndexFunc(level, func(s source) bool { return s.merge != model.PropertyMerge{} }); value == nil && i >= 0 {
			mode = level[i].merge
		}
		var here any
		for _, s := range level {
			here = mergeValues(name, here, parseTree(s, 0))
		}
		value = overrideTree(value, here, mode)
	}
	return value
}
