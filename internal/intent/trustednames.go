package intent

import (
	"context"
	"sync"

	"github.com/muster-fleet/muster/internal/model"
)

// trustedNames are the names of nodes that trusted groups list, and checks with secrets. No machine that joins is
// given one of them while no node has it (one that was listed was deleted or forgotten):
// it would be in the group because of the name that it chose.
type trustedNames struct {
	mu     sync.Mutex
	listed map[Key][]Key // by group or check; a node of any namespace has none
	count  map[Key]int
}

func newTrustedNames() trustedNames {
	return trustedNames{listed: map[Key][]Key{}, count: map[Key]int{}}
}

func (s *Service) tookGroup(row Row) error {
	r, err := s.decode(row)
	if err != nil {
		return err
	}
	var refs []string
	if spec := r.Spec.(*model.GroupSpec); spec.Trusted {
		refs = spec.Nodes
	}
	s.trusted.set(row.Key, namesOf(row.Namespace, refs))
	return nil
}

// namesOf are the nodes that a resource of a namespace lists.
func namesOf(namespace string, refs []string) (names []Key) {
	for _, ref := range refs {
		ns, name := model.SplitRef(namespace, ref)
		if ns == model.SharedNamespaceName {
			ns = ""
		}
		names = append(names, Key{"Node", ns, name})
	}
	return names
}

// set replaces what a group or check lists; nil: nothing.
func (t *trustedNames) set(group Key, names []Key) {
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

// holds says whether a trusted group, or a check with secrets, lists a node of the name.
func (t *trustedNames) holds(namespace, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count[Key{"Node", namespace, name}]+t.count[Key{"Node", "", name}] > 0
}

// trustedNode says whether a trusted group holds a node, by its name or because of what it
// is. An error where that is not known: then nobody becomes the node.
func (s *Service) trustedNode(ctx context.Context, node model.NodeID, namespace, name string) (bool, error) {
	if s.trusted.holds(namespace, name) {
		return true, nil
	}
	if s.opts.Trusted == nil {
		return false, nil
	}
	group, err := s.opts.Trusted(ctx, node)
	return group != "", err
}
