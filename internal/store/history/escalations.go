package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// alsoNotified is one problem more of a message that tells of several.
type alsoNotified struct{ key, problem string }

func escalationRow(args []any, e *encoded) []any { return append(args, e.Problem, e.Route, e.body) }

func alsoRow(args []any, t *alsoNotified) []any { return append(args, t.key, t.problem) }

// encoded is an escalation as it is written.
type encoded struct {
	EscalationKey
	body []byte
}

func encodeEscalations(list []Escalation) ([]encoded, error) {
	out := make([]encoded, len(list))
	for i := range list {
		body, err := json.Marshal(&list[i])
		if err != nil {
			return nil, fmt.Errorf("encode escalation of problem %s: %w", list[i].Problem, err)
		}
		out[i] = encoded{list[i].EscalationKey, body}
	}
	return out, nil
}

func decodeEscalation(key EscalationKey, body []byte) (Escalation, error) {
	e := Escalation{EscalationKey: key}
	if err := json.Unmarshal(body, &e); err != nil {
		return e, fmt.Errorf("read escalation of problem %s on route %s: %w", key.Problem, key.Route, err)
	}
	e.EscalationKey = key
	return e, nil
}

// escalate writes what a batch says of escalations.
func (s *sqlStore) escalate(ctx context.Context, tx *sqldb.Tx, b *Batch) error {
	rows, err := encodeEscalations(b.Escalations)
	if err != nil {
		return err
	}
	if err := s.escalations.Insert(ctx, tx, rows); err != nil {
		return err
	}
	for _, key := range b.Finished {
		if _, err := tx.Exec(ctx, `DELETE FROM history_escalations WHERE problem = ? AND route = ?`, key.Problem, key.Route); err != nil {
			return err
		}
	}
	var also []alsoNotified
	for i := range b.Deliveries {
		for _, problem := range b.Deliveries[i].Also {
			also = append(also, alsoNotified{b.Deliveries[i].Key, problem})
		}
	}
	return s.also.Insert(ctx, tx, also)
}

func (s *sqlStore) AlsoProblems(ctx context.Context, key string) (problems []string, err error) {
	rows, err := s.db.Query(ctx, `SELECT problem FROM history_told WHERE key = ? ORDER BY problem`, key)
	if err != nil {
		return nil, fmt.Errorf("read what a delivery tells of: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var problem string
		if err := rows.Scan(&problem); err != nil {
			return nil, fmt.Errorf("read what a delivery tells of: %w", err)
		}
		problems = append(problems, problem)
	}
	return problems, rows.Err()
}

func (s *sqlStore) Escalations(ctx context.Context) ([]Escalation, error) {
	return s.readEscalations(ctx, `SELECT problem, route, body FROM history_escalations ORDER BY problem, route`)
}

func (s *sqlStore) EscalationsOf(ctx context.Context, problem string) ([]Escalation, error) {
	return s.readEscalations(ctx, `SELECT problem, route, body FROM history_escalations WHERE problem = ? ORDER BY route`, problem)
}

func (s *sqlStore) readEscalations(ctx context.Context, query string, args ...any) ([]Escalation, error) {
	rows, err := s.db.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read escalations: %w", err)
	}
	defer rows.Close()
	var out []Escalation
	for rows.Next() {
		var key EscalationKey
		var body []byte
		if err := rows.Scan(&key.Problem, &key.Route, &body); err != nil {
			return nil, fmt.Errorf("read escalations: %w", err)
		}
		e, err := decodeEscalation(key, body)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, rows.Err()
}

// Compare orders by handler and id.
func (t NotifiedHandler) Compare(other NotifiedHandler) int {
	return cmp.Or(cmp.Compare(t.Namespace, other.Namespace), cmp.Compare(t.Name, other.Name), cmp.Compare(t.Incident, other.Incident))
}

// Compare orders keys by problem and route.
func (k EscalationKey) Compare(other EscalationKey) int {
	return cmp.Or(cmp.Compare(k.Problem, other.Problem), cmp.Compare(k.Route, other.Route))
}
