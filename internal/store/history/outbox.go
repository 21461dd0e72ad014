package history

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/store/sqldb"
)

const deliveryColumns = `id, key, problem, handler_ns, handler, kind, payload, created, state, attempts, next_at, last_error, ended, replayed, route, tells, problems`

func (s *sqlStore) deliveries(ctx context.Context, tail string, args ...any) ([]Delivery, error) {
	rows, err := s.db.Query(ctx, `SELECT `+deliveryColumns+` FROM history_outbox o WHERE `+tail, args...)
	if err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	defer rows.Close()
	var out []Delivery
	for rows.Next() {
		var d Delivery
		var created, next, ended, replayed int64
		if err := rows.Scan(&d.ID, &d.Key, &d.Problem, &d.Handler.Namespace, &d.Handler.Name, &d.Kind, &d.Payload,
			&created, &d.State, &d.Attempts, &next, &d.LastError, &ended, &replayed, &d.Route, &d.Tells, &d.Count); err != nil {
			return nil, fmt.Errorf("read outbox: %w", err)
		}
		d.Created, d.NextAt, d.Ended = fromNanos(created), fromNanos(next), fromNanos(ended)
		d.Replayed = fromNanos(replayed)
		out = append(out, d)
	}
	return out, rows.Err()
}

func (s *sqlStore) Deliveries(ctx context.Context, problem string) ([]Delivery, error) {
	return s.deliveries(ctx, `problem = ? OR key IN (SELECT key FROM history_told WHERE problem = ?) ORDER BY id`, problem, problem)
}

// first: nothing older of the same problem and handler is still pending.
const first = `NOT EXISTS (SELECT 1 FROM history_outbox p WHERE p.problem = o.problem AND p.handler = o.handler
	AND p.handler_ns = o.handler_ns AND p.state = 'pending' AND p.id < o.id)`

func (s *sqlStore) Due(ctx context.Context, now time.Time, n int, except []HandlerRef) ([]Delivery, time.Time, error) {
	where, args := `state = 'pending' AND next_at <= ?`, []any{nanos(now)}
	for _, h := range except {
		where += ` AND NOT (handler_ns = ? AND handler = ?)`
		args = append(args, h.Namespace, h.Name)
	}
	due, err := s.deliveries(ctx, where+` AND `+first+` ORDER BY next_at, id LIMIT ?`, append(args, n)...)
	if err != nil {
		return nil, time.Time{}, err
	}
	var next int64
	err = s.db.QueryRow(ctx, `SELECT COALESCE(MIN(next_at), 0) FROM history_outbox WHERE state = 'pending' AND next_at > ?`, nanos(now)).Scan(&next)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read outbox: %w", err)
	}
	return due, fromNanos(next), nil
}

func (s *sqlStore) ClampDue(ctx context.Context, now, latest time.Time) error {
	var waits int64
	err := s.db.QueryRow(ctx, `SELECT COALESCE(MAX(next_at), 0) FROM history_outbox WHERE state = 'pending' AND next_at > ?`, nanos(latest)).Scan(&waits)
	if err == nil && waits > 0 {
		err = s.db.Write(ctx, func(tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE history_outbox SET next_at = ? WHERE state = 'pending' AND next_at > ?`, nanos(now), nanos(latest))
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("hasten deliveries: %w", err)
	}
	return nil
}

func (s *sqlStore) MakeDue(ctx context.Context, ids []int64, now time.Time) error {
	for some := range slices.Chunk(ids, 500) {
		args := []any{nanos(now), nanos(now)}
		for _, id := range some {
			args = append(args, id)
		}
		err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE history_outbox SET next_at = ? WHERE state = 'pending' AND next_at > ? AND id IN (?`+strings.Repeat(", ?", len(some)-1)+`)`, args...)
			return err
		})
		if err != nil {
			return fmt.Errorf("hurry deliveries: %w", err)
		}
	}
	return nil
}

func (s *sqlStore) Pending(ctx context.Context) (map[HandlerRef]int, error) {
	rows, err := s.db.Query(ctx, `SELECT handler_ns, handler, COUNT(*) FROM history_outbox WHERE state = 'pending' GROUP BY handler_ns, handler`)
	if err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	defer rows.Close()
	out := map[HandlerRef]int{}
	for rows.Next() {
		var ref HandlerRef
		var n int
		if err := rows.Scan(&ref.Namespace, &ref.Name, &n); err != nil {
			return nil, fmt.Errorf("read outbox: %w", err)
		}
		out[ref] = n
	}
	return out, rows.Err()
}

func (s *sqlStore) Unsent(ctx context.Context) ([]Unsent, error) {
	rows, err := s.db.Query(ctx, `SELECT handler_ns, handler, COUNT(*), SUM(CASE WHEN attempts > 0 THEN 1 ELSE 0 END), MIN(created), MAX(last_error)
		FROM history_outbox WHERE state = 'pending' GROUP BY handler_ns, handler ORDER BY handler_ns, handler`)
	if err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	defer rows.Close()
	var out []Unsent
	for rows.Next() {
		var u Unsent
		var since int64
		if err := rows.Scan(&u.Handler.Namespace, &u.Handler.Name, &u.Waiting, &u.Failing, &since, &u.LastError); err != nil {
			return nil, fmt.Errorf("read outbox: %w", err)
		}
		u.Since = fromNanos(since)
		out = append(out, u)
	}
	return out, rows.Err()
}

func (s *sqlStore) Tried(ctx context.Context, id int64, a Attempt) error {
	return s.TriedAll(ctx, []Outcome{{id, a}})
}

func (s *sqlStore) TriedAll(ctx context.Context, list []Outcome) error {
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		update, err := tx.Prepare(ctx, `UPDATE history_outbox SET state = ?, attempts = attempts + 1, next_at = ?, last_error = ?, ended = ? WHERE id = ?`)
		if err != nil {
			return err
		}
		defer update.Close()
		for _, o := range list {
			ended := int64(0)
			if o.State != Pending {
				ended = nanos(o.At)
			}
			if _, err := update.ExecContext(ctx, string(o.State), nanos(o.NextAt), cleanText(o.Error), ended, o.ID); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("record delivery attempts: %w", err)
	}
	return nil
}
