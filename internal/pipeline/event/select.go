package event

import (
	"cmp"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// query is a Query made ready: sorted, with the place to go on from.
type query struct {
	Query
	nodes [model.Partitions][]model.NodeID // wanted ones, sorted; only if Nodes is not nil
	from  place
}

// place is a key in list order. A page goes on behind it.
type place struct {
	severity  int // from Disaster down
	partition int
	node      model.NodeID
	check     model.CheckID
}

func (v *View) compile(q Query) (query, error) {
	c := query{Query: q, from: place{severity: int(model.Disaster)}}
	if q.After != "" {
		from, err := parseToken(q.After, v.Log())
		if err != nil {
			return c, err
		}
		c.from = from
	}
	if c.Limit <= 0 {
		c.Limit = DefaultLimit
	}
	c.Limit = min(c.Limit, MaxLimit)
	c.Namespaces = sorted(q.Namespaces)
	c.Checks = sorted(q.Checks)
	if q.Nodes != nil {
		c.Nodes = sorted(q.Nodes)
		v.EachPlace(c.Nodes, func(n model.NodeID, p model.Partition) { c.nodes[p] = append(c.nodes[p], n) })
	}
	return c, nil
}

func sorted[T cmp.Ordered](list []T) []T {
	if len(list) == 0 {
		return list
	}
	for i := 1; i < len(list); i++ {
		if list[i-1] >= list[i] {
			list = slices.Clone(list)
			slices.Sort(list)
			return slices.Compact(list)
		}
	}
	return list
}

func (q *query) admitsNode(id model.NodeID) bool {
	if q.Nodes == nil {
		return true
	}
	_, ok := slices.BinarySearch(q.Nodes, id)
	return ok
}

func (q *query) admitsNamespace(ns model.NamespaceID) bool {
	if len(q.Namespaces) == 0 {
		return true
	}
	_, ok := slices.BinarySearch(q.Namespaces, ns)
	return ok
}

func (q *query) admitsCheck(check model.CheckID) bool {
	if len(q.Checks) == 0 {
		return true
	}
	_, ok := slices.BinarySearch(q.Checks, check)
	return ok
}

// admitsIDs checks the ids of a state, which stay the same while an event waits for its reader.
func (q *query) admitsIDs(p *partition, s *slot) bool {
	n := p.Node(s.node)
	return q.admitsNode(n.ID) && q.admitsNamespace(n.Namespace) && q.admitsCheck(s.check)
}

// admitsState checks the status of a state, which a list finds by its indexes.
func (q *query) admitsState(s *State) bool {
	return (!q.Problems || s.Problem != nil) &&
		(len(q.Statuses) == 0 || slices.Contains(q.Statuses, model.Status(s.Status)))
}
