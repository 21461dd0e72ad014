package routing

import (
	"cmp"
	"context"
	"fmt"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

func registerHandlers(at subject) {
	op.Handle(at, op.Get("listDeliveries", "/api/v1/problems/{id}/deliveries", "problems", "Who was told of it"), access.On(access.Read, "problem"), (*request).listDeliveries)
	const one = "/api/v1/handlers/{namespace}/{name}"
	op.Handle(at, op.Post("testHandler", one+"/test", "handlers", "Send a test message now, and say what was sent and answered", model.NotFound), access.On(access.Operate, "Handler"), (*request).testHandler)
	op.Handle(at, op.Get("listDeadLetters", one+"/dead", "handlers", "Messages that were given up, newest first", model.NotFound), access.On(access.Read, "Handler"), (*request).deadLetters)
	op.Handle(at, op.Post("replayHandler", one+"/replay", "handlers", "Send messages again that were given up", model.NotFound, model.Limited), access.On(access.Operate, "Handler"), (*request).replayHandler)
}

// declaredHandler returns a handler as it is declared. Its dead letters may outlive it.
func (s *request) declaredHandler(ctx context.Context, in op.NamedPath) (history.HandlerRef, *model.HandlerSpec, error) {
	key := intent.Key{Kind: "Handler", Namespace: in.Namespace, Name: in.Name}
	r, err := s.Intent.Get(ctx, key)
	if err != nil {
		return history.HandlerRef{}, nil, s.NotFound(ctx, err, key)
	}
	return history.HandlerRef{Namespace: in.Namespace, Name: in.Name}, r.Spec.(*model.HandlerSpec), nil
}

func (s *request) testHandler(ctx context.Context, in *struct {
	op.NamedPath
	Body v1.HandlerTest
}) (*op.Body[v1.HandlerTested], error) {
	ref, spec, err := s.declaredHandler(ctx, in.NamedPath)
	if err != nil {
		return nil, err
	}
	var node model.NodeID
	if in.Body.Node != "" {
		namespace, name := model.SplitRef(in.Namespace, in.Body.Node)
		var ok bool
		if node, ok = s.Directory.NodeByName(namespace, name); !ok {
			return nil, s.NoNode(ctx, namespace, name)
		}
	}
	if err := s.Record(ctx, fmt.Sprintf("a test of handler %s/%s", ref.Namespace, ref.Name)); err != nil {
		return nil, err
	}
	t, err := s.Handlers.Try(ctx, ref, spec, access.CallerOf(ctx).User, node)
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
	return op.Answer(out), nil
}

func (s *request) deadLetters(ctx context.Context, in *struct {
	op.NamedPath
	list.Where
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After string `query:"after" maxLength:"1024" doc:"The next of the page before."`
}) (*op.Body[v1.DeliveryList], error) {
	filter, err := list.ByRow(s.View, in.Where)
	if err != nil {
		return nil, err
	}
	found := false
	items, next, err := list.Page(s.View, list.Rows[history.Delivery]{
		Limit: in.Limit, After: in.After, Filter: filter,
		Read: func(behind list.Cursor, size int) ([]history.Delivery, error) {
			dead, err := s.History.DeadLetters(ctx, history.HandlerRef{Namespace: in.Namespace, Name: in.Name}, behind.Number, size)
			found = found || len(dead) > 0
			return dead, err
		},
		Cursor: func(d *history.Delivery) list.Cursor { return list.Cursor{Number: d.ID} },
	}, func(d *history.Delivery) (model.NodeID, v1.Delivery) {
		one := showDelivery(d)
		if n, err := handler.Decode(d.Payload); err == nil {
			one.Summary = n.Summary
		}
		return 0, one
	})
	if err == nil && !found {
		_, _, err = s.declaredHandler(ctx, in.NamedPath)
	}
	return op.Answer(v1.DeliveryList{Items: items, Next: next}), err
}

func (s *request) replayHandler(ctx context.Context, in *struct {
	op.NamedPath
	Body v1.HandlerReplay
}) (*op.Body[v1.HandlerReplayed], error) {
	ref, _, err := s.declaredHandler(ctx, in.NamedPath)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("a replay of dead letters of handler %s/%s", ref.Namespace, ref.Name)
	if in.Body.Message != "" {
		what += ": " + in.Body.Message
	}
	if err := s.Record(ctx, what); err != nil {
		return nil, err
	}
	done, err := s.Handlers.Replay(ctx, ref, history.Revival{IDs: in.Body.IDs, Ended: in.Body.Ended, Limit: cmp.Or(in.Body.Limit, 1000)})
	if err != nil {
		return nil, err
	}
	return op.Answer(v1.HandlerReplayed{Sent: done.Sent, Over: done.Over, More: done.More}), nil
}
