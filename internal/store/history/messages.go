package history

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Message is one delivery that has ended, as reports count it, with the names of its problem.
type Message struct {
	ID         int64
	Ended      time.Time
	Problem    string
	Namespace  string // empty: the problem's row is gone
	Node       string
	SourceKind model.SourceKind
	SourceName string
	Handler    HandlerRef
	Route      string
	Kind       string
	Tells      string
	Count      int
	State      DeliveryState
	Payload    []byte // of shadow deliveries only
}

// MessageQuery selects messages that ended. Withheld deliveries and beats are none.
type MessageQuery struct {
	Namespace    string   // of the node; empty: all
	Namespaces   []string // bounds Namespace; nil: all
	Shadow       bool     // shadow deliveries only, with their payload
	Since, Until time.Time
	Limit        int
	BeforeID     int64 // page: at Until with a smaller id, or before Until
}

// Messages reads the outbox by its index of ends, and of each delivery the row of its problem.
func (s *sqlStore) Messages(ctx context.Context, q MessageQuery) ([]Message, error) {
	w, payload := &where{}, `''`
	if q.Shadow {
		payload = `o.payload`
		w.and(`o.state = 'shadow'`)
	} else {
		w.and(`o.ended > 0 AND o.state <> 'withheld' AND o.kind <> 'beat'`)
	}
	if q.Namespace != "" {
		w.and(`p.namespace = ?`, q.Namespace)
	}
	in(w, `p.namespace`, q.Namespaces)
	w.page(`o.ended`, `o.id`, q.Since, q.Until, q.BeforeID)
	return list(ctx, s.db, "messages", func(scan scanner) (m Message, err error) {
		var ended int64
		err = scan(&m.ID, &ended, &m.Problem, &m.Namespace, &m.Node, &m.SourceKind, &m.SourceName, &m.Handler.Namespace, &m.Handler.Name,
			&m.Route, &m.Kind, &m.Tells, &m.Count, &m.State, &m.Payload)
		m.Ended, m.Count = fromNanos(ended), max(m.Count, 1)
		return m, err
	}, `SELECT o.id, o.ended, o.problem, COALESCE(p.namespace, ''), COALESCE(p.node, ''), COALESCE(p.source_kind, 0), COALESCE(p.source_name, ''),
		o.handler_ns, o.handler, o.route, o.kind, CASE WHEN o.tells = '' THEN o.kind ELSE o.tells END, o.problems, o.state, `+payload+`
		FROM history_outbox o LEFT JOIN history_problems p ON p.id = o.problem WHERE `+w.sql("")+` ORDER BY o.ended DESC, o.id DESC`+limit(q.Limit), w.args...)
}
