package history

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// endedDeliveries selects deliveries that ended before a time, but none of an open problem: those say which
// handlers are to hear of its end.
const endedDeliveries = `FROM history_outbox o WHERE ended > 0 AND ended < ?
	AND NOT EXISTS (SELECT 1 FROM history_problems p WHERE p.id = o.problem AND p.closed = 0) ORDER BY id LIMIT ?`

func (s *sqlStore) Clean(ctx context.Context, before time.Time, n int) (int, error) {
	removed := 0
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		removed = 0
		for _, query := range []string{
			`DELETE FROM history_entries WHERE id IN (SELECT id FROM history_entries WHERE at < ? ORDER BY at LIMIT ?)`,
			`DELETE FROM history_delivery_problems WHERE key IN (SELECT key ` + endedDeliveries + `)`,
			`DELETE FROM history_outbox WHERE id IN (SELECT id ` + endedDeliveries + `)`,
			`DELETE FROM history_problems WHERE no IN (SELECT no FROM history_problems WHERE closed > 0 AND closed < ? LIMIT ?)`,
		} {
			result, err := tx.Exec(ctx, query, nanos(before), n)
			if err != nil {
				return err
			}
			count, _ := result.RowsAffected()
			removed += int(count)
		}
		if err := s.entries.clean(ctx, tx, before); err != nil {
			return err
		}
		if err := s.problems.clean(ctx, tx, before); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM history_names WHERE last < ?`, nanos(before.Add(-nameDay)))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("clean history: %w", err)
	}
	return removed, nil
}
