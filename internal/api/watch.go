package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// watchBeat keeps a quiet watch open through proxies, and is when its token is looked at
// again; it is with every event, too.
const watchBeat = 15 * time.Second

// watchWrite is how long a reader may block one write before it is cut off.
const watchWrite = 10 * time.Second

func (s *server) watchRoute() {
	op := operation("watchEvents", http.MethodGet, "/api/v1/events/watch", "events", "Stream events as they change (Server-Sent Events)")
	op.Responses = map[string]*huma.Response{"200": {
		Description: "Each message's data is an event as JSON. A slow reader gets the newest state of each event, not every one; when the stream ends, list again.",
		Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}},
	}}
	handle(s, withErrors(op, model.NotFound, model.Limited), access.On(access.Read, "event"), (*server).watchEvents)
}

func (s *server) watchEvents(ctx context.Context, in *FilterInput) (*huma.StreamResponse, error) {
	q, err := s.query(ctx, in)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		leave, err := s.watches.enter(callerOf(ctx).Token)
		if err != nil {
			s.metrics.refused.WithLabelValues("watches").Inc()
			writeError(w, err)
			return
		}
		defer leave()
		states, werr := s.Events.Watch(ctx, q)
		if werr != nil {
			refused := model.Errorf(model.Unavailable, "the watch cannot begin now")
			_ = errors.As(werr, &refused)
			s.metrics.refused.WithLabelValues("watches").Inc()
			writeError(w, refused)
			return
		}
		s.metrics.watches.Inc()
		defer s.metrics.watches.Dec()
		if err := s.stream(ctx, w, r.Header.Get("Authorization"), states); err != nil && ctx.Err() == nil {
			s.Logger.Debug("watch ended", "err", err)
		}
	}}, nil
}

// stream writes until the states end, the reader is gone or the token is not valid
// any more.
func (s *server) stream(ctx context.Context, w http.ResponseWriter, authorization string, states <-chan event.State) error {
	send := newEventStream(w).write
	if err := send(": watching\n\n"); err != nil {
		return err
	}
	beat := time.NewTicker(watchBeat)
	defer beat.Stop()
	valid := func() bool {
		c := callerOf(ctx)
		now, err := s.Access.Authenticate(strings.TrimPrefix(authorization, "Bearer "))
		return err == nil && now.Equal(&c.Grants)
	}
	const revoked = "event: end\n: the token is not valid any more\n\n"
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
			if !valid() {
				return send(revoked)
			}
			if err := send(":\n\n"); err != nil {
				return err
			}
		case st, ok := <-states:
			if !ok {
				return send("event: end\n: too slow, list again\n\n")
			}
			if !valid() {
				return send(revoked)
			}
			data, err := json.Marshal(s.event(&st))
			if err != nil {
				return fmt.Errorf("encode event: %w", err)
			}
			if err := send("event: event\ndata: " + string(data) + "\n\n"); err != nil {
				return err
			}
		}
	}
}
