package plan

import (
	"reflect"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// sec returns a duration of n seconds.
func sec(n int) model.Duration { return model.Duration(time.Duration(n) * time.Second) }

// TestTimetableMapsVirtualTime expects that virtual time runs faster and slower with the rates of phases, and that its real
// times are in order.
func TestTimetableMapsVirtualTime(t *testing.T) {
	s := NewTimetable([]scenario.Phase{{Ramp: sec(5)}, {Steady: sec(10), Warmup: sec(4)}, {Steady: sec(10), Rate: 1.5}, {Steady: sec(10), Rate: 0.5}, {Drain: sec(9)}}, int64(time.Minute))
	if len(s) != 4 || s.Zero() != int64(64*time.Second) || s.End() != int64(90*time.Second) {
		t.Fatalf("%d parts, zero %s, end %s", len(s), time.Duration(s.Zero()), time.Duration(s.End()))
	}
	hint := 0
	for _, c := range []struct{ virtual, real, part int }{
		{0, 60, 0}, {4, 64, 1}, {9, 69, 1}, {10, 70, 2}, {13, 72, 2}, {25, 80, 3}, {26, 82, 3}, {29, 88, 3},
	} {
		at := s.Real(int64(sec(c.virtual)), &hint)
		if at != int64(sec(c.real)) || s.At(at) != c.part {
			t.Errorf("virtual %d s is %s in part %d, want %d s in part %d", c.virtual, time.Duration(at), s.At(at), c.real, c.part)
		}
	}
	if at := s.Real(int64(sec(30)), &hint); at != Never {
		t.Errorf("behind the end: %d", at)
	}
	if s.At(0) != -1 || s.At(s.End()) != -1 {
		t.Error("before the beginning or behind the end is a part")
	}
}

// TestTimetableIsCut ends a phase early, and expects that earlier times stay and later phases follow at once.
func TestTimetableIsCut(t *testing.T) {
	s := NewTimetable([]scenario.Phase{{Step: sec(10), By: 0.5, To: 2}, {Steady: sec(10), Rate: 0.5}}, 0)
	if len(s) != 4 || s[2].Rate != 2 {
		t.Fatalf("%+v", s)
	}
	c := s.Cut(int64(sec(12)))
	if len(c) != 3 || c[0] != s[0] || c[1].To != int64(sec(12)) || c[2].From != int64(sec(12)) || c[2].To != int64(sec(22)) || c[2].Virtual != int64(sec(13)) {
		t.Errorf("%+v", c)
	}
}

// TestTimetableStopped cuts a timetable off, and expects that earlier parts stay and the last one is shorter.
func TestTimetableStopped(t *testing.T) {
	s := Timetable{{Phase: 1, From: 0, To: 10, Rate: 1}, {Phase: 1, From: 10, To: 30, Virtual: 10, Rate: 1, Measured: true}, {Phase: 2, From: 30, To: 50, Virtual: 30, Rate: 2, Measured: true}}
	for _, c := range []struct {
		at, end int64
		parts   int
		short   bool
	}{{5, 5, 1, true}, {10, 10, 1, false}, {20, 20, 2, true}, {31, 31, 3, true}, {50, 50, 3, false}, {70, 50, 3, false}} {
		got := s.Stopped(c.at)
		if len(got) != c.parts || got.End() != c.end || got[len(got)-1].Short != c.short {
			t.Errorf("at %d: %+v", c.at, got)
		}
		for i := range got[:len(got)-1] {
			if got[i] != s[i] {
				t.Errorf("at %d: part %d is %+v", c.at, i, got[i])
			}
		}
	}
	if s[2].Short || s.End() != 50 {
		t.Errorf("the timetable itself was changed: %+v", s)
	}
}

// TestTimetablesTravel converts a timetable to the time of another loader, and expects the same parts; it expects an error
// for invalid ones.
func TestTimetablesTravel(t *testing.T) {
	phases := []scenario.Phase{{Steady: sec(4), Warmup: sec(1)}, {Step: sec(5), Rate: 1, By: 1, To: 4}, {Steady: sec(3), Rate: 0.5}}
	s := NewTimetable(phases, 1000).Cut(1000 + 12e9)
	got := s.Since(1000).Since(-5000)
	if err := s.Since(1000).Check(len(phases)); err != nil || len(got) != len(s) || got.End()-5000 != s.End()-1000 {
		t.Fatalf("%v, %v", got, err)
	}
	if again := got.Since(5000).Since(-1000); !reflect.DeepEqual(again, s) {
		t.Errorf("%v\n%v", s, again)
	}
	for name, spoil := range map[string]func(list []Part){
		"a hole":               func(l []Part) { l[1].From++ },
		"backwards":            func(l []Part) { l[1].To = l[1].From - 1 },
		"no rate":              func(l []Part) { l[2].Rate = 0 },
		"a phase that is not":  func(l []Part) { l[0].Phase = 3 },
		"before the beginning": func(l []Part) { l[0].Virtual = -1 },
	} {
		list := s.Since(1000)
		spoil(list)
		if list.Check(len(phases)) == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// TestRatesAreSetWhereTheyAreFound sets the saturation while a later phase already plays, and expects the new rate from
// that time on, until other steps find another.
func TestRatesAreSetWhereTheyAreFound(t *testing.T) {
	phases := []scenario.Phase{{Step: sec(10), By: 0.5, To: 2}, {Steady: sec(10), Rate: 0.5, Of: scenario.Saturation}, {Steady: sec(10)},
		{Step: sec(10), By: 1, To: 2}, {Steady: sec(10), Rate: 3, Of: scenario.Saturation}}
	s := NewTimetable(phases, int64(sec(5)))
	if s[3].Rate != 1 || s[7].Rate != 6 {
		t.Fatalf("as planned: %+v", s)
	}
	f := s.Saturated(phases, 0, 1.5, int64(sec(37)))
	if len(f) != len(s)+1 || f[3].Rate != 1 || f[3].Measured || f[3].To != int64(sec(37)) || f[4].Rate != 0.75 || !f[4].Measured || f[5].Rate != 1 || f[8].Rate != 6 {
		t.Errorf("found late: %+v", f)
	}
	for i := 1; i < len(f); i++ {
		if f[i].From != f[i-1].To || f[i].Virtual != f[:i].ended() {
			t.Errorf("a hole before part %d: %+v", i, f)
		}
	}
	if f.End() != s.End() {
		t.Errorf("it ends at %d, not %d", f.End(), s.End())
	}
}

// TestTimetableOfAPipeline expects that virtual time runs faster only where speed returns another rate.
func TestTimetableOfAPipeline(t *testing.T) {
	s := NewTimetable([]scenario.Phase{{Steady: sec(20), Rate: 1}, {Steady: sec(20), Rate: 1}, {Steady: sec(20), Rate: 3}}, 0).
		Sped(func(phase int) float64 { return []float64{1, 4, 1}[phase] })
	for _, c := range []struct{ virtual, real int }{{10, 10}, {20, 20}, {60, 30}, {110, 50}} {
		if at := s.Meant(int64(sec(c.virtual))); at != int64(sec(c.real)) {
			t.Errorf("virtual %d s is meant at %s, want %d s", c.virtual, time.Duration(at), c.real)
		}
		if v := s.VirtualAt(int64(sec(c.real))); v != int64(sec(c.virtual)) {
			t.Errorf("at %d s it is virtually %s", c.real, time.Duration(v))
		}
	}
	if s.Meant(int64(sec(120))) != Never || s.VirtualAt(int64(sec(99))) != int64(sec(120)) || s.VirtualAt(-1) >= 0 {
		t.Errorf("beyond its ends: %d, %d, %d", s.Meant(int64(sec(120))), s.VirtualAt(int64(sec(99))), s.VirtualAt(-1))
	}
}
