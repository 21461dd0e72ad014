package compliance

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
)

// RunChange names a directive on a node whose run counts otherwise than before. The zero Directive means all directives of the node.
type RunChange struct {
	Node      model.NodeID
	Directive model.UnitID
}

// maxChanges bounds the changes that a partition keeps for TakeChanges, until all its nodes count as changed.
const maxChanges = 1024

// changeList has the changes of a partition since TakeChanges.
type changeList struct {
	list     []RunChange
	overflow bool
}

// add adds a change.
func (c *changeList) add(node model.NodeID, directive model.UnitID) {
	switch {
	case c.overflow:
	case len(c.list) == maxChanges:
		c.list, c.overflow = nil, true
	default:
		c.list = append(c.list, RunChange{node, directive})
	}
}

// TakeChanges returns the runs that changed since the last call. It leaves out new runs that are equal to those before them and came in time.
// The caller judges the runs at the time now or before.
func (v *View) TakeChanges(now time.Time) (list []RunChange) {
	for i := range v.partitions {
		p := &v.partitions[i]
		p.Lock()
		list = append(list, p.changes.list...)
		if p.changes.overflow {
			for _, n := range p.Order() {
				list = append(list, RunChange{Node: p.Node(n).ID})
			}
		}
		p.changes = changeList{list: p.changes.list[:0]}
		p.taken = max(p.taken, now.UnixNano())
		p.Unlock()
	}
	return list
}

// maybeOverdue is a quick test before the exact one: false means that no component of the run is overdue at a time (Unix ns). It assumes that nobody judged the run
// later than at that time: the view may lag behind the clock, and the clock may be set back, so that the next run is older than a judgement.
func (r *Run) maybeOverdue(d *model.DirectiveDefinition, until int64) bool {
	return d.Cron != "" || until-r.Executed > int64(max(d.Interval, d.Heartbeat)+policy.Grace/2)
}
