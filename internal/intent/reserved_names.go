package intent

import (
	"context"
	"sync"

	"github.com/muster-fleet/muster/internal/model"
)

// reservedNames are the names of nodes that trusted groups and checks with secrets list. A machine that joins gets
// none of them while no node has it (after a deletion): its chosen name would bring it into the group.
type reservedNames struct {
	mu     sync.Mutex
	listed map[Key][]Key // by group or check; a node of any namespace has none
	count  map[Key]int
}

func newReservedNames() reservedNames {
	return reservedNames{listed: map[Key][]Key{}, count: map[Key]int{}}
}

// indexGroup reserves the nodes that a trusted group lists.
func (r *repository) indexGroup(row Row) error {
	resource, err := r.decode(row)
	if err != nil {
		return err
	}
	var refs []string
	if spec := resource.Spec.(*model.GroupSpec); spec.Trusted {
		refs = spec.Nodes
	}
	r.reserved.set(row.Key, nodeKeys(row.Namespace, refs))
	return nil
}

// indexCheck reserves the nodes that a check with secrets lists.
func (r *repository) indexCheck(row Row) error {
	if !namesSecrets(row) {
		r.reserved.set(row.Key, nil)
		return nil
	}
	resource, err := r.decode(row)
	if err != nil {
		return err
	}
	var refs []string
	if spec := resource.Spec.(*model.CheckSpec); len(spec.Secrets) > 0 && spec.Targets != nil {
		refs = spec.Targets.Nodes
	}
	r.reserved.set(row.Key, nodeKeys(row.Namespace, refs))
	return nil
}

// nodeKeys returns the keys of the nodes that a resource of a namespace lists.
func nodeKeys(namespace string, refs []string) (names []Key) {
	for _, ref := range refs {
		ns, name := model.SplitRef(namespace, ref)
		if ns == model.SharedNamespaceName {
			ns = ""
		}
		names = append(names, Key{"Node", ns, name})
	}
	return names
}

// set replaces the names that a group or check lists; nil: none.
func (t *reservedNames) set(group Key, names []Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range t.listed[group] {
		if t.count[name]--; t.count[name] == 0 {
			delete(t.count, name)
		}
	}
	delete(t.listed, group)
	if len(names) == 0 {
		return
	}
	t.listed[group] = names
	for _, name := range names {
		t.count[name]++
	}
}

// contains reports whether a trusted group or a check with secrets lists a node of the name.
func (t *reservedNames) contains(namespace, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count[Key{"Node", namespace, name}]+t.count[Key{"Node", "", name}] > 0
}

// isTrustedNode reports whether a node is in a trusted group, by its name or by its properties. On an error nobody may become the node.
func (s *Enrolment) isTrustedNode(ctx context.Context, node model.NodeID, namespace, name string) (bool, error) {
	if s.reserved.contains(namespace, name) {
		return true, nil
	}
	if s.opts.Trusted == nil {
		return false, nil
	}
	group, err := s.opts.Trusted(ctx, node)
	return group != "", err
}
