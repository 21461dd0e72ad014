package judge

import (
	"reflect"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// TestOutages expects outages from the first lost session, or the fault that caused it, until the last agent is back.
func TestOutages(t *testing.T) {
	away := func(from, to, acked float64) observe.Absence {
		return observe.Absence{From: sec(from), To: sec(to), Acked: sec(acked)}
	}
	lasts := observe.Absence{From: sec(20), To: observe.Lasts}
	for name, c := range map[string]struct {
		absences [3][]observe.Absence // of three agents of two loaders
		faults   []observe.Fault
		ready    []time.Duration
		want     []report.Outage
	}{
		"none":                             {},
		"one agent":                        {[3][]observe.Absence{{away(5, 7, 8)}}, nil, nil, []report.Outage{{Second: 5, Lost: 1, Acked: 3, Seconds: 2}}},
		"in the ramp":                      {[3][]observe.Absence{{away(-5, -1, 3)}}, nil, nil, nil},
		"after the end":                    {[3][]observe.Absence{{away(61, 62, 63)}}, nil, nil, nil},
		"not over":                         {[3][]observe.Absence{{lasts}}, nil, nil, []report.Outage{{Second: 20, Lost: 1, Acked: -1, Seconds: -1}}},
		"one behind the other":             {[3][]observe.Absence{{away(5, 7, 8)}, {away(6, 9, 9.5)}, {away(8, 10, 11)}}, nil, nil, []report.Outage{{Second: 5, Lost: 2, Acked: 3, Seconds: 5}}},
		"two":                              {[3][]observe.Absence{{away(5, 7, 8), away(30, 31, 32)}}, nil, nil, []report.Outage{{Second: 5, Lost: 1, Acked: 3, Seconds: 2}, {Second: 30, Lost: 1, Acked: 2, Seconds: 1}}},
		"nothing was acknowledged between": {[3][]observe.Absence{{away(5, 7, 0), away(8, 9, 10)}}, nil, nil, []report.Outage{{Second: 5, Lost: 1, Acked: 5, Seconds: 4}}},
		"the server was killed": {[3][]observe.Absence{{away(12, 17, 18)}, {away(12, 18, 19)}, {away(13, 17, 17.5)}}, []observe.Fault{{At: 10, Server: true}, {At: 50, Server: true}}, []time.Duration{15e9, 51e9},
			[]report.Outage{{Second: 10, Lost: 3, Serving: 5, Acked: 7.5, Seconds: 8, Command: true}}},
		"all were cut":  {[3][]observe.Absence{{away(10, 10.1, 10.5)}, {away(10.2, 10.3, 11)}, {away(10.4, 10.5, 12)}}, []observe.Fault{{At: 10, Cut: 3}}, []time.Duration{10e9}, []report.Outage{{Second: 10, Lost: 3, Acked: 0.5, Seconds: 0.5, Storm: true}}},
		"some were cut": {[3][]observe.Absence{{away(10, 10.1, 10.5)}, {away(10.2, 10.3, 11)}}, []observe.Fault{{At: 10, Cut: 2}}, nil, []report.Outage{{Second: 10, Lost: 2, Acked: 0.5, Seconds: 0.3}}},
	} {
		loaders := []observe.Ledgers{{Agents: []observe.Ledger{{Absences: c.absences[0]}, {Absences: c.absences[1]}}}, {Agents: []observe.Ledger{{Absences: c.absences[2]}}}}
		if got := Outages(loaders, c.faults, c.ready, sec(60)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestFaultsThatStruck expects faults in the order of the scenario, each with the time until the last of its agents has
// a session again.
func TestFaultsThatStruck(t *testing.T) {
	stay := func(from, to float64) observe.Stay { return observe.Stay{From: sec(from), To: sec(to)} }
	loaders := []observe.Ledgers{{Agents: []observe.Ledger{{Member: 0, Stays: []observe.Stay{stay(-5, 10), stay(12, 90)}}, {Member: 2, Stays: []observe.Stay{stay(-5, 40)}}}},
		{Agents: []observe.Ledger{{Member: 1, Stays: []observe.Stay{stay(-5, 10), stay(15, 90)}}, {Member: 3, Stopped: true}}}}
	faults := []observe.Fault{{Number: 4, At: 10, Struck: []int{0, 1, 3}}, {Number: 1, At: 20}, {Number: 2, At: 40}, {Number: 2, At: 50, Over: true, Struck: []int{2}}}
	faults[0].What, faults[0].Places = "cut 3", 3
	score := []plan.Part{{To: int64(8e9), Rate: 1}, {From: int64(8e9), To: int64(90e9), Rate: 1, Measured: true}}
	want := []report.Struck{{At: 12}, {At: 32, Until: 42}, {What: "cut 3", At: 2, Places: 3, Back: 5}}
	if got := Faults(&observe.Checks{Score: score, Ledgers: loaders, Faults: faults}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := Faults(&observe.Checks{Score: score, Faults: faults}); got[2].Back != 0 {
		t.Errorf("without ledgers: %+v", got)
	}
}

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
