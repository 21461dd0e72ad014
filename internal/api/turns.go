package api

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/danielgtaylor/huma/v2"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
)

// turns bounds what many requests of one kind cost at once: few are at work, few more
// wait with nothing but their connection, the others are refused.
type turns struct {
	places  chan struct{}
	waiting chan struct{} // those at work included
	passed  atomic.Uint64
	refused atomic.Uint64
}

func newTurns(name string, places, waiting int, r *queue.Registry) *turns {
	t := &turns{places: make(chan struct{}, places), waiting: make(chan struct{}, places+waiting)}
	r.Register(name, func() queue.Info {
		return queue.Info{Name: name, Capacity: int64(cap(t.waiting)), Depth: int64(len(t.waiting)), Unit: "items", Policy: queue.Drop,
			Passed: t.passed.Load(), Overflow: t.refused.Load()}
	})
	return t
}

// enter waits for a place, which leave gives back; false: too many wait already, or
// ctx ended.
func (t *turns) enter(ctx context.Context) (leave func(), ok bool) {
	select {
	case t.waiting <- struct{}{}:
	default:
		t.refused.Add(1)
		return nil, false
	}
	select {
	case t.places <- struct{}{}:
		t.passed.Add(1)
		return func() { <-t.places; <-t.waiting }, true
	case <-ctx.Done():
		<-t.waiting
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
