package play

import (
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// TestFaultDecidesByIntendedTime checks that a sender that is behind gives a fault's status to exactly those results whose intended
// time the fault covers: those are the results by which its alerts are judged.
func TestFaultDecidesByIntendedTime(t *testing.T) {
	a := &agent{}
	next := func(intended int64, want model.Status, differs bool) {
		t.Helper()
		if status, changed := a.fate.status(3, model.OK, false, intended); status != want || changed != differs {
			t.Errorf("intended at %d: %s, changed %t", intended, status, changed)
		}
	}
	next(90, model.OK, false)
	a.force([]int{3}, model.Critical, 100)
	next(95, model.OK, false) // made after the fault began, intended before
	next(100, model.Critical, true)
	next(150, model.Critical, false)
	a.release([]int{3}, 200)
	next(199, model.Critical, false) // made after the fault ended, intended before
	next(200, model.OK, true)
	next(210, model.OK, false)
	a.force([]int{3}, model.Critical, 300)
	a.release([]int{3}, 310)
	next(320, model.OK, false) // no result was intended within the fault
	if len(a.fate.forced) > 0 {
		t.Errorf("%+v is left", a.fate.forced)
	}
}
