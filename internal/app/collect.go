package app

import (
	"context"
	"errors"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
)

// collectEvery is how often old definitions of checks are looked through.
const collectEvery = time.Hour

// collect forgets definitions of checks that neither a check, a state, a spool nor the
// journal can name any more.
func (s *Server) collect(ctx context.Context) error {
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for {
		if err := s.collectOnce(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("old definitions of checks could not be looked through; trying again in an hour", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Server) collectOnce(ctx context.Context) error {
	held, err := s.heldSince(ctx)
	if err != nil {
		return err
	}
	removed, err := s.planner.Collect(ctx, s.view.Chunks(), held, s.now())
	if removed > 0 {
		s.log.Info("old definitions of checks forgotten", "count", removed)
	}
	return err
}

// heldSince is when the oldest commit that the journal holds was received.
func (s *Server) heldSince(ctx context.Context) (at time.Time, err error) {
	first := s.journal.Tail()
	first.Number--
	enough := errors.New("enough")
	err = s.journal.Read(ctx, first, func(c journal.Commit) error {
		at = time.Unix(0, c.Received())
		return enough
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return at, err
}
