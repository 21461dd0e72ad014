package compliance

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/store/compliancelog"
)

// TestDailyReportSeparatesDriftFromDeclaredChanges adds changes of runs one by one, and compares the sums of each day. Drift, repairs and
// remediation count; changes of declarations or modes are not drift.
func TestDailyReportSeparatesDriftFromDeclaredChanges(t *testing.T) {
	day := (24 * time.Hour).Milliseconds()
	r := dayReport{since: 10 * day, days: make([]daySums, 3), wrong: map[component]int64{}, definition: func(model.DefinitionID) *model.Definition { return nil }}
	last := map[model.NodeID]compliancelog.State{}
	run := func(node model.NodeID, definition model.DefinitionID, enforced bool, at int64, statuses ...policy.Status) {
		t.Helper()
		after := compliancelog.State{Node: node, Unit: 1, Definition: definition, Enforced: enforced, Executed: at, Changed: at, Components: len(statuses), Codes: policy.NewCodes(len(statuses))}
		for i, s := range statuses {
			after.Codes.Set(i, s)
		}
		r.add(&compliancelog.Change{Before: last[node], After: after})
		last[node] = after
	}
	run(1, 5, false, 9*day, policy.Compliant, policy.NonCompliant)          // before the period: wrong since
	run(1, 5, false, 10*day+day/2, policy.NonCompliant, policy.Compliant)   // first day: one drifts, one is remediated after 1.5 days
	run(1, 5, true, 11*day+1, policy.Repaired, policy.Success)              // second day: enforced now, both codes are intended; remediated after half a day
	run(1, 5, true, 11*day+2, policy.Success, policy.Success)               // nothing but its repair has ended
	run(1, 5, true, 11*day+3, policy.Success, policy.Repaired)              // an agent repaired a drift
	run(1, 6, true, 12*day+1, policy.Error, policy.Success, policy.Success) // third day: another declaration
	run(2, 5, false, 12*day+2, policy.Compliant, policy.Compliant)          // a new node
	run(2, 5, false, 12*day+2, policy.NonCompliant, policy.Compliant)       // drifts
	run(2, 5, false, 12*day+3, policy.Waived, policy.Compliant)             // a waiver begins: intended, and nobody has to remediate
	run(2, 5, false, 12*day+9, policy.NonCompliant, policy.Compliant)       // it ends
	run(2, 5, false, 12*day+12, policy.Compliant, policy.Compliant)         // remediated 3 ms after the waiver's end
	run(1, 0, false, 12*day+13)                                             // the directive leaves the node
	want := []daySums{
		{drifted: 1, remediated: 1, unfulfilled: 36 * time.Hour},
		{repaired: 1, remediated: 1, unfulfilled: 12*time.Hour + time.Millisecond, intended: 2},
		{drifted: 1, remediated: 1, unfulfilled: 3 * time.Millisecond, intended: 10},
	}
	for i := range want {
		got := r.days[i]
		got.counts = policy.Counts{}
		if got != want[i] {
			t.Errorf("day %d: %+v, want %+v", i, got, want[i])
		}
	}
	counts := r.first
	for i, text := range []string{"50.00", "100.00", "100.00"} {
		if counts.Add(&r.days[i].counts); counts.Compliance(2) != text {
			t.Errorf("day %d: %v are %s %%, want %s", i, counts, counts.Compliance(2), text)
		}
	}
	if counts.Total() != 2 || len(r.wrong) != 0 {
		t.Errorf("counts %v, wrong components %v", counts, r.wrong)
	}
}
