package history

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// scanRef reads the columns handler_ns and handler.
func scanRef(scan scanner) (ref HandlerRef, err error) {
	err = scan(&ref.Namespace, &ref.Name)
	return ref, err
}

func (s *sqlStore) DeadLetters(ctx context.Context, h HandlerRef, before int64, n int) ([]Delivery, error) {
	w := deadLetters(h)
	if before > 0 {
		w.and(`o.id < ?`, before)
	}
	return s.deliveries(ctx, w.sql("")+` ORDER BY id DESC`+limit(n), w.args...)
}

func deadLetters(h HandlerRef) *where {
	w := &where{}
	w.and(`o.state = 'dead' AND o.handler_ns = ? AND o.handler = ?`, h.Namespace, h.Name)
	return w
}

// isUseful holds for a dead letter whose problem is open; and for a closing whose handler got the opening.
const isUseful = `(EXISTS (SELECT 1 FROM history_problems p WHERE p.id = o.problem AND p.closed = 0)
	OR o.kind = 'closed' AND EXISTS (SELECT 1 FROM history_outbox b WHERE b.problem = o.problem AND b.handler = o.handler
		AND b.handler_ns = o.handler_ns AND b.kind = 'opened' AND b.state = 'delivered'))`

func (s *sqlStore) Revive(ctx context.Context, h HandlerRef, now time.Time, q Revival) (out Revived, err error) {
	dead := deadLetters(h)
	if len(q.IDs) > 0 {
		in(dead, `o.id`, q.IDs)
	}
	chosen := &where{terms: dead.terms, args: dead.args}
	if !q.Ended {
		chosen.and(isUseful)
	}
	err = s.db.Write(ctx, func(tx *sqldb.Tx) error {
		var all, fit int
		for w, n := range map[*where]*int{dead: &all, chosen: &fit} {
			if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM history_outbox o WHERE `+w.sql(""), w.args...).Scan(n); err != nil {
				return err
			}
		}
		out = Revived{Over: all - fit, More: max(0, fit-q.Limit)}
		rows, err := tx.Query(ctx, `SELECT o.id FROM history_outbox o WHERE `+chosen.sql("")+` ORDER BY o.id`+limit(q.Limit), chosen.args...)
		ids, err := collect(rows, err, column[int64])
		if err != nil || len(ids) == 0 {
			return err
		}
		w := &where{}
		in(w, `id`, ids)
		which, args := w.sql(""), append([]any{nanos(now), nanos(now)}, w.args...)
		if q.Ended { // the closing of a problem goes again, behind its opening
			which += ` OR kind = 'closed' AND state <> 'pending' AND handler_ns = ? AND handler = ? AND problem IN
				(SELECT problem FROM history_outbox WHERE kind = 'opened' AND ` + w.sql("") + `)`
			args = append(append(args, h.Namespace, h.Name), w.args...)
		}
		result, err := tx.Exec(ctx, `UPDATE history_outbox SET state = 'pending', attempts = 0, next_at = ?, ended = 0, replayed = ? WHERE `+which, args...)
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

// openDelivered selects the delivered openings of open problems.
const openDelivered = `FROM history_problems p JOIN history_outbox o ON o.problem = p.id WHERE p.closed = 0 AND o.kind = 'opened' AND o.state = 'delivered'`

func (s *sqlStore) HandlersWithOpen(ctx context.Context) ([]HandlerRef, error) {
	return list(ctx, s.db, "outbox", scanRef, `SELECT DISTINCT o.handler_ns, o.handler `+openDelivered+` ORDER BY 1, 2`)
}

func (s *sqlStore) OpenDeliveries(ctx context.Context, h HandlerRef, after int64, n int) ([]Delivery, error) {
	return s.deliveries(ctx, `id IN (SELECT o.id `+openDelivered+` AND o.handler_ns = ? AND o.handler = ? AND o.id > ?) ORDER BY id`+limit(n), h.Namespace, h.Name, after)
}
