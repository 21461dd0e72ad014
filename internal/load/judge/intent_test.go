package judge

import (
	"testing"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// TestIntent expects the time from the answer to a change until agents hold it, and counts of agents that never do and
// of changes not made.
func TestIntent(t *testing.T) {
	rows := Intent([]scenario.Change{{Create: 1, Kind: "check"}, {Create: 2, Kind: "check"}}, []observe.Intent{
		{Meant: sec(10), Answered: sec(11), Agents: 3, Held: []int64{sec(10.5), sec(13), sec(12)}},
		{Meant: sec(20), Answered: sec(22), Agents: 3, Held: []int64{sec(23)}, Never: 1},
		{Meant: sec(30), Answered: sec(60), Unasked: true},
		{Meant: sec(40), Answered: sec(60), Unasked: true, Away: true},
	})
	near := func(got, want float64) bool { return got > 0.99*want && got < 1.01*want }
	r := rows[0]
	if len(rows) != 2 || r.Changes != 2 || r.Agents != 6 || r.Never != 1 || r.Unasked != 2 || r.UnaskedAway != 1 || rows[1].Changes != 0 || rows[1].What == r.What {
		t.Errorf("%+v", rows)
	}
	if !near(r.Holds.Max, 2000) || r.Holds.P50 > 1010 || !near(r.All.Max, 2000) || !near(r.All.P50, 2000) || !near(r.Answered.Max, 30_000) {
		t.Errorf("%+v", r)
	}
}
