package history_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/store/history"
)

// dump is all that a store tells, as lines of JSON.
func dump(t *testing.T, s history.Store) string {
	t.Helper()
	var out strings.Builder
	say := func(what string, v any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString(what + " " + string(line) + "\n")
	}
	ctx := t.Context()
	places, err := s.Places(ctx)
	say("places", places, err)
	for _, q := range []history.EntryQuery{{}, {NodeID: 3}, {Namespace: "default", Node: "web02", Check: "disk"}, {Node: "gone"}} {
		entries, err := s.Entries(ctx, q)
		say("entries", q.Node, err)
		for _, e := range entries {
			say("entry", []any{e, e.Partition, e.Place}, nil)
		}
	}
	for _, q := range []history.ProblemQuery{{}, {NodeID: 3}, {Namespace: "default", Node: "web02", Check: "disk"}, {Open: true, Limit: 3}} {
		problems, err := s.Problems(ctx, q)
		say("problems", q.Node, err)
		for _, p := range problems {
			say("problem", p, nil)
			deliveries, err := s.Deliveries(ctx, p.ID)
			say("deliveries", deliveries, err)
		}
	}
	escalations, err := s.Escalations(ctx)
	for _, e := range escalations {
		say("escalation", []any{e.EscalationKey, e}, nil)
	}
	say("escalations", len(escalations), err)
	unsent, err := s.Unsent(ctx)
	say("unsent", unsent, err)
	standing, err := s.Standing(ctx)
	say("standing", standing, err)
	return out.String()
}
