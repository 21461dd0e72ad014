package metric

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// seriesRefusals has the namespaces whose limit of series refused values since the last report. It is no part of the
// view's state, because the series store decides. Any goroutine may call its methods.
type seriesRefusals struct {
	mu    sync.Mutex
	nodes map[string]model.NodeID // the last node by namespace; zero: samples of remote write or of rules
}

// add records that the limit of a namespace refused a value of a node.
func (r *seriesRefusals) add(namespace string, node model.NodeID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes == nil {
		r.nodes = map[string]model.NodeID{}
	}
	r.nodes[namespace] = node
}

// drain returns and removes the recorded namespaces with their last nodes.
func (r *seriesRefusals) drain() map[string]model.NodeID {
	r.mu.Lock()
	defer r.mu.Unlock()
	nodes := r.nodes
	r.nodes = nil
	return nodes
}

// refusalPeriod is the pause between two reports of refused series.
const refusalPeriod = time.Second

// ReportRefusedSeries calls a function until ctx ends, with each namespace whose limit of series refused values. It
// passes the last node, or zero for samples. It reports each namespace at most once a second.
func (v *View) ReportRefusedSeries(ctx context.Context, report func(namespace string, node model.NodeID)) error {
	for pause.For(ctx, refusalPeriod) == nil {
		for namespace, node := range v.refusals.drain() {
			report(namespace, node)
		}
	}
	return nil
}

// isSeriesRefused reports whether the limit of the namespace refused the series of an item's last number. Items whose
// values are texts or are not stored may have an older refusal.
func (u *templateState) isSeriesRefused(i int) bool {
	s := &u.slots[i]
	return s.series.IsRefused() && s.value.Kind() != item.TextValue && !u.Items[i].NoHistory
}

// refusedSeriesReason explains why the store refuses the numbers of a node's item, and names the limit to raise.
func (v *View) refusedSeriesReason(node model.NodeID) string {
	_, namespace := v.opts.Series.Names(node)
	return fmt.Sprintf("its numbers are not stored: namespace %s has its limit of series (spec.limits.series)", namespace)
}
