package event

import (
	"sync"

	"github.com/muster-fleet/muster/internal/model"
)

// places says in which partition a node is: an index beside the partitions, for
// those who know only the node's number.
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
