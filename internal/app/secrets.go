package app

import (
	"context"

	"github.com/muster-fleet/muster/internal/source/muster"
)

// secretFor finds the value of a Secret for an agent.
func (s *Server) secretFor(ctx context.Context, namespace, name string) (muster.SecretValue, error) {
	v, err := s.secrets.Resolve(ctx, namespace, name)
	return muster.SecretValue{Text: v.Text, Lease: v.Lease}, err
}

// secretText finds it for a handler, or for a Sensu agent.
func (s *Server) secretText(ctx context.Context, namespace, name string) (string, error) {
	v, err := s.secrets.Resolve(ctx, namespace, name)
	return v.Text, err
}
