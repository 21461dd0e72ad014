// Package routing answers about the way from a problem to people: handlers (test, dead letters,
// replay), deliveries of a problem, silences, and the route test.
//
// Start reading at Register.
package routing

import (
	"context"

	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/react"
	"github.com/muster-fleet/muster/internal/store/history"
)

// Handlers tests handlers and replays their dead letters (*react.Reactor).
type Handlers interface {
	Try(ctx context.Context, handler history.HandlerRef, spec *model.HandlerSpec, by string, node model.NodeID) (react.Trial, error)
	Replay(ctx context.Context, handler history.HandlerRef, q history.Revival) (react.Replayed, error)
}

// Options are the surroundings of routing.
type Options struct {
	Handlers Handlers
}

// request is one request about routing.
type request struct {
	op.Request
	Options
}

type subject = op.Subject[*request]

// Register adds the operations of this subject.
func Register(r *op.Routes, o Options) {
	at := op.For(r, func(q op.Request) *request { return &request{q, o} })
	registerHandlers(at)
	registerSilences(at)
	registerRouteTest(at)
}
