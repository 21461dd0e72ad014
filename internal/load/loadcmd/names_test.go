package loadcmd

import (
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/load/compare"
)

// Runs of one scenario, in folders that the program named, are told apart by their times alone.
func TestRunsAreNamedByTheirTimes(t *testing.T) {
	for _, c := range []struct{ names, want []string }{
		{[]string{"tiny-quick-20261123-120918", "tiny-quick-20261123-121043"}, []string{"20261123-120918", "20261123-121043"}},
		{[]string{"tiny-20261123-120918", "other-20261123-121043"}, nil},
		{[]string{"tiny-20261123-120918", "tiny-20261123-120918"}, nil},
		{[]string{"tiny-20261123-120918", "old"}, nil},
		{[]string{"old", "new"}, nil},
		{[]string{"tiny-quick-20261123-126918", "tiny-quick-20261123-121043"}, nil}, // no such time
	} {
		var sets []compare.Set
		for _, name := range c.names {
			sets = append(sets, compare.Set{Name: name})
		}
		if got := timesOf(sets); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.names, got, c.want)
		}
	}
}
