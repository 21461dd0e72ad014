package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Fault is what keeps nodes from doing what they should: a check that reads a property
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
	check model.CheckID
	text  string
}

// tooLargeText is the fault of a node that has no assignment (see size.go).
const tooLargeText = "the assignment would be too large: the agent keeps its last one"

// faultExamples is how many nodes stand for all that have a fault.
const faultExamples = 3

// Faults implements Directory: it looks at every node, and makes the text of each content
// once, when it is asked for the first time.
func (p *Planner) Faults(namespace string) (list []Fault, nodes int) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	found := map[fault]*Fault{}
	add := func(key fault, id model.NodeID) {
		f := found[key]
		if f == nil {
			f = &Fault{Check: key.check, Text: key.text}
			found[key] = f
		}
		f.Nodes++
		at, _ := slices.BinarySearch(f.Examples, id)
		f.Examples = slices.Insert(f.Examples, at, id)
		f.Examples = f.Examples[:min(len(f.Examples), faultExamples)]
	}
	for id, n := range p.fleet.nodes {
		if namespace != "" && n.def.ns != namespace {
			continue
		}
		faults := p.fleet.faultsOf(n)
		for _, key := range faults {
			add(key, id)
		}
		if len(faults) > 0 {
			nodes++
		}
	}
	for _, f := range found {
		list = append(list, *f)
	}
	slices.SortFunc(list, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Check, b.Check), cmp.Compare(a.Text, b.Text))
	})
	return list, nodes
}

// NodeFaults implements Directory.
func (p *Planner) NodeFaults(node model.NodeID) (list []Fault) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	n := p.fleet.nodes[node]
	if n == nil {
		return nil
	}
	for _, f := range p.fleet.faultsOf(n) {
		list = append(list, Fault{Check: f.check, Text: f.text, Nodes: 1, Examples: []model.NodeID{node}})
	}
	return list
}

func (f *fleet) faultsOf(n *node) []fault {
	if n.excess > 0 {
		return []fault{{text: tooLargeText}}
	}
	if n.def.proxy {
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

// faultsIn tries every command that reads properties, as the agent will.
func (f *fleet) faultsIn(c *content) (list []fault) {
	if len(c.names) == 0 {
		return nil
	}
	for _, chunk := range c.chunks {
		if check := f.checks[chunk.Unit]; check != nil && check.def != nil && check.def.proxied == nil {
			list = check.def.faults(list, c.properties)
		}
	}
	return list
}

// proxyFaults are those of the checks that are about a proxy node: others run them, with its
// properties.
func (f *fleet) proxyFaults(n *node) (list []fault) {
	r := f.resolver()
	for _, id := range n.checks.ids {
		if def := f.checks[id].def; def.template != nil {
			list = def.faults(list, r.properties(n, def.props))
		}
	}
	return list
}

// faults adds what keeps the check from running with these properties.
func (d *checkDef) faults(list []fault, properties []wire.Property) []fault {
	if d.template == nil {
		return list
	}
	_, err := d.template.Expand(func(name string) ([]byte, string, bool) {
		i, ok := slices.BinarySearchFunc(properties, name, func(p wire.Property, name string) int { return cmp.Compare(p.Name, name) })
		if !ok {
			return nil, "", false
		}
		return properties[i].Value, properties[i].Error, true
	})
	if err != nil {
		list = append(list, fault{d.id, fmt.Sprintf("check %s: %v", d.name, err)})
	}
	return list
}
