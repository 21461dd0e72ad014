package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// The origins of labels and properties of one node, for people.

// LabelOrigin is one label of a node.
type LabelOrigin struct {
	Name, Value, Owner string
	Hides              []LabelOrigin // values of other owners
}

// Owners of labels, the strongest first; labels of a join token come after those of the server
// and is told as model.JoinGrant says.
const (
	ServerOwned = "server"
	AgentOwned  = "agent"
	FactsOwned  = "facts"
)

// LabelOrigins are the labels of a node with their owners, by name.
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

// PropertyOrigins is a property of a node: its value, and all that is said of it.
type PropertyOrigins struct {
	Name     string
	Value    json.RawMessage // nil where Conflict says why there is none
	Conflict string
	From     []PropertyOrigin // from global to node
}

// PropertyOrigin is one place that says something of a property.
type PropertyOrigin struct {
	Level  string // global, namespace, group or node
	From   string // for people: property proxy (group web)
	Value  json.RawMessage
	Effect string // one of the Effects
}

// Effects of one value on the value in force.
const (
	InForce    = "in force"
	Partly     = "partly in force" // other members of the object are overridden
	Overridden = "overridden"
	InConflict = "in conflict"
)

// PropertyOrigins lists all properties of a node, by name: also those that no check reads.
func (i *Inspector) PropertyOrigins(id model.NodeID) (list []PropertyOrigins) {
	i.read(func(f *fleet) {
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

// propertyNames are those that something may say a value of on a node, in order.
func (f *fleet) propertyNames(n *node) []string {
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

func (f *fleet) origins(n *node, name string) (o PropertyOrigins, ok bool) {
	levels := append(f.common(n, name), f.properties.nodeValues(n, name))
	value := merged(name, levels)
	if value == nil {
		return o, false
	}
	o.Name = name
	if v := resolve(name, append(f.common(n, name), f.properties.nodeValues(n, name))); v.Error != "" {
		o.Conflict = v.Error
	} else {
		o.Value = v.Value
	}
	for i, level := range [...]string{"global", "namespace", "group", "node"} {
		for _, s := range levels[i] {
			o.From = append(o.From, PropertyOrigin{level, s.from, s.value, effect(tree(s, 0), value)})
		}
	}
	return o, true
}

// effect compares a value with the one in force.
func effect(said, now any) string {
	var same, other, clashes int
	var walk func(said, now any)
	walk = func(said, now any) {
		if _, is := now.(clash); is {
			clashes++
			return
		}
		x, xIs := said.(object)
		y, yIs := now.(object)
		switch {
		case xIs && yIs:
			for key, v := range x {
				walk(v, y[key])
			}
			if len(x) == 0 {
				same++
			}
		case !xIs && !yIs && said.(leaf).text == now.(leaf).text:
			same++
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

// merged is the value of all levels as a tree, clashes included; nil: nobody says
// anything. Sources of one level are merged in a fixed order, so that an error reads the
// same on every node.
func merged(name string, levels [][]source) (value any) {
	for _, level := range levels {
		slices.SortFunc(level, func(a, b source) int {
			return strings.Compare(a.from+string(a.value), b.from+string(b.value))
		})
		var here any
		for _, s := range level {
			here = join(name, here, tree(s, 0))
		}
		value = override(value, here)
	}
	return value
}
