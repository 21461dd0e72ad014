package load

import (
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

// hurried returns a run whose second phase speeds a pipeline up.
func hurried(pipeline string, times float64) *run {
	phases := []scenario.Phase{{Steady: sec(20), Rate: 1}, {Steady: sec(20), Rate: 1, Faster: map[string]float64{pipeline: times}}, {Steady: sec(20), Rate: 3}}
	r := &run{cfg: Config{Scenario: &scenario.Scenario{Seed: 7, Phases: phases}}, epoch: time.Now()}
	r.follow(newScore(phases, 0))
	return r
}

// TestTempoOfAPipeline expects that only the virtual time of the pipeline that a phase speeds up runs faster.
func TestTempoOfAPipeline(t *testing.T) {
	r := hurried(scenario.People, 4)
	for _, c := range []struct {
		pipeline      string
		virtual, real int
	}{{scenario.People, 10, 10}, {scenario.People, 20, 20}, {scenario.People, 60, 30}, {scenario.People, 110, 50}, {scenario.Intent, 50, 50}} {
		s := r.tempo(c.pipeline)
		if at := s.meant(int64(sec(c.virtual))); at != int64(sec(c.real)) {
			t.Errorf("%s: virtual %d s is meant at %s, want %d s", c.pipeline, c.virtual, time.Duration(at), c.real)
		}
		if v := s.virtual(int64(sec(c.real))); v != int64(sec(c.virtual)) {
			t.Errorf("%s: at %d s it is virtually %s", c.pipeline, c.real, time.Duration(v))
		}
	}
	s := r.tempo(scenario.People)
	if s.meant(int64(sec(120))) != never || s.virtual(int64(sec(99))) != int64(sec(120)) || s.virtual(-1) >= 0 {
		t.Errorf("beyond its ends: %d, %d, %d", s.meant(int64(sec(120))), s.virtual(int64(sec(99))), s.virtual(-1))
	}
}

// TestIntentFourTimesAsFast expects earlier times of changes of intent in a phase that speeds them up.
func TestIntentFourTimesAsFast(t *testing.T) {
	b := beside{hurried(scenario.Intent, 4), scenario.Intent}
	var at []int
	for due := 10; due < 130; due += 20 {
		at = append(at, int(b.Meant(b.Virtual(b.Zero())+int64(sec(due)))/int64(time.Second)))
	}
	if want := []int{10, 22, 27, 32, 37, 50}; !slices.Equal(at, want) {
		t.Errorf("%v, want %v", at, want)
	}
}
