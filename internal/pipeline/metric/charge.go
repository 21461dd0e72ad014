package metric

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
)

// nodeCharge measures the time of the values of one node after the other in a commit. Times are no part of the view's state.
type nodeCharge struct {
	charge func(model.NodeID, time.Duration) // nil: no node is charged
	node   uint32                            // whose values are being applied; NoNode: none
	id     model.NodeID
	since  time.Time
}

// measure begins to measure the time of a node's values. It does nothing if it measures the node already.
func (c *nodeCharge) measure(n uint32, id model.NodeID) {
	if c.node != n && c.charge != nil {
		c.node, c.id, c.since = n, id, time.Now()
	}
}

// end charges the time since measure to the node, if further commits wait for the worker. Call it before the values of another node, and
// before the partition ends.
func (c *nodeCharge) end(w *shard.Worker) {
	if c.node == shard.NoNode {
		return
	}
	if w.HasBacklog() {
		c.charge(c.id, time.Since(c.since))
	}
	c.node = shard.NoNode
}
