package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/react"
	"github.com/muster-fleet/muster/internal/store/history"
)

// Handlers is what people do with handlers by hand: the reactor.
type Handlers interface {
	Try(ctx context.Context, handler history.HandlerRef, spec *model.HandlerSpec, by string, node model.NodeID) (react.Trial, error)
	Replay(ctx context.Context, handler history.HandlerRef, q history.Revival) (react.Replayed, error)
}

func (s *server) handlerRoutes() {
	const one = "/api/v1/handlers/{namespace}/{name}"
	handle(s, withErrors(operation("testHandler", http.MethodPost, one+"/test", "handlers", "Send a test message now, and say what was sent and answered"), model.NotFound), access.On(access.Operate, "Handler"), (*server).testHandler)
	handle(s, withErrors(operation("listDeadLetters", http.MethodGet, one+"/dead", "handlers", "Messages that were given up, newest first"), model.NotFound), access.On(access.Read, "Handler"), (*server).deadLetters)
	handle(s, withErrors(operation("replayHandler", http.MethodPost, one+"/replay", "handlers", "Send messages again that were given up"), model.NotFound, model.Limited), access.On(access.Operate, "Handler"), (*server).replayHandler)
}

// handlerThere is the handler as it is declared; its dead letters may outlive it.
func (s *server) handlerThere(ctx context.Context, in NodePath) (history.HandlerRef, *model.HandlerSpec, error) {
	key := intent.Key{Kind: "Handler", Namespace: in.Namespace, Name: in.Name}
	r, err := s.Intent.Get(ctx, key)
	if err != nil {
		return history.HandlerRef{}, nil, s.notThere(ctx, err, key)
	}
	return history.HandlerRef{Namespace: in.Namespace, Name: in.Name}, r.Spec.(*model.HandlerSpec), nil
}

func (s *server) testHandler(ctx context.Context, in *struct {
	NodePath
	Body v1.HandlerTest
}) (*body[v1.HandlerTested], error) {
	ref, spec, err := s.handlerThere(ctx, in.NodePath)
	if err != nil {
		return nil, err
	}
	var node model.NodeID
	if in.Body.Node != "" {
		namespace, name := model.SplitRef(in.Namespace, in.Body.Node)
		var ok bool
		if node, ok = s.Directory.NodeByName(namespace, name); !ok {
			return nil, s.noNode(ctx, namespace, name)
		}
	}
	if err := s.record(ctx, fmt.Sprintf("a test of handler %s/%s", ref.Namespace, ref.Name)); err != nil {
		return nil, err
	}
	t, err := s.Handlers.Try(ctx, ref, spec, callerOf(ctx).User, node)
	if err != nil {
		return nil, err
	}
	out := v1.HandlerTested{Outcome: "taken", Sent: t.Sent, Answer: t.Answer, Seconds: t.Took.Seconds()}
	if t.Err != nil {
		out.Outcome, out.Error = "retried", t.Err.Error()
		if t.Final {
			out.Outcome = "final"
		}
	}
	return &body[v1.HandlerTested]{out}, nil
}

// record keeps who did what by hand, before it is done.
func (s *server) record(ctx context.Context, what string) error {
	if err := s.Intent.RecordRun(ctx, author(ctx, what)); err != nil {
		s.Logger.Error("what is done by hand cannot be recorded, and is not done", "what", what, "err", err)
		return model.Errorf(model.Unavailable, "%s cannot be recorded now, and is not done", what).WithHint("the server's log says why; try again")
	}
	s.Logger.Info("by hand", "user", callerOf(ctx).User, "from", callerOf(ctx).whence, "what", what)
	return nil
}

// beginRecord keeps who begins what by hand, before it is done; ended keeps what became of it.
func (s *server) beginRecord(ctx context.Context, what, picked, note string) (ended func(came string), err error) {
	end, err := s.Intent.BeginRun(ctx, author(ctx, what), picked, note)
	if err != nil {
		s.Logger.Error("what is done by hand cannot be recorded, and is not done", "what", what, "err", err)
		return nil, model.Errorf(model.Unavailable, "%s cannot be recorded now, and is not done", what).WithHint("the server's log says why; try again")
	}
	s.Logger.Info("by hand", "user", callerOf(ctx).User, "from", callerOf(ctx).whence, "what", what+": "+picked+note)
	return func(came string) {
		if err := end(came); err != nil {
			s.Logger.Error("what became of what was done by hand cannot be recorded; the next start says that its end is not known", "what", what, "came", came, "err", err)
		}
	}, nil
}

func (s *server) deadLetters(ctx context.Context, in *struct {
	NodePath
	WhereInput
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After string `query:"after" maxLength:"1024" doc:"The next of the page before."`
}) (*body[v1.DeliveryList], error) {
	n, err := s.narrowRows(in.WhereInput)
	if err != nil {
		return nil, err
	}
	before := int64(0)
	if in.After != "" {
		place, err := s.after(in.After)
		if err != nil {
			return nil, err
		}
		if before, err = strconv.ParseInt(place, 10, 64); err != nil {
			return nil, noToken()
		}
	}
	found := false
	read := func(behind *history.Delivery, size int) ([]history.Delivery, error) {
		if behind != nil {
			before = behind.ID
		}
		list, err := s.History.DeadLetters(ctx, history.HandlerRef{Namespace: in.Namespace, Name: in.Name}, before, size)
		found = found || len(list) > 0
		return list, err
	}
	items, behind, err := paged(s, n, in.Limit, read, func(d *history.Delivery) (model.NodeID, v1.Delivery) {
		one := deliveryOf(d)
		if n, err := handler.Decode(d.Payload); err == nil {
			one.Summary = n.Summary
		}
		return 0, one
	})
	if err != nil {
		return nil, err
	}
	if !found {
		if _, _, err := s.handlerThere(ctx, in.NodePath); err != nil {
			return nil, err
		}
	}
	out := v1.DeliveryList{Items: items}
	if behind != nil {
		out.Next = s.next(strconv.FormatInt(behind.ID, 10))
	}
	return &body[v1.DeliveryList]{out}, nil
}

func (s *server) replayHandler(ctx context.Context, in *struct {
	NodePath
	Body v1.HandlerReplay
}) (*body[v1.HandlerReplayed], error) {
	ref, _, err := s.handlerThere(ctx, in.NodePath)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("a replay of dead letters of handler %s/%s", ref.Namespace, ref.Name)
	if in.Body.Message != "" {
		what += ": " + in.Body.Message
	}
	if err := s.record(ctx, what); err != nil {
		return nil, err
	}
	done, err := s.Handlers.Replay(ctx, ref, history.Revival{IDs: in.Body.IDs, Ended: in.Body.Ended, Limit: cmp.Or(in.Body.Limit, 1000)})
	if err != nil {
		return nil, err
	}
	return &body[v1.HandlerReplayed]{v1.HandlerReplayed{Sent: done.Sent, Over: done.Over, More: done.More}}, nil
}
