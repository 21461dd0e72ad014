package metric

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
)

// nodeTimer measures the processing time of each node's values in a commit. Times are no part of the view's
// state.
type nodeTimer struct {
	charge func(model.NodeID, time.Duration) // nil: no node is charged
	node   uint32                            // whose values are being applied; NoNode: none
	id     model.NodeID
	since  time.Time
}

// start begins to measure the processing time of a node's values. It does nothing if it measures the node
// already.
func (c *nodeTimer) start(n uint32, id model.NodeID) {
	if c.node != n && c.charge != nil {
		c.node, c.id, c.since = n, id, time.Now()
	}
}

// stop adds the measured time to the node's total, but only while further commits wait for the worker. Call it
// before the values of another node, and before the partition ends.
func (c *nodeTimer) stop(w *shard.Worker) {
	if c.node == shard.NoNode {
		return
	}
	if w.HasBacklog() {
		c.charge(c.id, time.Since(c.since))
	}
	c.node = shard.NoNode
}
