package intent

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// endedStay is how long a silence is seen that has ended; its record stays.
const endedStay = 7 * 24 * time.Hour

// SilenceEnd is when a silence came to its end.
type SilenceEnd struct {
	Key
	At time.Time
}

// EndSilences takes silences away by the server itself; those that are gone are no error, and one
// that was made later than at its end is another one, and stays.
func (s *Service) EndSilences(ctx context.Context, why string, ends []SilenceEnd) error {
	for _, end := range ends {
		row, err := s.opts.Store.Get(ctx, end.Key)
		if err == nil && !row.Created.After(end.At) {
			_, err = s.commit(ctx, server(why), []Write{{Key: end.Key, Expect: row.Revision}})
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
	var over []SilenceEnd
	for _, row := range rows {
		r, err := s.decode(row)
		if err != nil {
			return err
		}
		if spec, ok := r.Spec.(*model.SilenceSpec); ok && !spec.Until.IsZero() && now.Sub(spec.Until.Time) > endedStay {
			over = append(over, SilenceEnd{row.Key, now})
		}
	}
	return s.EndSilences(ctx, "the silence ended a week ago", over)
}
