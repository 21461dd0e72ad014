// Package runs runs a check or a command on nodes when a person asks, and streams the answers. No
// node is asked before the whole request is valid (request.prepare) and recorded; execution.run
// then asks a bounded number of nodes at a time.
//
// Start reading at request.run.
package runs

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/wire"
)

// Runs are the runs of one request, at most one per node at a time (see muster.Runs). Close cancels
// those that have not ended.
type Runs interface {
	Ask(node model.NodeID, run wire.Run) error
	Wake() <-chan struct{}
	Next() (model.RunAnswer, bool)
	Forget(node model.NodeID)
	Close()
}

// Options are the surroundings of runs.
type Options struct {
	New func() Runs // for one request
}

// request is one request to run something.
type request struct {
	op.Request
	Options
	slots    *queue.Slots
	outcomes *prometheus.CounterVec
}

type subject = op.Subject[*request]

// Register adds the operations of this subject.
func Register(r *op.Routes, o Options) {
	slots := queue.NewSlots(r.Queues, "runs")
	outcomes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "muster_api_runs_total", Help: "Runs that people asked for (muster run), one for each node, by how they ended.",
	}, []string{"outcome"})
	r.Metrics.Register(outcomes)
	registerRun(op.For(r, func(q op.Request) *request { return &request{q, o, slots, outcomes} }))
}
