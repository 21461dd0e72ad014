package access

import (
	"context"

	"github.com/muster-fleet/muster/internal/intent"
)

// Caller is the subject of one request to the API, with the address that the request came from.
type Caller struct {
	Subject
	Address string
}

type callerKey struct{}

// WithCaller returns a context that carries the caller of a request.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller of a request; the zero Caller, which may do nothing, where the
// request carries none.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// Author names the caller of a request in the record of changes, with the reason for the change.
func Author(ctx context.Context, reason string) intent.Actor {
	c := CallerOf(ctx)
	return intent.Actor{User: c.User, Whence: c.Address, Why: reason}
}

// MayChange reports whether the caller of a request may change resources of a namespace. Answers
// to other callers hide the secrets in them.
func MayChange(ctx context.Context, namespace string) bool {
	c := CallerOf(ctx)
	return c.May(Change, namespace)
}

// ViewerGrants are the grants of a token whose maker names none: it reads wherever the caller does.
func (c *Caller) ViewerGrants() Grants {
	if c.MayEverywhere(Read) {
		return Grants{Role: Viewer}
	}
	g := Grants{Bindings: map[string]string{}}
	for _, namespace := range c.NamespacesFor(Read) {
		g.Bindings[namespace] = Viewer
	}
	return g
}
