package load

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// TestScoreStopped cuts a score off, and expects that earlier parts stay and the last one is shorter.
func TestScoreStopped(t *testing.T) {
	s := score{{Phase: 1, From: 0, To: 10, Rate: 1}, {Phase: 1, From: 10, To: 30, Virtual: 10, Rate: 1, Measured: true}, {Phase: 2, From: 30, To: 50, Virtual: 30, Rate: 2, Measured: true}}
	for _, c := range []struct {
		at, end int64
		parts   int
		short   bool
	}{{5, 5, 1, true}, {10, 10, 1, false}, {20, 20, 2, true}, {31, 31, 3, true}, {50, 50, 3, false}, {70, 50, 3, false}} {
		got := s.stopped(c.at)
		if len(got) != c.parts || got.end() != c.end || got[len(got)-1].Short != c.short {
			t.Errorf("at %d: %+v", c.at, got)
		}
		for i := range got[:len(got)-1] {
			if got[i] != s[i] {
				t.Errorf("at %d: part %d is %+v", c.at, i, got[i])
			}
		}
	}
	if s[2].Short || s.end() != 50 {
		t.Errorf("the score itself was changed: %+v", s)
	}
}

// TestPlayedIsSaidBeforeTheDrain stalls the server, and expects the call of Config.Played at the end of the timetable,
// before the last acknowledgement.
func TestPlayedIsSaidBeforeTheDrain(t *testing.T) {
	var began time.Time
	var took []time.Duration
	cfg := Config{Scenario: towns(scenario.Phase{Ramp: sec(1)}, scenario.Phase{Steady: sec(5)}, scenario.Phase{Drain: sec(60)}),
		Begun: func() { began = time.Now() }, Played: func() { took = append(took, time.Since(began)) }}
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
	cfg := Config{Scenario: sc, Stop: stop, Begun: func() { began = time.Now() }, Played: func() { took = time.Since(began) }}
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

// TestASenderThatWaitsForTurnsIsStopped shortens the score of a sender that only waits for round-robin runs, and
// expects that it ends then.
func TestASenderThatWaitsForTurnsIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{epoch: time.Now()}
		r.follow(forever(0, int64(time.Hour)))
		s, over := &sender{run: r, book: newBook(r), inbox: newInbox()}, make(chan struct{})
		go func() {
			s.play(t.Context())
			close(over)
		}()
		time.Sleep(3 * time.Second)
		r.follow(r.present().stopped(r.now() + 2*int64(newScoreWithin)))
		<-over
		if took := time.Duration(r.now()); took > 4*time.Second {
			t.Errorf("after %s", took)
		}
	})
}
