package app

import (
	"context"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/follow"
	"github.com/muster-fleet/muster/internal/route"
)

// openStreams reads how far handlers that are told of every result have been told.
func (s *Server) openStreams(context.Context) (err error) {
	s.streams, err = follow.Open(follow.Options{
		Journal: s.journal, View: s.view, Directory: s.planner, Dir: s.cfg.Data,
		Now: s.now, Logger: s.log, Registerer: s.registry,
	})
	if err == nil {
		s.consumers.Add(s.streams.Consumers)
	}
	return err
}

// streamOf is how far a handler is, as the API shows it.
func (s *Server) streamOf(handler route.Name) (v1.HandlerStream, bool) {
	st, ok := s.streams.State(handler)
	return v1.HandlerStream{
		BehindSeconds: st.Behind.Seconds(), BehindBytes: st.BehindBytes, Connections: st.Connections, Lines: st.Lines, Again: st.Again,
		Withheld: st.Withheld, Skipped: st.Skipped, SkippedAt: st.SkippedAt.UTC(), Trouble: st.Trouble, News: st.News,
	}, ok
}
