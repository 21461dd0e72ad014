package history

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/store/sqldb"
)

const overOutbox = `FROM history_outbox o WHERE ended > 0 AND ended < ?
	AND NOT EXISTS (SELECT 1 FROM history_problems p WHERE p.id = o.problem AND p.closed = 0) ORDER BY id LIMIT ?`

func (s *sqlStore) Clean(ctx context.Context, before time.Time, n int) (int, error) {
	removed := 0
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		removed = 0
		for _, query := range []string{
			`DELETE FROM history_entries WHERE id IN (SELECT id FROM history_entries WHERE at < ? ORDER BY at LIMIT ?)`,
			// An open problem's deliveries say who is to hear of its end.
			`DELETE FROM history_told WHERE key IN (SELECT key ` + overOutbox + `)`,
			`DELETE FROM history_outbox WHERE id IN (SELECT id ` + overOutbox + `)`,
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

// clean removes the oldest segment that has no rows any more.
func (f *shelf[T]) clean(ctx context.Context, tx *sqldb.Tx, before time.Time) error {
	var segment int64
	err := tx.QueryRow(ctx, f.sql(`SELECT COALESCE(MIN(s.last), 0) FROM history_segments s WHERE s.shelf = '{table}' AND s.ended < ?
		AND NOT EXISTS (SELECT 1 FROM {table} e WHERE e.{id} >= s.first AND e.{id} <= s.last)`), nanos(before)).Scan(&segment)
	if err != nil || segment == 0 {
		return err
	}
	for _, query := range []string{
		`DELETE FROM history_index WHERE shelf = '{table}' AND segment = ?`,
		`DELETE FROM history_segments WHERE shelf = '{table}' AND last = ?`,
	} {
		if _, err := tx.Exec(ctx, f.sql(query), segment); err != nil {
			return fmt.Errorf("remove a segment of %s: %w", f.table, err)
		}
	}
	return nil
}
