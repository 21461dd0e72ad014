package compliance

import (
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestChangesAreTaken applies equal and different runs, and expects TakeChanges to return only runs with a changed
// result. After a restart, or after too many changes, it returns all nodes.
func TestChangesAreTaken(t *testing.T) {
	v := newTestView()
	take := func(what string, want ...RunChange) {
		t.Helper()
		if got := v.TakeChanges(v.now()); !slices.Equal(got, want) {
			t.Errorf("%s: changes %+v, want %+v", what, got, want)
		}
	}
	one, all := RunChange{7, 1000}, RunChange{Node: 7}
	good, bad := report(policy.Compliant, policy.Compliant, policy.Compliant), report(policy.Compliant, policy.Error, policy.Compliant)
	v.report(t, 5, wire.Live, 0, good)
	take("start", all)
	v.report(t, 5, wire.Live, 0, good)
	take("equal run")
	v.report(t, 5, wire.Live, 0, bad)
	take("other codes", one)
	unexpected := bad
	unexpected.Exceptions = []wire.ReportException{{Position: 3, Message: "surprise"}}
	v.report(t, 5, wire.Live, 0, unexpected)
	take("unexpected component", one)
	v.report(t, 8, wire.Live, 0, unexpected)
	take("other definition", one)
	v.number += 4 // minutes: the run may have been overdue
	v.report(t, 8, wire.Live, 0, unexpected)
	take("equal run that came late", one)
	v.TakeChanges(v.now().Add(11 * time.Minute)) // the view lags behind the clock, or the clock is set back afterwards
	v.report(t, 8, wire.Live, 0, unexpected)
	v.report(t, 8, wire.Live, 0, unexpected)
	take("equal runs that came before a judgement", one, one)
	body, at := v.events.Snapshot(7, nil)
	v.apply(t, wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordForget, Node: 7, Forget: &wire.ForgetRecord{Check: 1000}}))
	take("removed directive", one)
	for i := range maxChanges + 1 {
		v.report(t, 5, wire.Live, 0, []wire.Report{good, bad}[i%2])
	}
	take("more changes than are kept", all)
	v.report(t, 5, wire.Live, 0, bad)
	take("afterwards", one)
	v = newTestView()
	testenv.NoError(t, v.events.Restore(7, at, body))
	take("restart from a snapshot", all)
}
