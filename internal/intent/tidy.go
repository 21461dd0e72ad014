package intent

import (
	"context"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

const (
	tidyEvery = time.Hour
	tidyStep  = 1000 // changes removed in one transaction: others pass in between
	// joinTokensStay is how long people see a join token that has expired.
	joinTokensStay = 30 * 24 * time.Hour
)

// EnforceRetention removes recorded changes older than the retention, join tokens that expired long
// ago, tombstones whose time is over and silences that ended long ago, until ctx ends.
func (s *Service) EnforceRetention(ctx context.Context) error {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.tidy(ctx); err != nil && ctx.Err() == nil {
				s.opts.Logger.Warn("old changes, join tokens and tombstones could not be removed; trying again in an hour", "err", err)
			}
		}
	}
}

func (s *Service) tidy(ctx context.Context) error {
	now := s.opts.Now()
	for removed := tidyStep; removed == tidyStep && s.opts.AuditRetention > 0; {
		var err error
		if removed, err = s.opts.Store.ForgetChanges(ctx, now.Add(-s.opts.AuditRetention), tidyStep); err != nil {
			return err
		}
	}
	for writes := range slices.Chunk(s.nodes.expired(now), tidyStep) {
		if _, err := s.commit(ctx, server("tombstones whose time is over"), writes); err != nil {
			return err
		}
	}
	if err := s.tidySilences(ctx, now); err != nil {
		return err
	}
	tokens := JoinTokens{Store: s.opts.Store}
	list, err := tokens.List(ctx)
	if err != nil {
		return err
	}
	for _, t := range list {
		if t.Expires.IsZero() || now.Before(t.Expires.Add(joinTokensStay)) {
			continue
		}
		if err := tokens.Delete(ctx, server("join token expired"), t.ID); err != nil && model.ClassOf(err) != model.NotFound {
			return err
		}
	}
	return nil
}
