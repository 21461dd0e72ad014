package api

import (
	"context"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/model"
)

// as is the server as the subject of a request may see it.
func (s *server) as(_ context.Context, _ access.Need) *server { return s }

// redacts reports whether an answer about changes of resources hides secrets from the caller.
func (s *server) redacts(ctx context.Context, resources []model.Resource) bool {
	for i := range resources {
		if !mayChange(ctx, resources[i].Metadata.Namespace) {
			return true
		}
	}
	return false
}
