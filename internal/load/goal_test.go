package load

import (
	"testing"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

// A figure that a scenario can ask for is found in a report, and no other.
func TestEveryFigureIsFound(t *testing.T) {
	where := found()
	for _, f := range scenario.Figures() {
		if where[f.Name] == nil {
			t.Errorf("%s: nobody knows where a report has it", f.Name)
		}
		delete(where, f.Name)
	}
	for name := range where {
		t.Errorf("%s: no scenario can ask for it", name)
	}
}
