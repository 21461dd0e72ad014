package history

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// Message is one delivery that has ended, as reports count them, with the names of the problem
// under whose id it was told.
type Message struct {
	ID         int64
	Ended      time.Time
	Problem    string
	Namespace  string // empty: the problem is not kept any more
	Node       string
	SourceKind model.SourceKind
	SourceName string
	Handler    HandlerRef
	Route      string
	Kind       string
	Tells      string
	Count      int
	State      DeliveryState
	Payload    []byte // of those that only show what would be sent
}

// MessageQuery selects messages. Of those that ended; withheld ones are none.
type MessageQuery struct {
	Namespace    string   // of the node; empty: of all
	Namespaces   []string // only of these; nil: of all
	Shadow       bool     // only those that show what would be sent, with what they say
	Since, Until time.Time
	Limit        int
	BeforeID     int64 // page: at Until with a smaller id, or before it
}

// Messages reads the index by time and, of each, the problem's row.
func (s *sqlStore) Messages(ctx context.Context, q MessageQuery) ([]Message, error) {
	payload, which := `''`, `o.ended > 0 AND o.state <> 'withheld' AND o.kind <> 'beat'`
	if q.Shadow {
		payload, which = `o.payload`, `o.state = 'shadow'`
	}
	var args []any
	if q.Namespace != "" {
		which, args = which+` AND p.namespace = ?`, append(args, q.Namespace)
	}
	if q.Namespaces != nil {
		which, args = which+` AND p.namespace IN (`+sqldb.Marks(len(q.Namespaces))+`)`, sqldb.AppendTexts(args, q.Namespaces)
	}
	if !q.Since.IsZero() {
		which, args = which+` AND o.ended >= ?`, append(args, nanos(q.Since))
	}
	if !q.Until.IsZero() {
		until := nanos(q.Until)
		which, args = which+` AND o.ended <= ? AND (o.ended < ? OR o.id < ?)`, append(args, until, until, q.BeforeID)
	}
	rows, err := s.db.Query(ctx, `SELECT o.id, o.ended, o.problem, COALESCE(p.namespace, ''), COALESCE(p.node, ''), COALESCE(p.source_kind, 0), COALESCE(p.source_name, ''),
		o.handler_ns, o.handler, o.route, o.kind, CASE WHEN o.tells = '' THEN o.kind ELSE o.tells END, o.problems, o.state, `+payload+`
		FROM history_outbox o LEFT JOIN history_problems p ON p.id = o.problem WHERE `+which+` ORDER BY o.ended DESC, o.id DESC`+limit(q.Limit), args...)
	if err != nil {
		return nil, fmt.Errorf("list messages: %w", err)
	}
	defer rows.Close()
	var out []Message
	for rows.Next() {
		var m Message
		var ended int64
		if err := rows.Scan(&m.ID, &ended, &m.Problem, &m.Namespace, &m.Node, &m.SourceKind, &m.SourceName, &m.Handler.Namespace, &m.Handler.Name,
			&m.Route, &m.Kind, &m.Tells, &m.Count, &m.State, &m.Payload); err != nil {
			return nil, fmt.Errorf("list messages: %w", err)
		}
		m.Ended, m.Count = fromNanos(ended), max(m.Count, 1)
		out = append(out, m)
	}
	return out, rows.Err()
}

// marks are the kinds that have an index of their own; SQLite takes it only for these words.
const marks = `e.kind IN ('flapping', 'acknowledged')`

func (s *sqlStore) Marks(ctx context.Context, q EntryQuery) ([]Entry, error) {
	w := newWhere(q.Namespace, "", "", 0).of(q.Namespaces)
	w.and(marks)
	if !q.Since.IsZero() {
		w.and(`e.at >= ?`, nanos(q.Since))
	}
	if !q.Before.IsZero() {
		before := nanos(q.Before)
		w.and(`e.at <= ? AND (e.at < ? OR e.id < ?)`, before, before, q.BeforeID)
	}
	out, err := s.entries.read(ctx, s.db, `FROM {table} e WHERE `+w.sql(""), w.args, most(q.Limit), "")
	if err != nil {
		return nil, fmt.Errorf("list marks: %w", err)
	}
	return out, nil
}

func (s *sqlStore) Oldest(ctx context.Context) (time.Time, error) {
	var at int64
	err := s.db.QueryRow(ctx, `SELECT COALESCE(MIN(oldest), 0) FROM (SELECT MIN(at) AS oldest FROM history_entries UNION ALL SELECT MIN(opened) FROM history_problems) AS both_tables`).Scan(&at)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the oldest change: %w", err)
	}
	return fromNanos(at), nil
}
