package app

import (
	"context"

	"github.com/muster-fleet/muster/internal/secret"
	"github.com/muster-fleet/muster/internal/source/muster"
)

// secret finds the values of Secrets for agents.
func (s *Server) secret() func(ctx context.Context, namespace, name string) (muster.SecretValue, error) {
	values := secret.New(secret.Options{Secret: s.planner.Secret})
	return func(ctx context.Context, namespace, name string) (muster.SecretValue, error) {
		v, err := values.Resolve(ctx, namespace, name)
		return muster.SecretValue{Text: v.Text, Lease: v.Lease}, err
	}
}
