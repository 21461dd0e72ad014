package schedule

import (
	"container/heap"
	"time"

	"github.com/muster-fleet/muster/internal/when"
)

// phase returns the offset of a check in its interval; runs for proxy nodes are spread, too.
func (s *Scheduler) phase(k Key, interval time.Duration) time.Duration {
	node := s.cfg.Node
	for i := range 4 {
		node[i] ^= byte(k.ProxyNode >> (8 * i))
	}
	return when.Phase(node, k.Check, interval)
}

// dueHeap orders entries by when they are due.
type dueHeap []*entry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *dueHeap) Push(x any) {
	e := x.(*entry)
	e.index = len(*h)
	*h = append(*h, e)
}
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.index = -1
	return e
}

var _ heap.Interface = (*dueHeap)(nil)
