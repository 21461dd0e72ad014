package load

import (
	"testing"

	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// TestOfferedIsKnownAtOnce reads the log while a run lasts, and expects the planned results of each second as soon as
// it has ended, even if the next result is far off, and all results at the end.
func TestOfferedIsKnownAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		agents, every, seconds int
		senders                int
	}{
		"5 results/s":                  {10, 2, 20, 1},
		"5 results/s of two senders":   {10, 2, 20, 2},
		"a result in three seconds":    {1, 3, 30, 1},
		"1500 results/s":               {1500, 1, 6, 2},
		"fewer agents than it has CPU": {1, 1, 10, 4},
	} {
		t.Run(name, func(t *testing.T) {
			sc := &scenario.Scenario{Name: "sparse", Seed: 5, Phases: []scenario.Phase{{Steady: sec(c.seconds)}},
				Agents: []scenario.Class{{Name: "web", Count: c.agents, Checks: []scenario.Check{{Name: "disk", Interval: sec(c.every)}}}}}
			var live []report.Sample
			rep := playOn(t, Config{Options: play.Options{Scenario: sc, Senders: c.senders}, Events: Events{Progress: func(s report.Sample) { live = append(live, s) }}}, &ideal{})
			shown, sent, seconds := uint64(0), uint64(0), 0
			ahead := uint64(c.agents/c.every) / 10 // sent since the second ended: it is looked at a little later
			for i, s := range live {
				if s.Second < 0 {
					continue
				}
				seconds++
				shown += s.Offered
				if s.Offered != rep.Samples[i].Offered {
					t.Errorf("second %d: %d were offered, says who looked, %d the report", s.Second, s.Offered, rep.Samples[i].Offered)
				}
				if sent += s.Sent; shown+ahead < sent {
					t.Errorf("after second %d: %d offered, %d sent", s.Second, shown, sent)
				}
			}
			if want := uint64(c.agents * c.seconds / c.every); shown != want || seconds != c.seconds {
				t.Errorf("%d offered in all of %d seconds, want %d", shown, seconds, want)
			}
		})
	}
}
