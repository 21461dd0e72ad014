package load

import (
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// TestLeftUndoneIsSaid plays a run without a login, and expects that its report names all parts that need one.
func TestLeftUndoneIsSaid(t *testing.T) {
	sc := &scenario.Scenario{
		Faults:    []scenario.Fault{{Stop: &scenario.Pick{Count: 1}}},
		Intent:    []scenario.Change{{Create: 1, Kind: "check"}},
		Operators: scenario.Operators{Lists: 1},
	}
	r := undriven(of(sc))
	want := []string{
		"whether healthy machines were called silent was not judged: there was no login",
		"intent was not changed: there was no login",
		"operators did nothing: there was no login",
		"alerts of the faults were not judged: there was no login",
	}
	if got := r.leftUndone(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	sc.Faults, sc.Operators = []scenario.Fault{{Cut: &scenario.Pick{}}}, scenario.Operators{}
	if got := r.leftUndone(); !slices.Equal(got, want[:2]) {
		t.Errorf("%q", got)
	}
	r.cfg.API = &client.Client{}
	if got := r.leftUndone(); got != nil {
		t.Errorf("%q", got)
	}
}
