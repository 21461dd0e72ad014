package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// An assignment has a limit (wire.MaxAssignment). Preview refuses a change beyond it; but labels
// and facts of machines move checks too, and nobody is asked then. Such a node is built
// no assignment: the last one stays in force, and the reason is logged, counted
// and listed by Oversized.

// setExcess notes by how many bytes the assignment of a node would be too large.
func (f *fleet) setExcess(n *node, excess int) {
	if n.excess > 0 {
		f.oversized--
	}
	if excess > 0 {
		f.oversized++
	}
	n.excess = excess
}

// oversizedText says why the assignment of a node would be too large, with its largest parts.
func oversizedText(n *node, c *content) string {
	type part struct {
		name string
		size int
	}
	parts := make([]part, 0, len(c.chunks)+len(c.Properties))
	for _, chunk := range c.chunks {
		parts = append(parts, part{"check " + chunk.Name, len(wire.AppendChunk(nil, chunk))})
	}
	for i := range c.Properties {
		parts = append(parts, part{"property " + c.Properties[i].Name, wire.PropertySize(&c.Properties[i])})
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.size, a.size) })
	const shown = 3
	var largest []string
	for _, p := range parts[:min(shown, len(parts))] {
		largest = append(largest, p.name+" "+kib(p.size))
	}
	return fmt.Sprintf("node %s would have to hold %s (%d checks, %d properties), an assignment takes %s; the largest are %s",
		n.def.Name, kib(c.size), len(c.chunks), len(c.Properties), kib(wire.MaxAssignment), strings.Join(largest, ", "))
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

// Oversized lists the nodes whose assignment would be too large, at most so many, each with the reason.
func (i *Inspector) Oversized(most int) (list []string) {
	none := false
	if i.read(func(f *fleet) { none = f.oversized == 0 }); none {
		return nil
	}
	i.p.compiling.Lock() // contents are composed again
	defer i.p.compiling.Unlock()
	i.p.mu.Lock()
	defer i.p.mu.Unlock()
	b := i.p.fleet.builder(&pass{})
	for _, n := range i.p.fleet.nodes {
		if n.excess > 0 && len(list) < most {
			list = append(list, oversizedText(n, b.content(n)))
		}
	}
	b.discardUnused()
	slices.Sort(list)
	return list
}
