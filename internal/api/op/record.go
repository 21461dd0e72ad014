package op

import (
	"context"
	"net/http"
	"strings"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/model"
)

// Record writes an action that a person takes by hand into the record of changes, before it
// happens. Where that fails the action must not happen.
func (q Request) Record(ctx context.Context, action string) error {
	if err := q.Intent.RecordRun(ctx, access.Author(ctx, action)); err != nil {
		return q.recordError(action, err)
	}
	q.logAction(ctx, action)
	return nil
}

// BeginRecord is Record for an action that takes a while; ended records its outcome.
func (q Request) BeginRecord(ctx context.Context, action, picked, note string) (ended func(outcome string), err error) {
	end, err := q.Intent.BeginRun(ctx, access.Author(ctx, action), picked, note)
	if err != nil {
		return nil, q.recordError(action, err)
	}
	q.logAction(ctx, action+": "+picked+note)
	return func(outcome string) {
		if err := end(outcome); err != nil {
			q.Logger.Error("outcome of an action cannot be recorded; the next start records that it is unknown", "action", action, "outcome", outcome, "err", err)
		}
	}, nil
}

func (q Request) recordError(action string, err error) error {
	q.Logger.Error("action cannot be recorded and is not done", "action", action, "err", err)
	return model.Errorf(model.Unavailable, "%s cannot be recorded now, and is not done", action).WithHint("the server's log says why; try again")
}

func (q Request) logAction(ctx context.Context, action string) {
	c := access.CallerOf(ctx)
	q.Logger.Info("action by hand", "user", c.User, "from", c.Address, "action", action)
}

// StillAllowed returns a function that reports whether the token of a long request is valid and
// has the grants with which the request began.
func (r *Routes) StillAllowed(request *http.Request) func() bool {
	token := strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer ")
	c := access.CallerOf(request.Context())
	return func() bool {
		s, err := r.Access.Authenticate(token)
		return err == nil && s.Equal(&c.Grants)
	}
}
