package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// An assignment has a limit (wire.MaxAssignment). Preview refuses what would break that; but labels
// and facts of machines move checks too, and nobody is asked then. Such a node is built
// no assignment: what its agent holds stays in force, and the reason is logged, counted
// and listed by Oversized.

// excess is by how many bytes, at least one, the content is too much.
func (c *content) excess() int {
	most := max(len(c.chunks), len(c.properties))
	if c.proxied != nil {
		most = max(most, len(c.proxied.Nodes))
		for i := range c.proxied.Nodes { // one is never split
			if over := c.proxied.Nodes[i].Size() - wire.MaxPart; over > 0 {
				return over
			}
		}
	}
	if c.size <= wire.MaxAssignment && most <= wire.MaxChunks {
		return 0
	}
	return max(c.size-wire.MaxAssignment, most-wire.MaxChunks, 1)
}

// exceed notes the excess of a node.
func (f *fleet) exceed(n *node, excess int) {
	if n.excess > 0 {
		f.excess--
	}
	if excess > 0 {
		f.excess++
	}
	n.excess = excess
}

// oversized says in words what is too much for the node, the largest first.
func (f *fleet) oversized(n *node, c *content) string {
	type part struct {
		what string
		size int
	}
	parts := make([]part, 0, len(c.chunks)+len(c.properties))
	for _, chunk := range c.chunks {
		parts = append(parts, part{"check " + chunk.Name, len(wire.AppendChunk(nil, chunk))})
	}
	for i := range c.properties {
		parts = append(parts, part{"property " + c.properties[i].Name, wire.PropertySize(&c.properties[i])})
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.size, a.size) })
	const shown = 3
	var largest []string
	for _, p := range parts[:min(shown, len(parts))] {
		largest = append(largest, p.what+" "+kib(p.size))
	}
	return fmt.Sprintf("node %s would have to hold %s (%d checks, %d properties), an assignment takes %s; the largest are %s",
		n.def.ref, kib(c.size), len(c.chunks), len(c.properties), kib(wire.MaxAssignment), strings.Join(largest, ", "))
}

func kib(n int) string { return fmt.Sprintf("%.1f KiB", float64(n)/1024) }

// tooLarge is the error of a change; nil where no node is concerned.
func tooLarge(nodes []string) error {
	if len(nodes) == 0 {
		return nil
	}
	text := nodes[0]
	if more := len(nodes) - 1; more > 0 {
		text += fmt.Sprintf("; so it is with %d more nodes", more)
	}
	return model.Errorf(model.Limited, "%s", text).
		WithHint("keep what is long in files on the nodes, or let fewer checks land on one node")
}

// Oversized says which nodes have no assignment because it would not fit, at most so
// many, in words.
func (p *Planner) Oversized(most int) (list []string) {
	p.mu.RLock()
	none := p.fleet.excess == 0
	p.mu.RUnlock()
	if none {
		return nil
	}
	p.compiling.Lock() // contents are composed anew
	defer p.compiling.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.fleet.builder(&pass{})
	for _, n := range p.fleet.nodes {
		if n.excess > 0 && len(list) < most {
			list = append(list, p.fleet.oversized(n, b.content(n)))
		}
	}
	b.forget()
	slices.Sort(list)
	return list
}
