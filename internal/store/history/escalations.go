package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// deliveryProblem is a row of history_delivery_problems: a further problem of a delivery.
type deliveryProblem struct{ key, problem string }

// encodedEscalation is a row of history_escalations.
type encodedEscalation struct {
	EscalationKey
	body []byte
}

func encodeEscalations(list []Escalation) ([]encodedEscalation, error) {
	out := make([]encodedEscalation, len(list))
	for i := range list {
		body, err := json.Marshal(&list[i])
		if err != nil {
			return nil, fmt.Errorf("encode escalation of problem %s: %w", list[i].Problem, err)
		}
		out[i] = encodedEscalation{list[i].EscalationKey, body}
	}
	return out, nil
}

func decodeEscalation(key EscalationKey, body []byte) (Escalation, error) {
	e := Escalation{EscalationKey: key}
	if err := json.Unmarshal(body, &e); err != nil {
		return e, fmt.Errorf("decode escalation of problem %s on route %q: %w", key.Problem, key.Route, err)
	}
	e.EscalationKey = key
	return e, nil
}

// recordEscalations writes the escalations of a batch, and the further problems of its deliveries.
func (s *sqlStore) recordEscalations(ctx context.Context, tx *sqldb.Tx, b *Batch) error {
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
	var also []deliveryProblem
	for i := range b.Deliveries {
		for _, problem := range b.Deliveries[i].Also {
			also = append(also, deliveryProblem{b.Deliveries[i].Key, problem})
		}
	}
	return s.also.Insert(ctx, tx, also)
}

func (s *sqlStore) AlsoProblems(ctx context.Context, key string) ([]string, error) {
	return list(ctx, s.db, "the problems of a delivery", column[string], `SELECT problem FROM history_delivery_problems WHERE key = ? ORDER BY problem`, key)
}

func (s *sqlStore) Escalations(ctx context.Context) ([]Escalation, error) {
	return list(ctx, s.db, "escalations", scanEscalation, `SELECT problem, route, body FROM history_escalations ORDER BY problem, route`)
}

func (s *sqlStore) EscalationsOf(ctx context.Context, problem string) ([]Escalation, error) {
	return list(ctx, s.db, "escalations", scanEscalation, `SELECT problem, route, body FROM history_escalations WHERE problem = ? ORDER BY route`, problem)
}

func scanEscalation(scan scanner) (Escalation, error) {
	var key EscalationKey
	var body []byte
	if err := scan(&key.Problem, &key.Route, &body); err != nil {
		return Escalation{}, err
	}
	return decodeEscalation(key, body)
}

// Compare orders by handler and incident.
func (t NotifiedHandler) Compare(other NotifiedHandler) int {
	return cmp.Or(cmp.Compare(t.Namespace, other.Namespace), cmp.Compare(t.Name, other.Name), cmp.Compare(t.Incident, other.Incident))
}

// Compare orders keys by problem and route.
func (k EscalationKey) Compare(other EscalationKey) int {
	return cmp.Or(cmp.Compare(k.Problem, other.Problem), cmp.Compare(k.Route, other.Route))
}
