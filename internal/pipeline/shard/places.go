package shard

import (
	"sync"

	"github.com/muster-fleet/muster/internal/model"
)

// places maps nodes to partitions, for callers that know only the node's number.
type places struct {
	mu sync.RWMutex
	at map[model.NodeID]model.Partition
}

func (x *places) find(node model.NodeID) (model.Partition, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	p, ok := x.at[node]
	return p, ok
}

func (x *places) set(node model.NodeID, p model.Partition) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.at == nil {
		x.at = map[model.NodeID]model.Partition{}
	}
	x.at[node] = p
}

func (x *places) remove(node model.NodeID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.at, node)
}

// Partition returns a partition by its number.
func (s *Shard) Partition(id model.Partition) *Partition { return s.partitions[id] }

// PartitionOf finds the partition of a known node, nil for others. The node may be removed
// before the caller holds the partition's mutex.
func (s *Shard) PartitionOf(node model.NodeID) *Partition {
	if p, ok := s.places.find(node); ok {
		return s.partitions[p]
	}
	return nil
}

// EachPlace calls fn with the known ones among the nodes, in their order, and their
// partitions. fn must not call the shard.
func (s *Shard) EachPlace(nodes []model.NodeID, fn func(model.NodeID, model.Partition)) {
	s.places.mu.RLock()
	defer s.places.mu.RUnlock()
	for _, n := range nodes {
		if p, ok := s.places.at[n]; ok {
			fn(n, p)
		}
	}
}

// Nodes is how many nodes the shard knows.
func (s *Shard) Nodes() int {
	s.places.mu.RLock()
	defer s.places.mu.RUnlock()
	return len(s.places.at)
}
