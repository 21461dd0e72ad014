package cli

import (
	"testing"
	"time"
)

// What lies ahead is told in the nearest whole units: what was made for a year a second
// ago ends in 365 days, and not in 364.
func TestUntil(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := &app{Env: &Env{Now: func() time.Time { return now }}}
	for after, want := range map[time.Duration]string{
		365*24*time.Hour - time.Second: "in 365d", 90*24*time.Hour - 5*time.Minute: "in 90d", 24*time.Hour - time.Second: "in 1d",
		time.Hour - time.Second: "in 1h", 90 * time.Second: "in 1m30s", 36*time.Hour + 4*time.Minute: "in 36h", 0: "expired",
	} {
		if got := a.until(now.Add(after)); got != want {
			t.Errorf("%s ahead: %q, want %q", after, got, want)
		}
	}
	if got := a.until(time.Time{}); got != "never" {
		t.Errorf("without an end: %q", got)
	}
}
