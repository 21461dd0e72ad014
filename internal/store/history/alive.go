package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// RecordAlive implements Store.
func (s *sqlStore) RecordAlive(ctx context.Context, until time.Time) error {
	return s.db.Write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO history_attended (one, until) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET until = excluded.until`, nanos(until))
		if err != nil {
			return fmt.Errorf("note until when history was there: %w", err)
		}
		return nil
	})
}

// AliveUntil implements Store.
func (s *sqlStore) AliveUntil(ctx context.Context) (time.Time, error) {
	var until int64
	err := s.db.QueryRow(ctx, `SELECT until FROM history_attended WHERE one = 1`).Scan(&until)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, fmt.Errorf("read until when history was there: %w", err)
	}
	return fromNanos(until), nil
}
