package intent

import (
	"context"
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// How much is done to find names of nodes that do not exist: enough is enough for a
// person, and a list may hold thousands.
const (
	maxMissingNodes = 5
	maxNodeLookups  = 1000 // in the store; nodes that enrolled are known in memory
)

// missingNodes warns of nodes that a resource of a namespace names and that do not exist
// (yet). A plain name in the namespace shared means the nodes of that name in all.
func (s *Service) missingNodes(ctx context.Context, namespace string, refs []string, l *lookup) (warnings []string, err error) {
	var named []string // in warnings
	lookups := 0
	for _, ref := range refs {
		ns, name := model.SplitRef(namespace, ref)
		within := []string{ns}
		if ns == model.SharedNamespaceName {
			within = s.namespaceNames()
		}
		if s.nodes.holds(within, name) || slices.ContainsFunc(within, func(ns string) bool { return l.applied[Key{"Node", ns, name}] != nil }) {
			continue
		}
		there := false
		for _, ns := range within {
			if lookups++; lookups > maxNodeLookups {
				return append(warnings, "the other nodes that it names were not looked for: too many have not enrolled"), nil
			}
			row, err := l.row(ctx, Key{"Node", ns, name})
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
		warnings = append(warnings, fmt.Sprintf("node %q does not exist (yet)%s", ref, s.nearestNode(within, name, l)))
	}
	return warnings, nil
}

// nearestNode suggests an existing node of the namespaces for a missing one.
func (s *Service) nearestNode(namespaces []string, name string, l *lookup) string {
	names := s.nodes.names(namespaces)
	for key := range l.applied {
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

func (s *Service) namespaceNames() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	names := make([]string, 0, len(s.namespaces))
	for name := range s.namespaces {
		names = append(names, name)
	}
	return names
}

// holds says whether a node of the name enrolled in one of the namespaces.
func (x *nodeIndex) holds(namespaces []string, name string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.ContainsFunc(namespaces, func(ns string) bool { _, ok := x.keys[Key{"Node", ns, name}]; return ok })
}

func (x *nodeIndex) names(namespaces []string) (names []string) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for key := range x.keys {
		if slices.Contains(namespaces, key.Namespace) {
			names = append(names, key.Name)
		}
	}
	return names
}
