// Package events answers about events: list, watch, actions on one and on many. It also turns the
// view's states into the API's events for other subjects (Show), and parameters into queries (Query).
//
// Goroutines: those of watches and of bulk actions, which end with their request. Locks, each
// taken alone: watchLimit.mu, skippedEvents.mu.
//
// Start reading at Register.
package events

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Actions writes a person's action on an event into the journal; it returns once the action is
// durable and in the view.
type Actions interface {
	Act(ctx context.Context, node model.NodeID, action wire.Action) error
}

// Options are the surroundings of events.
type Options struct {
	Actions Actions
}

// request is one request about events.
type request struct {
	op.Request
	Options
	watches *watchLimit
	open    prometheus.Gauge // watches
}

type subject = op.Subject[*request]

// Register adds the operations of this subject.
func Register(r *op.Routes, o Options) {
	watches, open := &watchLimit{}, prometheus.NewGauge(prometheus.GaugeOpts{Name: "muster_api_watches", Help: "Watches that are open."})
	r.Metrics.Register(open)
	at := op.For(r, func(q op.Request) *request { return &request{q, o, watches, open} })
	registerEvents(at)
	registerBulk(at)
}
