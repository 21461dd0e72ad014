package events

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// WatchPath is the URL path of the stream of changed events.
const WatchPath = "/api/v1/events/watch"

// registerWatch registers the operation that streams changed events.
func registerWatch(at eventOperations) {
	watch := op.Get("watchEvents", WatchPath, "events", "Stream events as they change (Server-Sent Events)", model.NotFound, model.Limited)
	watch.Responses = op.StreamResponse("The data of each message is an event as JSON. A slow reader gets only the newest state of each event. After the end of the stream, list the events again.")
	op.Handle(at, watch, access.NeedOn(access.Read, "event"), (*eventRequest).watchEvents)
}

// watchEvents starts a stream of changed events that match a filter, within the user's limit of watches.
func (s *eventRequest) watchEvents(_ context.Context, in *Filter) (*huma.StreamResponse, error) {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		c := access.CallerOf(ctx)
		leave, ok := s.watches.Enter(c.Owner()) // before any work, because watches pass no other limit
		if !ok {
			s.CountRefusal("watches")
			op.WriteError(w, model.Errorf(model.Limited, "user %s has reached the limit of open watches per user", c.Owner()).
				WithHint("end another watch; watches by tokens that %s created count too: muster auth token list", c.Owner()))
			return
		}
		defer leave()
		states, err := s.startWatch(ctx, c.Owner(), in)
		if err != nil {
			s.WriteFailure(w, "watchEvents", err)
			return
		}
		s.openWatches.Inc()
		defer s.openWatches.Dec()
		if err := s.streamEvents(ctx, w, s.NewRightsCheck(r), states); err != nil && ctx.Err() == nil {
			s.Logger.Debug("watch ended", "err", err)
		}
	}}, nil
}

// startWatch returns a channel of changed events that match a filter. The conditions of all watches of a user take at
// most the time of one processor.
func (s *eventRequest) startWatch(ctx context.Context, user string, in *Filter) (<-chan event.State, error) {
	q, err := buildQuery(ctx, s.View, in, true)
	if err != nil {
		return nil, err
	}
	if match := q.Match; match != nil {
		q.Match = func(st *event.State) (bool, error) {
			leave, err := s.matches.Wait(ctx, user)
			if err != nil {
				return false, err
			}
			defer leave()
			return match(st)
		}
	}
	states, err := s.Events.Watch(ctx, q)
	if err != nil {
		s.CountRefusal("watches")
		if !errors.As(err, new(*model.Error)) {
			err = model.Errorf(model.Unavailable, "the server cannot start the stream of events now")
		}
	}
	return states, err
}

// streamEvents sends changed events to a client until the client disconnects or its token becomes invalid.
func (s *eventRequest) streamEvents(ctx context.Context, w http.ResponseWriter, allowed func() bool, states <-chan event.State) error {
	out := op.NewEventStream(w)
	if err := out.Write(": watching\n\n"); err != nil {
		return err
	}
	beat := time.NewTicker(op.StreamHeartbeatInterval)
	defer beat.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
			if !allowed() {
				return out.End(tokenEndedReason)
			}
			err = out.Write(":\n\n")
		case st, ok := <-states:
			switch {
			case !ok:
				return out.End("the reader is too slow: list the events again")
			case !allowed():
				return out.End(tokenEndedReason)
			}
			err = out.Send("event", ShowEvent(s.View, &st))
		}
		if err != nil {
			return err
		}
	}
}

const tokenEndedReason = "the token has expired or was deleted"
