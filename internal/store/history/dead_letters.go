package history

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/store/sqldb"
)

func (s *sqlStore) Dead(ctx context.Context, h HandlerRef, before int64, n int) ([]Delivery, error) {
	where, args := `state = 'dead' AND handler_ns = ? AND handler = ?`, []any{h.Namespace, h.Name}
	if before > 0 {
		where, args = where+` AND id < ?`, append(args, before)
	}
	return s.deliveries(ctx, where+` ORDER BY id DESC`+limit(n), args...)
}

// worthwhile: the problem is open still; or what died is its end, and the handler was told
// of its beginning.
const worthwhile = `(EXISTS (SELECT 1 FROM history_problems p WHERE p.id = o.problem AND p.closed = 0)
	OR o.kind = 'closed' AND EXISTS (SELECT 1 FROM history_outbox b WHERE b.problem = o.problem AND b.handler = o.handler
		AND b.handler_ns = o.handler_ns AND b.kind = 'opened' AND b.state = 'delivered'))`

func (s *sqlStore) Revive(ctx context.Context, h HandlerRef, now time.Time, q Revival) (Revived, error) {
	var out Revived
	dead, args := `o.state = 'dead' AND o.handler_ns = ? AND o.handler = ?`, []any{h.Namespace, h.Name}
	if len(q.IDs) > 0 {
		dead += ` AND o.id IN (` + places(len(q.IDs)) + `)`
		for _, id := range q.IDs {
			args = append(args, id)
		}
	}
	chosen := dead + ` AND ` + worthwhile
	if q.Ended {
		chosen = dead
	}
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		out = Revived{}
		var all, fit int
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM history_outbox o WHERE `+dead, args...).Scan(&all); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM history_outbox o WHERE `+chosen, args...).Scan(&fit); err != nil {
			return err
		}
		out.Over, out.More = all-fit, max(0, fit-q.Limit)
		ids, err := letters(ctx, tx, chosen, args, q.Limit)
		if err != nil || len(ids) == 0 {
			return err
		}
		which := `id IN (` + places(len(ids)) + `)`
		if q.Ended { // what tells of the end of a problem goes again after what tells of its beginning
			which += ` OR kind = 'closed' AND state <> 'pending' AND handler_ns = ? AND handler = ? AND problem IN
				(SELECT problem FROM history_outbox WHERE kind = 'opened' AND id IN (` + places(len(ids)) + `))`
			ids = append(append(ids, h.Namespace, h.Name), ids...)
		}
		result, err := tx.Exec(ctx, `UPDATE history_outbox SET state = 'pending', attempts = 0, next_at = ?, ended = 0, replayed = ? WHERE `+which,
			append([]any{nanos(now), nanos(now)}, ids...)...)
		if err != nil {
			return err
		}
		n, _ := result.RowsAffected()
		out.Revived = int(n)
		return nil
	})
	if err != nil {
		return Revived{}, fmt.Errorf("replay dead letters: %w", err)
	}
	return out, nil
}

func places(n int) string { return `?` + strings.Repeat(", ?", n-1) }

// letters are the ids of the oldest dead letters.
func letters(ctx context.Context, tx *sqldb.Tx, where string, args []any, n int) (ids []any, err error) {
	rows, err := tx.Query(ctx, `SELECT o.id FROM history_outbox o WHERE `+where+` ORDER BY o.id`+limit(n), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// standing: the opening of a problem that is open, and its handler took it.
const standing = `FROM history_problems p JOIN history_outbox o ON o.problem = p.id WHERE p.closed = 0 AND o.kind = 'opened' AND o.state = 'delivered'`

func (s *sqlStore) HandlersWithOpen(ctx context.Context) ([]HandlerRef, error) {
	rows, err := s.db.Query(ctx, `SELECT DISTINCT o.handler_ns, o.handler `+standing+` ORDER BY 1, 2`)
	if err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	defer rows.Close()
	var out []HandlerRef
	for rows.Next() {
		var ref HandlerRef
		if err := rows.Scan(&ref.Namespace, &ref.Name); err != nil {
			return nil, fmt.Errorf("read outbox: %w", err)
		}
		out = append(out, ref)
	}
	return out, rows.Err()
}

func (s *sqlStore) OpenDeliveries(ctx context.Context, h HandlerRef, after int64, n int) ([]Delivery, error) {
	return s.deliveries(ctx, `id IN (SELECT o.id `+standing+` AND o.handler_ns = ? AND o.handler = ? AND o.id > ?) ORDER BY id`+limit(n), h.Namespace, h.Name, after)
}
