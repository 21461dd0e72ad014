package load

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// TestPlayedIsSaidBeforeTheDrain stalls the server, and expects the call of Config.Played at the end of the timetable,
// before the last acknowledgement.
func TestPlayedIsSaidBeforeTheDrain(t *testing.T) {
	var began time.Time
	var took []time.Duration
	cfg := of(towns(scenario.Phase{Ramp: sec(1)}, scenario.Phase{Steady: sec(5)}, scenario.Phase{Drain: sec(60)}))
	cfg.Begun, cfg.Played = func() { began = time.Now() }, func() { took = append(took, time.Since(began)) }
	rep := playOn(t, cfg, &ideal{stall: 20 * time.Second})
	if b := rep.Balance; len(took) != 1 || took[0] < 5*time.Second || took[0] > 7*time.Second || b.Sent != b.Acknowledged {
		t.Errorf("said after %s; ledger %+v", took, rep.Balance)
	}
}

// TestASenderThatSleepsIsStopped stops a run whose next result is minutes away, and expects that it ends soon, without
// that result.
func TestASenderThatSleepsIsStopped(t *testing.T) {
	sc := &scenario.Scenario{Name: "rare", Seed: 5, Agents: []scenario.Class{{Name: "web", Count: 1, Checks: []scenario.Check{{Name: "disk", Interval: sec(3600)}}}},
		Phases: []scenario.Phase{{Ramp: sec(1)}, {Steady: sec(3600)}, {Drain: sec(5)}}}
	var began time.Time
	var took time.Duration
	stop := make(chan string, 1)
	cfg := Config{Options: play.Options{Scenario: sc}, Events: Events{Stop: stop, Begun: func() { began = time.Now() }, Played: func() { took = time.Since(began) }}}
	cfg.Progress = func(s report.Sample) {
		if s.Second == 3 {
			stop <- ""
		}
	}
	rep := playOn(t, cfg, &ideal{})
	if rep.Stopped == nil || took > 6*time.Second || rep.Balance.Sent > 0 {
		t.Errorf("stopped %+v, the timetable was over after %s, %d results", rep.Stopped, took, rep.Balance.Sent)
	}
}
