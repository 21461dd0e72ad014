package history

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/store/sqldb"
)

const deliveryColumns = `id, key, problem, handler_ns, handler, kind, payload, created, state, attempts, next_at, last_error, ended, replayed, route, tells, problems`

func scanDelivery(scan scanner) (d Delivery, err error) {
	var created, next, ended, replayed int64
	err = scan(&d.ID, &d.Key, &d.Problem, &d.Handler.Namespace, &d.Handler.Name, &d.Kind, &d.Payload,
		&created, &d.State, &d.Attempts, &next, &d.LastError, &ended, &replayed, &d.Route, &d.Tells, &d.Count)
	d.Created, d.NextAt, d.Ended, d.Replayed = fromNanos(created), fromNanos(next), fromNanos(ended), fromNanos(replayed)
	return d, err
}

// deliveries lists the outbox by a condition, with order and limit.
func (s *sqlStore) deliveries(ctx context.Context, tail string, args ...any) ([]Delivery, error) {
	return list(ctx, s.db, "outbox", scanDelivery, `SELECT `+deliveryColumns+` FROM history_outbox o WHERE `+tail, args...)
}

func (s *sqlStore) Deliveries(ctx context.Context, problem string) ([]Delivery, error) {
	return s.deliveries(ctx, `problem = ? OR key IN (SELECT key FROM history_delivery_problems WHERE problem = ?) ORDER BY id`, problem, problem)
}

// isFirst holds where no older delivery of the same problem and handler is pending.
const isFirst = `NOT EXISTS (SELECT 1 FROM history_outbox p WHERE p.problem = o.problem AND p.handler = o.handler
	AND p.handler_ns = o.handler_ns AND p.state = 'pending' AND p.id < o.id)`

func (s *sqlStore) Due(ctx context.Context, now time.Time, n int, except []HandlerRef) ([]Delivery, time.Time, error) {
	w := &where{}
	w.and(`state = 'pending' AND next_at <= ?`, nanos(now))
	for _, h := range except {
		w.and(`NOT (handler_ns = ? AND handler = ?)`, h.Namespace, h.Name)
	}
	w.and(isFirst)
	due, err := s.deliveries(ctx, w.sql("")+` ORDER BY next_at, id LIMIT ?`, append(w.args, n)...)
	if err != nil {
		return nil, time.Time{}, err
	}
	next, err := single[int64](ctx, s.db, "outbox", `SELECT COALESCE(MIN(next_at), 0) FROM history_outbox WHERE state = 'pending' AND next_at > ?`, nanos(now))
	return due, fromNanos(next), err
}

func (s *sqlStore) ClampDue(ctx context.Context, now, latest time.Time) error {
	waits, err := single[int64](ctx, s.db, "outbox", `SELECT COALESCE(MAX(next_at), 0) FROM history_outbox WHERE state = 'pending' AND next_at > ?`, nanos(latest))
	if err != nil || waits == 0 {
		return err
	}
	w := &where{}
	w.and(`next_at > ?`, nanos(latest))
	return s.makeDue(ctx, now, w)
}

func (s *sqlStore) MakeDue(ctx context.Context, ids []int64, now time.Time) error {
	for some := range slices.Chunk(ids, idsPerQuery) {
		w := &where{}
		w.and(`next_at > ?`, nanos(now))
		in(w, `id`, some)
		if err := s.makeDue(ctx, now, w); err != nil {
			return err
		}
	}
	return nil
}

// makeDue makes the selected pending deliveries due now.
func (s *sqlStore) makeDue(ctx context.Context, now time.Time, w *where) error {
	return s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE history_outbox SET next_at = ? WHERE state = 'pending' AND `+w.sql(""), append([]any{nanos(now)}, w.args...)...); err != nil {
			return fmt.Errorf("make deliveries due: %w", err)
		}
		return nil
	})
}

func (s *sqlStore) Unsent(ctx context.Context) ([]Unsent, error) {
	return list(ctx, s.db, "outbox", func(scan scanner) (u Unsent, err error) {
		var since int64
		err = scan(&u.Handler.Namespace, &u.Handler.Name, &u.Waiting, &u.Failing, &since, &u.LastError)
		u.Since = fromNanos(since)
		return u, err
	}, `SELECT handler_ns, handler, COUNT(*), SUM(CASE WHEN attempts > 0 THEN 1 ELSE 0 END), MIN(created), MAX(last_error)
		FROM history_outbox WHERE state = 'pending' GROUP BY handler_ns, handler ORDER BY handler_ns, handler`)
}

func (s *sqlStore) Pending(ctx context.Context) (map[HandlerRef]int, error) {
	unsent, err := s.Unsent(ctx)
	out := make(map[HandlerRef]int, len(unsent))
	for i := range unsent {
		out[unsent[i].Handler] = unsent[i].Waiting
	}
	return out, err
}

func (s *sqlStore) RecordAttempts(ctx context.Context, list ...Outcome) error {
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		update, err := tx.Prepare(ctx, `UPDATE history_outbox SET state = ?, attempts = attempts + 1, next_at = ?, last_error = ?, ended = ? WHERE id = ?`)
		if err != nil {
			return err
		}
		defer update.Close()
		for _, o := range list {
			var ended time.Time
			if o.State != Pending {
				ended = o.At
			}
			if _, err := update.ExecContext(ctx, string(o.State), nanos(o.NextAt), cleanText(o.Error), nanos(ended), o.ID); err != nil {
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
