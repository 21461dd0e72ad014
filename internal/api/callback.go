package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/wire"
)

const callbackPath = "/callback/"

// maxCallback bounds what a service calls back with, in bytes, callbackWithin how long that may take.
const (
	maxCallback    = 1 << 20
	callbackWithin = 5 * time.Second
)

// callback answers /callback/NAMESPACE/HANDLER: a service that was told of problems says what somebody did there.
func (s *server) callback(r *http.Request, whence string) error {
	namespace, name, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, callbackPath), "/")
	var spec *model.HandlerSpec
	if ok {
		spec, ok = s.Directory.Handler(namespace, name)
	}
	if !ok || handler.CallbackSecret(spec).IsZero() {
		return model.Errorf(model.Unauthenticated, "no handler is called back here").WithHint("the path is %sNAMESPACE/HANDLER, of a handler with pagerduty.callback or opsgenie.callback: docs/handlers.md", callbackPath)
	}
	if r.Method != http.MethodPost {
		return model.Errorf(model.Invalid, "services call back by POST")
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxCallback+1))
	if err != nil {
		return model.Errorf(model.Invalid, "the request ended early: %w", err)
	}
	if len(text) > maxCallback {
		return model.Errorf(model.TooLarge, "more than %s in one request", model.Size(maxCallback))
	}
	secret, err := s.Secret(r.Context(), handler.CallbackSecret(spec))
	if err != nil {
		s.Logger.Error("the secret of a callback cannot be read", "handler", namespace+"/"+name, "err", err)
		return model.Errorf(model.Unavailable, "the secret of the handler cannot be read; the server's log says why")
	}
	called, err := handler.ReadCallback(spec, secret, r.Header, text)
	if err != nil || called.Verb == "" || called.Problem == "" {
		return err
	}
	n, err := s.called(r.Context(), history.HandlerRef{Namespace: namespace, Name: name}, called)
	s.Logger.Info("a service called back", "handler", namespace+"/"+name, "what", called.Verb, "by", called.By, "problem", called.Problem, "problems", n, "from", whence, "err", err)
	return err
}

// called does what somebody did elsewhere: to the open problems that the handler was told of under this id. What is so
// already, or over, stays as it is: what we tell a service comes back from it.
func (s *server) called(ctx context.Context, by history.HandlerRef, c handler.Callback) (n int, err error) {
	deliveries, err := s.History.Deliveries(ctx, c.Problem)
	if err != nil {
		return 0, err
	}
	var ids []string
	for _, d := range deliveries {
		if d.Handler == by && d.Problem == c.Problem {
			also, err := s.History.AlsoProblems(ctx, d.Key)
			if err != nil {
				return 0, err
			}
			ids = append(append(ids, d.Problem), also...)
		}
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		if meant, err := s.stillTold(ctx, by, id, c.Incident); err != nil {
			return n, err
		} else if !meant {
			continue
		}
		did, err := s.calledOf(ctx, id, c)
		if err != nil {
			return n, fmt.Errorf("%s problem %s: %w", c.Verb, id, err)
		}
		if did {
			n++
		}
	}
	return n, nil
}

// stillTold says whether a handler knows a problem by this id still: where an acknowledgement ended, another
// incident took the place of the one that it was told as, and what becomes of that matters no more.
func (s *server) stillTold(ctx context.Context, by history.HandlerRef, problem, incident string) (bool, error) {
	rows, err := s.History.EscalationsOf(ctx, problem)
	knows := false
	for _, e := range rows {
		for _, k := range e.Notified {
			if k.HandlerRef == by && k.Incident == incident {
				return true, nil
			}
			knows = knows || k.HandlerRef == by
		}
	}
	return !knows, err
}

func (s *server) calledOf(ctx context.Context, id string, c handler.Callback) (did bool, err error) {
	p, err := s.History.Problem(ctx, id)
	if said := (*model.Error)(nil); errors.As(err, &said) && said.Class == model.NotFound {
		return false, nil // forgotten by now
	}
	if err != nil {
		return false, err
	}
	st, ok := s.Events.Get(p.NodeID, p.Source.Check()) // nothing where the source is no check
	if !ok || st.Problem == nil || st.Problem.ID != id {
		return false, nil // closed
	}
	acked := st.Problem.Ack.Active(s.Now())
	if c.Verb == "acknowledge" && acked || c.Verb == "unacknowledge" && !acked {
		return false, nil
	}
	return true, s.Actions.Act(ctx, p.NodeID, wire.Action{Verb: c.Verb, Check: p.Source.Check(), By: c.By, Note: c.Note, Problem: id})
}
