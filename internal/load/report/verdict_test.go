package report

import (
	"path/filepath"
	"testing"
)

// TestFailedLateAndLost expects that trouble counts as failed, a phase that missed something as late, and a difference of the
// ledger, a wrong alert and a wrong result that was taken as lost; a report that was saved and read says the same.
func TestFailedLateAndLost(t *testing.T) {
	for name, c := range map[string]struct {
		rep                Report
		failed, late, lost bool
	}{
		"nothing":           {rep: Report{}},
		"nobody answered":   {rep: Report{Trouble: []string{"1 of 2 requests failed"}}, failed: true},
		"no renames":        {rep: Report{Trouble: []string{"1 rename failed"}}, failed: true},
		"settled too late":  {rep: Report{Course: Course{Phases: []Played{{Kind: "steady", Assessment: Assessment{Missed: []string{"p99"}}}}}}, late: true},
		"a step that broke": {rep: Report{Course: Course{Phases: []Played{{Kind: KindStep, Offered: 1}, {Kind: KindStep, Offered: 2, Apart: true, Assessment: Assessment{Missed: []string{"p99"}}}}}}},
		"no step that held": {rep: Report{Course: Course{Phases: []Played{{Kind: KindStep, Offered: 1, Apart: true, Assessment: Assessment{Missed: []string{"p99"}}}}}}, failed: true},
		"stopped in a step": {rep: Report{Stopped: &Stopped{}, Course: Course{Phases: []Played{{Kind: KindStep, Offered: 1, Apart: true, Assessment: Assessment{Missed: []string{"p99"}}}}}}},
		"it crashed":        {rep: Report{Trouble: []string{"the server under test ended by itself: signal: killed"}}, failed: true},
		"not to be read":    {rep: Report{Trouble: []string{"what the server holds could not be read: connection refused"}}, failed: true},
		"not asked for":     {rep: Report{Course: Course{Targeted: &Targeted{Name: "sensu", Totals: Totals{Requests: 5, Missed: 1}}}}, failed: true},
		"hung up on":        {rep: Report{Course: Course{Targeted: &Targeted{Name: "sensu", Totals: Totals{Lost: 1}}}}, failed: true},
		"refused as it had": {rep: Report{Traffic: Traffic{WrongSent: 5}, Balance: &Balance{Refused: 5}}},
		"refused, and good": {rep: Report{Traffic: Traffic{WrongSent: 5}, Balance: &Balance{Refused: 6}}, failed: true},
		"a result":          {rep: Report{Balance: &Balance{Missing: 1}}, lost: true},
		"an imbalance":      {rep: Report{Balance: &Balance{Imbalances: 1}}, lost: true},
		"a wrong one taken": {rep: Report{Traffic: Traffic{WrongSent: 5, WrongTaken: 1}}, lost: true},
		"no alert":          {rep: Report{Course: Course{Faults: []Struck{{}, {Missing: 1}}}}, lost: true},
		"a wrong alert":     {rep: Report{Course: Course{Faults: []Struck{{Extra: 1}}}}, lost: true},
	} {
		rep := c.rep
		rep.Schema, rep.Valid = Schema, true
		if rep.Balance == nil {
			rep.Balance = &Balance{}
		}
		if failed, late, lost := len(rep.Failed()) > 0, len(rep.Late()) > 0, rep.Lost(); failed != c.failed || late != c.late || lost != c.lost || rep.well() == (failed || late || lost) {
			t.Errorf("%s: failed %v, late %v, lost %v, well %v", name, failed, late, lost, rep.well())
		}
		path := filepath.Join(t.TempDir(), "run.json")
		if err := rep.Save(path); err != nil {
			t.Fatal(err)
		}
		if read, err := Read(path); err != nil || read.OK() != rep.OK() {
			t.Errorf("%s, read again: %v, %+v", name, err, read)
		}
	}
}
