package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Fault is a reason for which nodes cannot do their work: a check that reads a property
// that is not set, or that two groups set differently; an assignment that would be too
// large.
type Fault struct {
	Check    model.CheckID // zero: of the whole node
	Text     string
	Nodes    int
	Examples []model.NodeID // some of them, by id
}

// fault is one of one content: the same on every node that holds it.
type fault struct {
	unit model.UnitID
	text string
}

// tooLargeText is the fault of a node that has no assignment (see size.go).
const tooLargeText = "the assignment would be too large: the agent keeps its last one"

// faultExamples is how many nodes stand for all that have a fault.
const faultExamples = 3

// Faults lists the faults of the nodes of a namespace (empty: of all), the one of most nodes first, and how
// many nodes have one. It looks at every node; the text of a content is made once.
func (i *Inspector) Faults(namespace string) (list []Fault, nodes int) {
	found := map[fault]*Fault{}
	add := func(key fault, id model.NodeID) {
		f := found[key]
		if f == nil {
			f = &Fault{Check: key.unit, Text: key.text}
			found[key] = f
		}
		f.Nodes++
		at, _ := slices.BinarySearch(f.Examples, id)
		f.Examples = slices.Insert(f.Examples, at, id)
		f.Examples = f.Examples[:min(len(f.Examples), faultExamples)]
	}
	i.read(func(f *fleet) {
		for id, n := range f.nodes {
			if namespace != "" && n.def.Namespace != namespace {
				continue
			}
			faults := f.faultsOf(n)
			for _, key := range faults {
				add(key, id)
			}
			if len(faults) > 0 {
				nodes++
			}
		}
	})
	for _, f := range found {
		list = append(list, *f)
	}
	slices.SortFunc(list, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Check, b.Check), cmp.Compare(a.Text, b.Text))
	})
	return list, nodes
}

// NodeFaults lists the faults of one node.
func (i *Inspector) NodeFaults(node model.NodeID) (list []Fault) {
	i.read(func(f *fleet) {
		if n := f.nodes[node]; n != nil {
			for _, x := range f.faultsOf(n) {
				list = append(list, Fault{Check: x.unit, Text: x.text, Nodes: 1, Examples: []model.NodeID{node}})
			}
		}
	})
	return list
}

// faultsOf lists the faults of a node.
func (f *fleet) faultsOf(n *node) []fault {
	if n.excess > 0 {
		return []fault{{text: tooLargeText}}
	}
	if n.def.Proxy {
		return f.proxyFaults(n)
	}
	if n.content == nil {
		return nil
	}
	if known := n.content.faults.Load(); known != nil {
		return *known
	}
	found := f.faultsIn(n.content)
	n.content.faults.Store(&found)
	return found
}

// faultsIn tries every body that reads properties, as the agents will.
func (f *fleet) faultsIn(c *content) (list []fault) {
	if len(c.names) == 0 {
		return nil
	}
	for _, chunk := range c.chunks {
		u := f.units[chunk.Unit]
		if u == nil || u.def == nil || u.def.proxies != nil {
			continue
		}
		body := u.def.body
		if next := u.def.next; next != nil && next.chunk == chunk {
			body = next.body
		}
		list = u.def.faults(list, body, c.Properties)
	}
	return list
}

// proxyFaults lists the faults of the checks that are about a proxy node: machines run them, with the
// properties of the proxy node.
func (f *fleet) proxyFaults(n *node) (list []fault) {
	r := f.resolver()
	for _, id := range n.units.ids {
		if u := f.units[id].def; u.try != nil {
			list = u.faults(list, u.body, r.properties(n, u.properties))
		}
	}
	return list
}

// faults appends the error of a body with these properties.
func (u *unit) faults(list []fault, b *body, properties []wire.Property) []fault {
	if b.try == nil {
		return list
	}
	err := b.try(func(name string) ([]byte, string, bool) {
		i, ok := slices.BinarySearchFunc(properties, name, func(p wire.Property, name string) int { return cmp.Compare(p.Name, name) })
		if !ok {
			return nil, "", false
		}
		return properties[i].Value, properties[i].Error, true
	})
	if err != nil {
		list = append(list, fault{u.ID, fmt.Sprintf("%s %s: %v", strings.ToLower(u.Kind), u.Name.Name, err)})
	}
	return list
}
