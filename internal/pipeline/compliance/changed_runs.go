package compliance

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
)

// RunChange names a directive on a node whose compliance result changed. The zero Directive means all directives of
// the node.
type RunChange struct {
	Node      model.NodeID
	Directive model.UnitID
}

// maxChanges bounds the list of changed runs in a partition. When the list is full, all nodes of the partition count
// as changed.
const maxChanges = 1024

// changeList has the pairs of node and directive whose compliance result changed since the last call of
// TakeChanges.
type changeList struct {
	list     []RunChange
	overflow bool
}

// add adds a pair of node and directive to the list, because the compliance result has changed.
func (c *changeList) add(node model.NodeID, directive model.UnitID) {
	switch {
	case c.overflow:
	case len(c.list) == maxChanges:
		c.list, c.overflow = nil, true
	default:
		c.list = append(c.list, RunChange{node, directive})
	}
}

// TakeChanges returns the pairs of node and directive whose compliance result changed since its last call. It
// leaves out new runs that are equal to those before them and came in time. The caller judges the runs at the
// time now or before.
func (v *View) TakeChanges(now time.Time) (list []RunChange) {
	for i := range v.partitions {
		p := &v.partitions[i]
		p.Lock()
		list = append(list, p.changes.list...)
		if p.changes.overflow {
			for _, n := range p.SortedNodes() {
				list = append(list, RunChange{Node: p.Node(n).ID})
			}
		}
		p.changes = changeList{list: p.changes.list[:0]}
		p.taken = max(p.taken, now.UnixNano())
		p.Unlock()
	}
	return list
}

// mayBeOverdue reports quickly, maybe too often true, whether a component of the run is overdue. False means
// that no component is overdue at the time until (Unix ns). The exact test is slower. It assumes that nobody
// judged the run later than at that time: the view may lag behind the clock, and the clock may be set back, so
// that the next run is older than a judgement.
func (r *Run) mayBeOverdue(d *model.DirectiveDefinition, until int64) bool {
	return d.Cron != "" || d.OneShot != nil || until-r.Executed > int64(max(d.Interval, d.Heartbeat)+policy.Grace/2)
}
