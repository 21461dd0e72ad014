package simulated

import (
	"os"
	"testing"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestNamespaceHasRoomForSeries expects a limit of series above the 3.8 million items with numbers of a shipped scenario.
// A scenario without values leaves the server's limit.
func TestNamespaceHasRoomForSeries(t *testing.T) {
	shipped, err := os.ReadFile("../../../bench/scenarios/glaber-400000-values.yaml")
	testenv.NoError(t, err)
	const header = "scenario: muster.load/v1\nphases: [{steady: 10s}]\n"
	for text, want := range map[string]int{
		string(shipped): 7_600_000,
		header + "agents: [{name: a, count: 4, values: [{name: item, count: 20, interval: 1s}]}]\n": leastSeries,
		header + "agents: [{name: a, count: 4, checks: [{name: c, interval: 1s}]}]\n":               0,
	} {
		sc, err := scenario.Parse("x.yaml", []byte(text))
		testenv.NoError(t, err)
		sc.Defaults()
		got := 0
		if l := Resources(sc)[0].Spec.(*model.NamespaceSpec).Limits; l != nil {
			got = l.Series
		}
		if got != want {
			t.Errorf("limit of %d series, want %d, in\n%s", got, want, text)
		}
	}
}
