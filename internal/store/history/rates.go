package history

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// pace writes how much of rates is used, with the messages that used it.
func (s *sqlStore) pace(ctx context.Context, tx *sqldb.Tx, list []Pace) error {
	for _, p := range list {
		shadow := 0
		if p.Shadow {
			shadow = 1
		}
		if _, err := tx.Exec(ctx, `INSERT INTO history_paces (route, shadow, ends, sent) VALUES (?, ?, ?, ?)
			ON CONFLICT (route, shadow) DO UPDATE SET ends = excluded.ends, sent = excluded.sent`, p.Route, shadow, nanos(p.Ends), p.Sent); err != nil {
			return fmt.Errorf("record the rate of route %s: %w", p.Route, err)
		}
	}
	return nil
}

func (s *sqlStore) Paces(ctx context.Context) (list []Pace, err error) {
	rows, err := s.db.Query(ctx, `SELECT route, shadow, ends, sent FROM history_paces ORDER BY route, shadow`)
	if err != nil {
		return nil, fmt.Errorf("read the rates of routes: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var p Pace
		var shadow, ends int64
		if err := rows.Scan(&p.Route, &shadow, &ends, &p.Sent); err != nil {
			return nil, fmt.Errorf("read the rates of routes: %w", err)
		}
		p.Shadow, p.Ends = shadow != 0, time.Unix(0, ends).UTC()
		list = append(list, p)
	}
	return list, rows.Err()
}
