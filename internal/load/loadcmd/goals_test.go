package loadcmd

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// TestGoals expects a list for --goal help, and errors that name the unit of a goal.
func TestGoals(t *testing.T) {
	text, err := loadCommand(t, "", "run", "--goal", "help")
	if err != nil || strings.Count(text, "\n") != 1+len(scenario.Figures()) || !strings.Contains(text, "server-cpu      at most   µs ") {
		t.Errorf("%v\n%s", err, text)
	}
	for goal, says := range map[string]string{"p99=60kB": "60kB is no limit in ms: write 60ms", "p98=60ms": "there is no figure \"p98\"\n  did you mean p99? want NAME=LIMIT, such as --goal p99=800ms", "p99": "the limit is missing\n  p99 is in ms: such as --goal p99=60ms",
		"rate=-1": "above 0\n  rate is in results/s: such as --goal rate=60", "allocs=x": "--goal allocs=60", "server-cpu=x": "--goal server-cpu=60us", "nonsense=1": "\n  want NAME=LIMIT"} {
		if _, err := loadCommand(t, "", "run", "--goal", goal); model.ClassOf(err) != model.Invalid || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", goal, err, says)
		}
	}
}
