package judge

import (
	"reflect"
	"testing"

	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
)

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
