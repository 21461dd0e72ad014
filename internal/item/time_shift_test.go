package item

import (
	"testing"
	"time"
)

// FuzzTimeShift parses random texts as time shifts. A shift moves a time back by its delay at most.
func FuzzTimeShift(f *testing.F) {
	f.Add("/d-1h")
	f.Add("-1M/w+2y")
	f.Fuzz(func(t *testing.T, text string) {
		shift, problem := ParseTimeShift(text)
		if ParseAmount(text); problem != "" || len(text) > 20 {
			return
		}
		start := time.Date(2026, 12, 1, 10, 20, 30, 0, time.UTC)
		if back := start.Sub(shift.Apply(start)); back > shift.Delay()+48*time.Hour {
			t.Fatalf("%q: %s back, at most %s", text, back, shift.Delay())
		}
	})
}
