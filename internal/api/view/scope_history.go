package view

import (
	"context"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

// scopedHistory is history within a scope.
type scopedHistory struct {
	all History
	*scope
}

var _ History = scopedHistory{}

func (h scopedHistory) Problems(ctx context.Context, q history.ProblemQuery) ([]history.Problem, error) {
	q.Namespaces = h.namespaces
	return h.all.Problems(ctx, q)
}

func (h scopedHistory) Entries(ctx context.Context, q history.EntryQuery) ([]history.Entry, error) {
	q.Namespaces = h.namespaces
	return h.all.Entries(ctx, q)
}

func (h scopedHistory) Marks(ctx context.Context, q history.EntryQuery) ([]history.Entry, error) {
	q.Namespaces = h.namespaces
	return h.all.Marks(ctx, q)
}

func (h scopedHistory) Messages(ctx context.Context, q history.MessageQuery) ([]history.Message, error) {
	q.Namespaces = h.namespaces
	return h.all.Messages(ctx, q)
}

// Problem answers about a problem of another namespace as about one that does not exist.
func (h scopedHistory) Problem(ctx context.Context, id string) (history.Problem, error) {
	p, err := h.all.Problem(ctx, id)
	if err == nil && !h.has(p.Namespace) {
		return history.Problem{}, history.ErrNoProblem(id)
	}
	return p, err
}

// visible reports whether a problem is in the scope.
func (h scopedHistory) visible(ctx context.Context, problem string) (bool, error) {
	_, err := h.Problem(ctx, problem)
	if model.ClassOf(err) == model.NotFound {
		return false, nil
	}
	return err == nil, err
}

func (h scopedHistory) Deliveries(ctx context.Context, problem string) ([]history.Delivery, error) {
	if ok, err := h.visible(ctx, problem); !ok {
		return nil, err
	}
	return h.all.Deliveries(ctx, problem)
}

func (h scopedHistory) EscalationsOf(ctx context.Context, problem string) ([]history.Escalation, error) {
	if ok, err := h.visible(ctx, problem); !ok {
		return nil, err
	}
	return h.all.EscalationsOf(ctx, problem)
}

// AlsoProblems serves callbacks, which have no caller.
func (h scopedHistory) AlsoProblems(context.Context, string) ([]string, error) { return nil, nil }

func (h scopedHistory) CountProblems(ctx context.Context, namespace string, t time.Time) (opened, closed int, err error) {
	for _, one := range h.namespaces {
		if namespace != "" && namespace != one {
			continue
		}
		o, c, err := h.all.CountProblems(ctx, one, t)
		if err != nil {
			return 0, 0, err
		}
		opened, closed = opened+o, closed+c
	}
	return opened, closed, nil
}

func (h scopedHistory) Oldest(ctx context.Context) (time.Time, error) { return h.all.Oldest(ctx) }

func (h scopedHistory) Unsent(ctx context.Context) ([]history.Unsent, error) {
	list, err := h.all.Unsent(ctx)
	return slices.DeleteFunc(list, func(u history.Unsent) bool { return !h.has(u.Handler.Namespace) }), err
}

func (h scopedHistory) DeadLetters(ctx context.Context, handler history.HandlerRef, before int64, limit int) ([]history.Delivery, error) {
	if !h.has(handler.Namespace) {
		return nil, h.refuse(handler.Namespace)
	}
	return h.all.DeadLetters(ctx, handler, before, limit)
}
