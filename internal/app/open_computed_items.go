package app

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/storage"

	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/computed"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/version"
	"github.com/muster-fleet/muster/internal/wire"
)

// openComputedItems returns a function to open the engine of items that the server computes from other values.
// Such items are computed over several nodes, or by the server about itself.
func openComputedItems(s *Server) func(context.Context) error {
	return func(context.Context) error {
		s.computed = computed.New(computed.Options{
			Templates: func() []*directory.Unit { return directory.UnitsOf(s.directory, "Template") }, Directory: s.directory,
			Series: func(namespace string) storage.Queryable { return view.SeriesIn(s.series, namespace) },
			Server: computed.Server{
				Version: version.Get().Version, Started: s.started, Values: func() uint64 { return s.metrics.Counts().Values },
				Queued: s.queuedCommits, EachItem: s.metrics.EachItem, Triggers: s.metrics.CountTriggers, Available: s.keepaliveStatus,
			},
			Record: s.recordValues, Now: s.now, Log: s.log,
		})
		s.registerTask(back, "computed items", s.computed.Run)
		return nil
	}
}

// maxDeferredWait bounds the time that computed items of all nodes wait for slow scripts of a node that has some of them.
const maxDeferredWait = time.Second

// recordValues appends computed values to the journal, and waits until the metric view has applied the values. Those that their
// nodes defer for longer are applied later.
func (p *pipeline) recordValues(ctx context.Context, entries []journal.Entry) error {
	if err := p.recorder.RecordAndApply(ctx, entries); err != nil {
		return err
	}
	nodes := make(map[model.NodeID]model.Partition, len(entries))
	for i := range entries {
		var r wire.Record
		if err := r.Decode(entries[i].Data); err != nil {
			return err
		}
		nodes[r.Node] = model.Partition(entries[i].Section)
	}
	limited, cancel := context.WithTimeout(ctx, maxDeferredWait)
	defer cancel()
	if err := p.metrics.WaitDeferred(limited, nodes); err != nil && ctx.Err() != nil {
		return err
	}
	return nil
}

// queuedCommits returns the number of journal commits whose item values wait for a worker.
func (p *pipeline) queuedCommits() (n int) {
	for _, w := range p.view.WorkerLoads() {
		n += w.Queued
	}
	return n
}

// keepaliveStatus returns the status of a node's keepalive event, which shows whether its agent is alive. If
// the node has no keepalive, ok is false.
func (p *pipeline) keepaliveStatus(node model.NodeID) (status model.Status, ok bool) {
	state, ok := p.view.Get(node, model.CheckSource(model.KeepaliveCheck))
	return state.Status, ok
}
