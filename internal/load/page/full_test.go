package page

import (
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
)

// kept returns a report that the project keeps.
func kept(t *testing.T, name string) *report.Report {
	t.Helper()
	rep, err := report.Read("../../../bench/results/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// full returns a report with every part that a report can have: of all pipelines, with the faults and refusals of a bad day,
// the steps of a search for saturation, and a wrong result.
func full(t *testing.T) *report.Report {
	t.Helper()
	rep, day, search := kept(t, "muster-mixed"), kept(t, "muster-bad-day"), kept(t, "muster-saturation")
	rep.Faults, rep.Outages, rep.Refusals, rep.Losses = day.Faults, day.Outages, day.Refusals, day.Losses
	rep.Phases = append(rep.Phases, search.Phases...)
	rep.Balance.Missing, rep.Valid = 1, false
	rep.Balance.Add(report.Imbalance{Node: 17, Name: "web-00017", Check: 3, CheckName: "web-ping-003", Number: 942, Kind: "acknowledged and lost"}, "41 results applied, 42 acknowledged")
	rep.Goals = append(rep.Goals, report.Goal{Name: "beyond-p99", Want: 60, Got: 61}, report.Goal{Name: "back", Want: 5, Why: "not measured in this run"})
	rep.Loaders = []report.Loader{{Name: "alpha", Here: true, Agents: 100}, {Name: "beta", Agents: 100, Clock: 0.2}}
	return rep
}
