package intent

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// endedStay is how long a silence is seen that has ended; its record stays.
const endedStay = 7 * 24 * time.Hour

// EndSilences takes silences away by the server itself; those that are gone are no error.
func (s *Service) EndSilences(ctx context.Context, why string, keys []Key) error {
	for _, key := range keys {
		row, err := s.opts.Store.Get(ctx, key)
		if err == nil {
			_, err = s.commit(ctx, server(why), []Write{{Key: key, Expect: row.Revision}})
		}
		if class := model.ClassOf(err); err != nil && class != model.NotFound && class != model.Conflict {
			return err
		}
	}
	return nil
}

// tidySilences takes away those that ended a while ago.
func (s *Service) tidySilences(ctx context.Context, now time.Time) error {
	rows, err := s.opts.Store.List(ctx, ListQuery{Kind: "Silence"})
	if err != nil {
		return err
	}
	var over []Key
	for _, row := range rows {
		r, err := decode(row)
		if err != nil {
			return err
		}
		if spec, ok := r.Spec.(*model.SilenceSpec); ok && !spec.Until.IsZero() && now.Sub(spec.Until.Time) > endedStay {
			over = append(over, row.Key)
		}
	}
	return s.EndSilences(ctx, "the silence ended a week ago", over)
}
