package load

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// TestAScoreThatIsHeardLate sends a follower late orders, and expects that a late end is carried out and reported, and
// that another change is an error with both possible causes.
func TestAScoreThatIsHeardLate(t *testing.T) {
	for name, c := range map[string]struct {
		late   time.Duration
		change func(s plan.Timetable, at int64) plan.Timetable
		taken  bool
	}{
		"stopped, in time":         {-time.Second, plan.Timetable.Stopped, true},
		"stopped":                  {5 * time.Second, plan.Timetable.Stopped, true},
		"stopped, a phase ago":     {30 * time.Second, plan.Timetable.Stopped, true},
		"cut before another phase": {time.Second, plan.Timetable.Cut, false},
		"repeated, in time":        {-time.Second, func(s plan.Timetable, at int64) plan.Timetable { return s.Repeated(0, 1, at) }, true},
		"repeated":                 {time.Second, func(s plan.Timetable, at int64) plan.Timetable { return s.Repeated(0, 1, at) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := &scenario.Scenario{Phases: []scenario.Phase{{Step: sec(20), By: 1, To: 2}, {Steady: sec(20)}}}
				r := undriven(of(sc))
				time.Sleep(time.Second)
				begin := r.Now()
				r.Start(begin)
				r.Follow(plan.NewTimetable(sc.Phases, begin))
				from := 25 * time.Second
				s := c.change(r.Present(), begin+int64(from))
				time.Sleep(from + c.late)
				err := r.another(from, s.Since(begin))
				if (err == nil) != c.taken {
					t.Fatal(err)
				}
				if err != nil {
					if model.ClassOf(err) != model.Unavailable || !strings.Contains(err.Error(), "a phase ends: the connection to the loader that leads is too slow, or this machine is too busy") {
						t.Error(err)
					}
					return
				}
				if r.Present().End() != s.End() || r.late.Load() != max(0, int64(c.late)) {
					t.Errorf("it ends at %d, want %d; late by %d", r.Present().End(), s.End(), r.late.Load())
				}
			})
		})
	}
}
