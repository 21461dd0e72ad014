package report

import (
	"path/filepath"
	"testing"
)

// TestReportThatWasReadSaysWhatTheRunSaid saves and reads failed reports, and expects the same verdict, even if the
// reason is not in the file.
func TestReportThatWasReadSaysWhatTheRunSaid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	rep := &Report{Schema: Schema, Valid: true, Balance: &Balance{}, Trouble: []string{"a fault could not be played: no such command"}}
	for _, want := range []bool{false, true} {
		if want {
			rep.Trouble = nil
		}
		if err := rep.Save(path); err != nil {
			t.Fatal(err)
		}
		if read, err := Read(path); err != nil || read.OK() != want || rep.OK() != want {
			t.Errorf("want %t: %v, %+v", want, err, read)
		}
	}
}

// TestLost expects that differences of the ledger, wrong alerts and wrongly accepted results count as losses.
func TestLost(t *testing.T) {
	for name, c := range map[string]struct {
		rep  Report
		want bool
	}{
		"nothing":       {Report{}, false},
		"slow":          {Report{Goals: []Goal{{Name: "p99"}}}, false},
		"invalid":       {Report{Valid: false}, false},
		"refused":       {Report{Traffic: Traffic{WrongSent: 5}}, false},
		"missing":       {Report{Balance: &Balance{Missing: 1}}, true},
		"imbalance":     {Report{Balance: &Balance{Imbalances: 1}}, true},
		"taken":         {Report{Traffic: Traffic{WrongSent: 5, WrongTaken: 1}}, true},
		"no alert":      {Report{Course: Course{Faults: []Struck{{}, {Missing: 1}}}}, true},
		"a wrong alert": {Report{Course: Course{Faults: []Struck{{Extra: 1}}}}, true},
	} {
		if c.rep.Balance == nil {
			c.rep.Balance = &Balance{}
		}
		if got := c.rep.Lost(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestWhatFailedIsNeitherLostNorLate expects that unanswered requests count as failures, and late ones only as late.
func TestWhatFailedIsNeitherLostNorLate(t *testing.T) {
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
		"something lost":    {rep: Report{Balance: &Balance{Missing: 1}}, lost: true},
	} {
		rep := c.rep
		rep.Valid = true
		if rep.Balance == nil {
			rep.Balance = &Balance{}
		}
		if failed, late, lost := len(rep.Failed()) > 0, len(rep.Late()) > 0, rep.Lost(); failed != c.failed || late != c.late || lost != c.lost || rep.well() == (failed || late || lost) {
			t.Errorf("%s: failed %v, late %v, lost %v, well %v", name, failed, late, lost, rep.well())
		}
	}
}
