package load

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// sec returns a duration of n seconds.
func sec(n int) model.Duration { return model.Duration(time.Duration(n) * time.Second) }

// TestScoreMapsVirtualTime expects that virtual time runs faster and slower with the rates of phases, and that its real
// times are in order.
func TestScoreMapsVirtualTime(t *testing.T) {
	s := newScore([]scenario.Phase{{Ramp: sec(5)}, {Steady: sec(10), Warmup: sec(4)}, {Steady: sec(10), Rate: 1.5}, {Steady: sec(10), Rate: 0.5}, {Drain: sec(9)}}, int64(time.Minute))
	if len(s) != 4 || s.zero() != int64(64*time.Second) || s.end() != int64(90*time.Second) {
		t.Fatalf("%d parts, zero %s, end %s", len(s), time.Duration(s.zero()), time.Duration(s.end()))
	}
	hint := 0
	for _, c := range []struct{ virtual, real, part int }{
		{0, 60, 0}, {4, 64, 1}, {9, 69, 1}, {10, 70, 2}, {13, 72, 2}, {25, 80, 3}, {26, 82, 3}, {29, 88, 3},
	} {
		at := s.real(int64(sec(c.virtual)), &hint)
		if at != int64(sec(c.real)) || s.at(at) != c.part {
			t.Errorf("virtual %d s is %s in part %d, want %d s in part %d", c.virtual, time.Duration(at), s.at(at), c.real, c.part)
		}
	}
	if at := s.real(int64(sec(30)), &hint); at != never {
		t.Errorf("behind the end: %d", at)
	}
	if s.at(0) != -1 || s.at(s.end()) != -1 {
		t.Error("before the beginning or behind the end is a part")
	}
}

// TestScoreIsCut ends a phase early, and expects that earlier times stay and later phases follow at once.
func TestScoreIsCut(t *testing.T) {
	s := newScore([]scenario.Phase{{Step: sec(10), By: 0.5, To: 2}, {Steady: sec(10), Rate: 0.5}}, 0)
	if len(s) != 4 || s[2].Rate != 2 {
		t.Fatalf("%+v", s)
	}
	c := s.cut(int64(sec(12)))
	if len(c) != 3 || c[0] != s[0] || c[1].To != int64(sec(12)) || c[2].From != int64(sec(12)) || c[2].To != int64(sec(22)) || c[2].Virtual != int64(sec(13)) {
		t.Errorf("%+v", c)
	}
}
