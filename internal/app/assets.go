package app

import (
	"context"

	"github.com/muster-fleet/muster/internal/archive"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

func (s *Server) openArchives(context.Context) (err error) {
	s.archives, err = archive.Open(archive.Options{
		Dir: s.path("assets"), Revision: s.planner.Revision, Arrived: s.tools.Arrived, Now: s.now, Log: s.log,
		Assets: func(ctx context.Context) ([]model.Resource, error) {
			return s.intent.List(ctx, intent.ListQuery{Kind: "Asset"}, nil)
		},
		Changed: func() { s.tools.Named(s.planner.HandlerAssets()) },
	})
	return err
}
