package history

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

const deliveryColumns = `id, key, problem, namespace, node, node_id, handler_ns, handler, kind, created, state, attempts, next_at, last_error, ended, replayed, route, tells, problems, answer, payload`

// scanDelivery reads the columns of a delivery.
func scanDelivery(scan sqldb.Scan) (d Delivery, err error) {
	var created, next, ended, replayed int64
	err = scan(&d.ID, &d.Key, &d.Problem, &d.Namespace, &d.Node, &d.NodeID, &d.Handler.Namespace, &d.Handler.Name, &d.Kind,
		&created, &d.State, &d.Attempts, &next, &d.LastError, &ended, &replayed, &d.Route, &d.Event, &d.Count, &d.Answer, &d.Payload)
	d.Created, d.NextAt, d.Ended, d.Replayed = sqldb.FromNanos(created), sqldb.FromNanos(next), sqldb.FromNanos(ended), sqldb.FromNanos(replayed)
	return d, err
}

// newMessageTable returns the table of messages to handlers (outbox), divided into segments of `size` rows.
func newMessageTable(size int64) segments {
	return segments{table: "history_outbox", id: "id", at: "created", size: size, holdings: holdings{
		bytes:     rowBytes(deliveryBytes, "payload"),
		removable: `e.ended > 0 AND NOT EXISTS (SELECT 1 FROM history_problems p WHERE p.id = e.problem AND p.closed = 0)`,
		kept: `SELECT e.node_id, e.namespace, {bytes} AS bytes FROM history_outbox e WHERE e.state = 'pending'
			UNION ALL SELECT e.node_id, e.namespace, {bytes} FROM history_problems p JOIN history_outbox e ON e.problem = p.id WHERE p.closed = 0 AND e.ended > 0`,
	}}
}

// recordDeliveries inserts the deliveries of a batch.
func (s *sqlStore) recordDeliveries(ctx context.Context, tx *sqldb.Tx, list []Delivery) error {
	if len(list) == 0 {
		return nil
	}
	if err := s.outbox.Insert(ctx, tx, list); err != nil {
		return err
	}
	return s.messages.closeSegment(ctx, tx)
}

// deliveries returns the deliveries that an SQL condition selects. The text tail is the SQL from WHERE on.
func (s *sqlStore) deliveries(ctx context.Context, tail string, args ...any) ([]Delivery, error) {
	return sqldb.List(ctx, s.db, "outbox", scanDelivery, `SELECT `+deliveryColumns+` FROM history_outbox o WHERE `+tail, args...)
}

// Deliveries returns the deliveries about a problem.
func (s *sqlStore) Deliveries(ctx context.Context, problem string) ([]Delivery, error) {
	return s.deliveries(ctx, `problem = ? OR key IN (SELECT key FROM history_delivery_problems WHERE problem = ?) ORDER BY id`, problem, problem)
}

// isFirst is the SQL condition that no older delivery of the same problem and handler is pending.
const isFirst = `NOT EXISTS (SELECT 1 FROM history_outbox p WHERE p.problem = o.problem AND p.handler = o.handler
	AND p.handler_ns = o.handler_ns AND p.state = 'pending' AND p.id < o.id)`

// Due returns the pending deliveries that must be sent now, and the time of the next delivery.
func (s *sqlStore) Due(ctx context.Context, now time.Time, n int, except []HandlerRef) ([]Delivery, time.Time, error) {
	w := &sqldb.Where{}
	w.And(`state = 'pending' AND next_at <= ?`, sqldb.Nanos(now))
	for _, h := range except {
		w.And(`NOT (handler_ns = ? AND handler = ?)`, h.Namespace, h.Name)
	}
	w.And(isFirst)
	due, err := s.deliveries(ctx, w.SQL("")+` ORDER BY next_at, id LIMIT ?`, append(w.Args, n)...)
	if err != nil {
		return nil, time.Time{}, err
	}
	next, err := sqldb.QueryValue[int64](ctx, s.db, "outbox", `SELECT COALESCE(MIN(next_at), 0) FROM history_outbox WHERE state = 'pending' AND next_at > ?`, sqldb.Nanos(now))
	return due, sqldb.FromNanos(next), err
}

// ClampDue makes deliveries due whose send time is too far ahead because the clock was set back. Their due time is too
// far ahead.
func (s *sqlStore) ClampDue(ctx context.Context, now, latest time.Time) error {
	waits, err := sqldb.QueryValue[int64](ctx, s.db, "outbox", `SELECT COALESCE(MAX(next_at), 0) FROM history_outbox WHERE state = 'pending' AND next_at > ?`, sqldb.Nanos(latest))
	if err != nil || waits == 0 {
		return err
	}
	w := &sqldb.Where{}
	w.And(`next_at > ?`, sqldb.Nanos(latest))
	return s.makeDue(ctx, now, w)
}

// MakeDue makes pending deliveries due now, by their ids.
func (s *sqlStore) MakeDue(ctx context.Context, ids []int64, now time.Time) error {
	for some := range slices.Chunk(ids, idsPerQuery) {
		w := &sqldb.Where{}
		w.And(`next_at > ?`, sqldb.Nanos(now))
		sqldb.AndIn(w, `id`, some)
		if err := s.makeDue(ctx, now, w); err != nil {
			return err
		}
	}
	return nil
}

// makeDue makes the pending deliveries that match a condition due now.
func (s *sqlStore) makeDue(ctx context.Context, now time.Time, w *sqldb.Where) error {
	return s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE history_outbox SET next_at = ? WHERE state = 'pending' AND `+w.SQL(""), append([]any{sqldb.Nanos(now)}, w.Args...)...); err != nil {
			return fmt.Errorf("make pending deliveries due now: %w", err)
		}
		return nil
	})
}

// Unsent counts, for each handler, its pending deliveries and its recent dead letters (deliveries given up).
func (s *sqlStore) Unsent(ctx context.Context, deadSince time.Time) ([]Unsent, error) {
	return sqldb.List(ctx, s.db, "outbox", func(scan sqldb.Scan) (u Unsent, err error) {
		var since int64
		err = scan(&u.Handler.Namespace, &u.Handler.Name, &u.Waiting, &u.Failing, &u.Dead, &since, &u.LastError)
		u.Since = sqldb.FromNanos(since)
		return u, err
	}, `SELECT handler_ns, handler, SUM(waiting), SUM(failing), SUM(dead), MIN(created), MAX(last_error) FROM (
			SELECT handler_ns, handler, 1 AS waiting, CASE WHEN attempts > 0 THEN 1 ELSE 0 END AS failing, 0 AS dead, created, last_error
			FROM history_outbox WHERE state = 'pending'
			UNION ALL SELECT handler_ns, handler, 0, 0, 1, created, last_error FROM history_outbox WHERE ended >= ? AND ended > 0 AND state = 'dead'
		) AS unsent GROUP BY handler_ns, handler ORDER BY handler_ns, handler`, sqldb.Nanos(deadSince))
}

// Pending counts the pending deliveries of each handler.
func (s *sqlStore) Pending(ctx context.Context) (map[HandlerRef]int, error) {
	out := map[HandlerRef]int{}
	_, err := sqldb.List(ctx, s.db, "outbox", func(scan sqldb.Scan) (ref HandlerRef, err error) {
		var n int
		err = scan(&ref.Namespace, &ref.Name, &n)
		out[ref] = n
		return ref, err
	}, `SELECT handler_ns, handler, COUNT(*) FROM history_outbox WHERE state = 'pending' GROUP BY handler_ns, handler`)
	return out, err
}

// RecordAttempts stores the results of attempts to send deliveries.
func (s *sqlStore) RecordAttempts(ctx context.Context, list ...DeliveryAttempt) error {
	var recorded int64
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if err := s.countTransaction(ctx, tx, &recorded); err != nil {
			return err
		}
		update, err := tx.Prepare(ctx, `UPDATE history_outbox SET state = ?, attempts = attempts + 1, next_at = ?, last_error = ?, ended = ?, answer = ? WHERE id = ?`)
		if err != nil {
			return err
		}
		defer update.Close()
		for _, o := range list {
			var ended time.Time
			if o.State != Pending {
				ended = o.At
			}
			if _, err := update.ExecContext(ctx, string(o.State), sqldb.Nanos(o.NextAt), cleanText(o.Error), sqldb.Nanos(ended), cleanText(o.Answer), o.ID); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("record delivery attempts: %w", err)
	}
	s.rememberTransaction(recorded)
	return nil
}

// scanHandlerRef reads the columns handler_ns and handler into a HandlerRef.
func scanHandlerRef(scan sqldb.Scan) (ref HandlerRef, err error) {
	err = scan(&ref.Namespace, &ref.Name)
	return ref, err
}

// DeadLetters returns a handler's dead letters (deliveries given up), newest first.
func (s *sqlStore) DeadLetters(ctx context.Context, h HandlerRef, before int64, n int) ([]Delivery, error) {
	w := deadLetterCondition(h)
	if before > 0 {
		w.And(`o.id < ?`, before)
	}
	return s.deliveries(ctx, w.SQL("")+` ORDER BY id DESC`+limitClause(n), w.Args...)
}

// deadLetterCondition returns the SQL condition that selects a handler's dead letters (deliveries given up).
func deadLetterCondition(h HandlerRef) *sqldb.Where {
	w := &sqldb.Where{}
	w.And(`o.state = 'dead' AND o.handler_ns = ? AND o.handler = ?`, h.Namespace, h.Name)
	return w
}

// isUseful is the SQL condition for dead letters worth another attempt. The problem is open, or it is a closing whose
// handler got the opening.
const isUseful = `(EXISTS (SELECT 1 FROM history_problems p WHERE p.id = o.problem AND p.closed = 0)
	OR o.kind = 'closed' AND EXISTS (SELECT 1 FROM history_outbox b WHERE b.problem = o.problem AND b.handler = o.handler
		AND b.handler_ns = o.handler_ns AND b.kind = 'opened' AND b.state = 'delivered'))`

// Revive makes a handler's dead letters (deliveries given up) pending again, for one more attempt.
func (s *sqlStore) Revive(ctx context.Context, h HandlerRef, now time.Time, q ReplayQuery) (out ReplayCounts, err error) {
	dead := deadLetterCondition(h)
	if len(q.IDs) > 0 {
		sqldb.AndIn(dead, `o.id`, q.IDs)
	}
	chosen := &sqldb.Where{Terms: dead.Terms, Args: dead.Args}
	if !q.Ended {
		chosen.And(isUseful)
	}
	err = s.db.Write(ctx, func(tx *sqldb.Tx) error {
		var all, fit int
		for w, n := range map[*sqldb.Where]*int{dead: &all, chosen: &fit} {
			if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM history_outbox o WHERE `+w.SQL(""), w.Args...).Scan(n); err != nil {
				return err
			}
		}
		out = ReplayCounts{SkippedClosed: all - fit, More: max(0, fit-q.Limit)}
		rows, err := tx.Query(ctx, `SELECT o.id FROM history_outbox o WHERE `+chosen.SQL("")+` ORDER BY o.id`+limitClause(q.Limit), chosen.Args...)
		ids, err := sqldb.Collect(rows, err, sqldb.ScanColumn[int64])
		if err != nil || len(ids) == 0 {
			return err
		}
		w := &sqldb.Where{}
		sqldb.AndIn(w, `id`, ids)
		which, args := w.SQL(""), append([]any{sqldb.Nanos(now), sqldb.Nanos(now)}, w.Args...)
		if q.Ended { // the closing of a problem is sent again after its opening
			which += ` OR kind = 'closed' AND state <> 'pending' AND handler_ns = ? AND handler = ? AND problem IN
				(SELECT problem FROM history_outbox WHERE kind = 'opened' AND ` + w.SQL("") + `)`
			args = append(append(args, h.Namespace, h.Name), w.Args...)
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
		return ReplayCounts{}, fmt.Errorf("replay dead letters: %w", err)
	}
	return out, nil
}

// openDelivered is the SQL text for delivered openings of open problems.
const openDelivered = `FROM history_problems p JOIN history_outbox o ON o.problem = p.id WHERE p.closed = 0 AND o.kind = 'opened' AND o.state = 'delivered'`

// HandlersOfOpenProblems returns the handlers that have received notifications of open problems.
func (s *sqlStore) HandlersOfOpenProblems(ctx context.Context) ([]HandlerRef, error) {
	return sqldb.List(ctx, s.db, "outbox", scanHandlerRef, `SELECT DISTINCT o.handler_ns, o.handler `+openDelivered+` ORDER BY 1, 2`)
}

// OpenDeliveries returns the deliveries to a handler about problems that are still open.
func (s *sqlStore) OpenDeliveries(ctx context.Context, h HandlerRef, after int64, n int) ([]Delivery, error) {
	return s.deliveries(ctx, `id IN (SELECT o.id `+openDelivered+` AND o.handler_ns = ? AND o.handler = ? AND o.id > ?) ORDER BY id`+limitClause(n), h.Namespace, h.Name, after)
}

// Message is one sent or simulated delivery, with its problem's namespace, node and check, for reports.
// Deliveries are only simulated in shadow mode.
type Message struct {
	ID         int64
	Ended      time.Time
	Problem    string
	Namespace  string // empty: the row of the problem was deleted
	Node       string
	SourceKind model.SourceKind
	SourceName string
	Handler    HandlerRef
	Route      string
	Kind       string
	Event      string
	Count      int
	State      DeliveryState
	Payload    []byte // of shadow deliveries only
}

// MessageQuery selects deliveries (messages to handlers) that were sent, or only simulated in shadow mode, for a
// report. Withheld deliveries and beats are none.
type MessageQuery struct {
	Namespace    string   // of the node; empty: all
	Namespaces   []string // namespaces that the caller may read; nil: all
	Shadow       bool     // shadow deliveries only, with their payload
	Since, Until time.Time
	Limit        int
	BeforeID     int64 // next page: messages at Until with a smaller id, and messages before Until
}

// Messages lists deliveries that are no longer pending, newest first, with the nodes and checks of their
// problems.
func (s *sqlStore) Messages(ctx context.Context, q MessageQuery) ([]Message, error) {
	w, payload := &sqldb.Where{}, `''`
	if q.Shadow {
		payload = `o.payload`
		w.And(`o.state = 'shadow'`)
	} else {
		w.And(`o.ended > 0 AND o.state <> 'withheld' AND o.kind <> 'beat'`)
	}
	w.AndEqual(`p.namespace`, q.Namespace)
	sqldb.AndIn(w, `p.namespace`, q.Namespaces)
	boundToPage(w, `o.ended`, `o.id`, q.Since, q.Until, q.BeforeID)
	return sqldb.List(ctx, s.db, "messages", func(scan sqldb.Scan) (m Message, err error) {
		var ended int64
		err = scan(&m.ID, &ended, &m.Problem, &m.Namespace, &m.Node, &m.SourceKind, &m.SourceName, &m.Handler.Namespace, &m.Handler.Name,
			&m.Route, &m.Kind, &m.Event, &m.Count, &m.State, &m.Payload)
		m.Ended, m.Count = sqldb.FromNanos(ended), max(m.Count, 1)
		return m, err
	}, `SELECT o.id, o.ended, o.problem, COALESCE(p.namespace, ''), COALESCE(p.node, ''), COALESCE(p.source_kind, 0), COALESCE(p.source_name, ''),
		o.handler_ns, o.handler, o.route, o.kind, CASE WHEN o.tells = '' THEN o.kind ELSE o.tells END, o.problems, o.state, `+payload+`
		FROM history_outbox o LEFT JOIN history_problems p ON p.id = o.problem WHERE `+w.SQL("")+` ORDER BY o.ended DESC, o.id DESC`+limitClause(q.Limit), w.Args...)
}
