package intent

import (
	"context"
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// Bounds of the search for missing nodes: a list may hold thousands.
const (
	maxMissingNodes = 5
	maxNodeLookups  = 1000 // in the store; nodes that enrolled are known in memory
)

// missingNodes warns of nodes that a resource names and that do not exist (yet). A plain name in the namespace shared
// means the nodes of that name in all namespaces.
func (p *proposal) missingNodes(ctx context.Context, namespace string, refs []string) (warnings []string, err error) {
	var named []string // in warnings
	lookups := 0
	for _, ref := range refs {
		ns, name := model.SplitRef(namespace, ref)
		within := []string{ns}
		if ns == model.SharedNamespaceName {
			within = p.repo.namespaces.names()
		}
		if p.repo.nodes.hasMachine(within, name) || slices.ContainsFunc(within, func(ns string) bool { return p.applied[Key{"Node", ns, name}] != nil }) {
			continue
		}
		there := false
		for _, ns := range within {
			if lookups++; lookups > maxNodeLookups {
				return append(warnings, "the other nodes that it names were not looked for: too many have not enrolled"), nil
			}
			row, err := p.row(ctx, Key{"Node", ns, name})
			if err != nil {
				return nil, err
			}
			if there = row != nil; there {
				break
			}
		}
		if there || slices.Contains(named, ref) {
			continue
		}
		if len(named) == maxMissingNodes {
			return append(warnings, "and others do not exist: muster get nodes lists those that do"), nil
		}
		named = append(named, ref)
		warnings = append(warnings, fmt.Sprintf("node %q does not exist (yet)%s", ref, p.suggestNode(within, name)))
	}
	return warnings, nil
}

// suggestNode returns a hint with an existing node near a missing one.
func (p *proposal) suggestNode(namespaces []string, name string) string {
	names := p.repo.nodes.names(namespaces)
	for key := range p.applied {
		if key.Kind == "Node" && slices.Contains(namespaces, key.Namespace) {
			names = append(names, key.Name)
		}
	}
	slices.Sort(names)
	if near := model.Nearest(name, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}
