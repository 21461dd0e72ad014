package fleet

import (
	"cmp"
	"context"
	"slices"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

const (
	mostNodes     = 100_000 // whose groups one answer has
	groupsOfClass = 8       // that the file says at most: those with most nodes
)

// groups reads which groups each node is in.
func (r *reader) groups(ctx context.Context) error {
	return r.paced(ctx, func() error {
		list, err := r.api.Nodes.States(ctx, v1.NodeFilter{Namespace: r.o.Namespace, Limit: mostNodes})
		if err != nil {
			return err
		}
		for i := range list.Items {
			n := &list.Items[i]
			at, known := r.index[n.ID]
			if !known {
				continue // younger than the list of nodes
			}
			for _, g := range n.Groups {
				if g = full(n.Namespace, g); !everybody(g) {
					r.fleet.Nodes[at].Groups = append(r.fleet.Nodes[at].Groups, g)
				}
			}
		}
		return nil
	})
}

// groupsOf are those that at least half of a class's nodes are in: those that checks target first,
// then those with most nodes.
func (s *Shape) groupsOf(number int, of []int, nodes int) (list []string) {
	targeted := map[string]int{}
	for _, c := range s.fleet.Checks {
		for _, g := range c.Groups {
			targeted[g] = 1
		}
	}
	members := map[string]int{}
	for i := range s.fleet.Nodes {
		if n := &s.fleet.Nodes[i]; of[i] == number && !n.Left {
			for _, g := range n.Groups {
				members[g]++
			}
		}
	}
	for g, n := range members {
		if 2*n >= nodes {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(a, b string) int {
		return cmp.Or(cmp.Compare(targeted[b], targeted[a]), cmp.Compare(members[b], members[a]), cmp.Compare(a, b))
	})
	return list[:min(len(list), groupsOfClass)]
}

// inGroups is in how many groups the nodes are, and how many of those the file has.
func (s *Shape) inGroups() (all, kept int) {
	there := map[string]bool{}
	for i := range s.fleet.Nodes {
		if n := &s.fleet.Nodes[i]; !n.Left {
			for _, g := range n.Groups {
				there[g] = true
			}
		}
	}
	shared, _ := s.Scenario.Shared()
	return len(there), len(shared)
}
