package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
)

// turns bounds the cost of many requests of one kind: two are at work, few more
// wait with nothing but their connection, the others are refused.
type turns struct {
	places  chan struct{}
	waiting *queue.Slots // those at work included
}

func newTurns(name string, r *queue.Registry) *turns {
	return &turns{places: make(chan struct{}, 2), waiting: queue.NewSlots(r, name)}
}

// enter waits for a place, which leave gives back; false: too many wait already, or
// ctx ended.
func (t *turns) enter(ctx context.Context) (leave func(), ok bool) {
	if t.waiting.Enter(ctx) != nil {
		return nil, false
	}
	select {
	case t.places <- struct{}{}:
		return func() { <-t.places; t.waiting.Leave() }, true
	case <-ctx.Done():
		t.waiting.Leave()
		return nil, false
	}
}

// applyTurn lets two applies in at a time. It is a middleware, because huma reads the
// body after it: a body may have 32 MB.
func (s *server) applyTurn(ctx huma.Context, next func(huma.Context)) {
	leave, ok := s.applies.enter(ctx.Context())
	if !ok {
		s.metrics.refused.WithLabelValues("apply_queue").Inc()
		p := problem(model.Unavailable, "too many changes wait to be applied", "try again in a moment")
		ctx.SetHeader("Content-Type", p.ContentType(""))
		ctx.SetStatus(http.StatusServiceUnavailable)
		_ = huma.DefaultJSONFormat.Marshal(ctx.BodyWriter(), p)
		return
	}
	defer leave()
	next(ctx)
}
